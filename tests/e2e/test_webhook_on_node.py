"""The chart as it is on a real node: the API server calls the webhook's Service, and pods of our image answer."""

import json
from collections.abc import Iterator

import pytest

from manager.settings import WebhookSettings
from tests.e2e.agent_node import CHART, CONFIG_MAP, wait
from tools.devcluster import Cluster, CommandError

pytestmark = [pytest.mark.node, pytest.mark.timeout(600), pytest.mark.long]

NAMESPACE = "webhook-on-node"
SETTINGS = (
    "manager.replicas=2",
    "scheduler.enabled=false",
    "agent.nodeSelector.no=node",
    "priorityClasses.create=false",
    "uninstall.hook.enabled=false",  # it would take what other tests publish in the shared cluster
)
SECRET = WebhookSettings().secret_name
MANAGERS = ("-l", "app.kubernetes.io/name=headroom-manager")


class Installed:
    """The chart with two managers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def kubectl(self, *words: str) -> str:
        """What kubectl prints."""
        return self.cluster.kubectl("-n", NAMESPACE, *words)

    def refusal(self, config: str) -> str:
        """What an operator reads when an edit is refused; empty when it passes."""
        patch = json.dumps({"data": {"colocation-config": config}})
        try:
            self.kubectl("patch", "configmap", CONFIG_MAP, "--dry-run=server", "--type=merge", "-p", patch)
        except CommandError as error:
            return str(error)
        return ""

    def logs(self) -> dict[str, str]:
        """Manager pod -> its log."""
        names = self.kubectl("get", "pods", *MANAGERS, "-o", "name").split()
        return {name: self._log(name) for name in names}

    def _log(self, pod: str) -> str:
        try:
            return self.kubectl("logs", pod)
        except CommandError:  # it has not started yet, or it is gone
            return ""

    def refused_by(self) -> set[str]:
        """Edit once more; the manager pods that have refused an edit so far."""
        self.refusal('{"enabl": 1}')
        return {name for name, log in self.logs().items() if "Refused an edit" in log}

    def forgotten(self) -> bool:
        """Whether the Secret is gone."""
        return SECRET not in self.kubectl("get", "secrets", "-o", "name")


@pytest.fixture
def installed(real_node_cluster: Cluster) -> Iterator[Installed]:
    """The chart, installed as it is but for what this test does not need."""
    flags = [flag for setting in SETTINGS for flag in ("--set", setting)]
    cluster = real_node_cluster
    words = ("headroom", str(CHART), "-n", NAMESPACE, "--create-namespace", "--wait", "--timeout", "4m")
    cluster.helm("install", *words, *flags)
    yield Installed(cluster)
    if "headroom" in cluster.helm("list", "-q", "-n", NAMESPACE):
        cluster.helm("uninstall", "headroom", "-n", NAMESPACE, "--wait")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def test_api_server_calls_the_service(installed: Installed) -> None:
    """A bad edit is refused, by the other replica when one goes; uninstalled, nothing of the webhook is left."""
    refused = wait(lambda: installed.refusal('{"enabl": 1}'), seconds=120, what="a bad edit is refused")
    assert "enabl: unknown field: did you mean enable?" in refused
    assert installed.refusal('{"enable": false}') == ""
    first = wait(installed.refused_by, seconds=120, what="a replica's log says so")
    installed.kubectl("delete", "--wait=false", *first)
    wait(lambda: installed.refused_by() - first, seconds=120, what="the other replica refuses")
    logs = "".join(installed.logs().values())
    assert "Traceback" not in logs
    assert "orbidden" not in logs
    installed.cluster.helm("uninstall", "headroom", "-n", NAMESPACE, "--wait")
    wait(installed.forgotten, seconds=120, what="the Secret goes with its owner")
