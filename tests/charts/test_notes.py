"""What helm prints after an install: the next three commands, and who else is at work in the cluster."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Final

import pytest

from headroom.cli import arguments
from tests.charts.rendered import CHART
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

KOORDINATOR: Final = "koordinator-system"


def notes(cluster: Cluster, namespace: str, *settings: str) -> str:
    """The notes of an install that is not made."""
    flags = [flag for setting in settings for flag in ("--set", setting)]
    printed = cluster.helm("install", "headroom", str(CHART), "-n", namespace, "--dry-run=server", *flags)
    return printed.partition("NOTES:\n")[2]


def commands(text: str) -> list[str]:
    """The commands in them: indented lines, without what is a comment."""
    return [line.partition("#")[0].strip() for line in text.splitlines() if re.match(" {5}(kubectl|helm) ", line)]


@pytest.fixture
def koordinator(cluster: Cluster) -> Iterator[str]:
    """A namespace in which Koordinator seems to run."""
    cluster.create_namespace(KOORDINATOR)
    container = {"name": "c", "image": "none"}
    for kind, name in (("Deployment", "koord-manager"), ("DaemonSet", "koordlet"), ("Deployment", "koord-scheduler")):
        template = {
            "metadata": {"labels": {"a": name}},
            "spec": {"containers": [container], "nodeSelector": {"no": "node"}},
        }
        spec = {"selector": {"matchLabels": {"a": name}}, "template": template}
        body = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": KOORDINATOR},
            "spec": spec,
        }
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    yield KOORDINATOR
    cluster.kubectl("-n", KOORDINATOR, "delete", "deployment,daemonset", "--all")
    cluster.kubectl("-n", KOORDINATOR, "delete", "configmap", "slo-controller-config", "--ignore-not-found")


def test_next_commands_are_named(cluster: Cluster) -> None:
    """After an install: is all well, what is used and why nothing is published yet, and how to publish it."""
    text = notes(cluster, "default")
    assert commands(text) == [
        "kubectl headroom doctor -n default",
        "kubectl headroom top",
        "kubectl headroom explain node NODE -n default",
        "kubectl -n default edit configmap slo-controller-config",
    ]
    assert "it publishes nothing until you enable it (3)" in text
    assert [line[:2] for line in text.splitlines() if re.match(r"\d\.", line)] == ["1.", "2.", "3."]


def test_commands_are_understood(cluster: Cluster) -> None:
    """Every command of ours in the notes is one that kubectl-headroom takes, with another ConfigMap's name too."""
    printed = commands(notes(cluster, "default", "configMap.name=mine"))
    ours = [shlex.split(each)[2:] for each in printed if each.startswith("kubectl headroom ")]
    assert [arguments.parser().parse_args(each).command for each in ours] == ["doctor", "top", "explain"]
    assert {"--config-name", "mine"} <= set(ours[0])


def test_notes_follow_the_values(cluster: Cluster) -> None:
    """What is off is not mentioned; where Mid is published already, the notes state it."""
    text = notes(cluster, "default", "scheduler.enabled=false", "colocationConfig.enable=true")
    assert "schedulerName" not in text
    assert "Mid resources are published on Nodes" in text
    assert "publishes nothing" not in text
    assert "edit configmap" not in notes(cluster, "default", "manager.enabled=false")


def test_koordinator_is_named(cluster: Cluster, koordinator: str) -> None:
    """A live koord-manager and koordlet are named with what to do; what is switched off of ours is no conflict."""
    for namespace in ("default", koordinator):
        text = notes(cluster, namespace)
        assert text.count("WARNING: koord-manager runs in namespace koordinator-system") == 1
        assert text.count("WARNING: koordlet runs in namespace koordinator-system") == 1
        assert text.count("NOTE: koord-scheduler runs in namespace koordinator-system") == 1
        assert "kubectl -n koordinator-system scale deployment koord-manager --replicas=0" in commands(text)
    text = notes(cluster, "default", "agent.enabled=false", "manager.enabled=false", "scheduler.enabled=false")
    assert "koord" not in text.replace("koordinator.sh", "")


def test_nobody_else_is_named(cluster: Cluster) -> None:
    """Without Koordinator the notes do not mention it."""
    text = notes(cluster, "default")
    assert "WARNING" not in text
    assert "koord" not in text


def test_config_that_is_there_is_kept(cluster: Cluster, koordinator: str) -> None:
    """In Koordinator's namespace its ConfigMap is used as it is, and the notes state it."""
    cluster.kubectl(
        "-n", koordinator, "create", "configmap", "slo-controller-config", "--from-literal=colocation-config={}"
    )
    text = notes(cluster, koordinator)
    assert "ConfigMap slo-controller-config was left as it is" in text
    assert "publishes nothing" not in text
