"""The chart on a real API server: what it may do there, and what it leaves alone."""

import json
from collections.abc import Iterator
from typing import Final

import pytest

from crds.names import CONFIG_MAP_NAME
from tests.charts.rendered import CHART
from tests.support.waiting import eventually
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAMESPACE: Final = "chart-test"
EDITED: Final = '{"enable": true, "midUnallocatedPercent": 7}'
SETTINGS: Final = (
    "--set",
    "manager.replicas=0",
    "--set",
    "scheduler.replicas=0",
    "--set",
    "agent.nodeSelector.no=node",
    "--set",
    "colocationConfig.enable=false",  # no manager creates the ConfigMap here
)


@pytest.fixture
def installed(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with the chart installed; no pod runs, because no replica is requested and no node is selected."""
    cluster.helm("install", "headroom", str(CHART), "-n", NAMESPACE, "--create-namespace", *SETTINGS)
    yield cluster
    if "headroom" in cluster.helm("list", "-q", "-n", NAMESPACE):
        cluster.helm("uninstall", "headroom", "-n", NAMESPACE, "--no-hooks")
    cluster.kubectl("-n", NAMESPACE, "delete", "configmap", CONFIG_MAP_NAME, "--ignore-not-found")


def config(cluster: Cluster) -> str:
    """The text of the colocation config."""
    found = cluster.kubectl("-n", NAMESPACE, "get", "configmap", CONFIG_MAP_NAME, "-o", "json")
    return str(json.loads(found)["data"]["colocation-config"])


def edit(cluster: Cluster) -> None:
    """Change the colocation config as an operator would."""
    patch = json.dumps({"data": {"colocation-config": EDITED}})
    cluster.kubectl("-n", NAMESPACE, "patch", "configmap", CONFIG_MAP_NAME, "--type", "merge", "-p", patch)


def test_server_accepts_everything(cluster: Cluster) -> None:
    """The API server accepts every object of the chart, with all optional parts."""
    cluster.helm(
        *("install", "headroom", str(CHART), "-n", "default", "--dry-run=server"),
        *("--set", "scheduler.mode=weighted", "--set", "imagePullSecrets[0].name=registry"),
        *("--set", "scheduler.profile.plugins[0].name=LoadAwareScheduling"),
    )


def test_edits_survive(installed: Cluster) -> None:
    """What an operator wrote into the ConfigMap survives upgrade, rollback, uninstall without hooks, and install."""
    assert json.loads(config(installed)) == {"enable": False}
    edit(installed)
    flags = ("-n", NAMESPACE, *SETTINGS)
    notes = installed.helm("upgrade", "headroom", str(CHART), *flags, "--set", "colocationConfig.enable=false")
    assert "was left as it is" in notes
    assert config(installed) == EDITED
    installed.helm("rollback", "headroom", "1", "-n", NAMESPACE)
    assert config(installed) == EDITED
    installed.helm("uninstall", "headroom", "-n", NAMESPACE, "--no-hooks")
    assert config(installed) == EDITED
    installed.helm("install", "headroom", str(CHART), *flags)
    assert config(installed) == EDITED


@pytest.mark.long
def test_deleted_config_comes_back(installed: Cluster) -> None:
    """An upgrade creates the ConfigMap again where it was deleted."""
    installed.kubectl("-n", NAMESPACE, "delete", "configmap", CONFIG_MAP_NAME)
    installed.helm("upgrade", "headroom", str(CHART), "-n", NAMESPACE, *SETTINGS)
    assert json.loads(config(installed)) == {"enable": False}


@pytest.mark.long
def test_classes_that_preempt_are_told(installed: Cluster) -> None:
    """The notes warn of a class whose pods preempt others, such as one of an older release."""
    old = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "koord-free"},
        "value": 3000,
    }
    installed.apply(old)
    flags = ("upgrade", "headroom", str(CHART), "-n", NAMESPACE, *SETTINGS)
    assert "WARNING: pods of PriorityClass koord-free have others evicted" in installed.helm(*flags)
    installed.kubectl("delete", "priorityclass", "koord-free")
    assert "have others evicted" not in installed.helm(*flags)


@pytest.mark.long
def test_missing_definition_is_told(installed: Cluster) -> None:
    """An upgrade of a release from before there were quotas reports that their CRD is not there, and what to do."""
    flags = ("upgrade", "headroom", str(CHART), "-n", NAMESPACE, *SETTINGS)
    warning = "This cluster does not know ElasticQuotas yet"
    assert warning not in installed.helm(*flags)
    installed.kubectl("delete", "crd", "elasticquotas.scheduling.x-k8s.io")
    try:
        notes = ""

        def is_reported() -> bool:  # the API server lists the kinds some time after a definition is gone
            nonlocal notes
            notes = installed.helm(*flags)
            return warning in notes

        eventually(is_reported, lambda: f"{warning} in {notes}")
        assert "kubectl apply --server-side --force-conflicts -f CHART/crds" in notes
    finally:
        installed.define(CHART / "crds" / "elastic_quota.yaml")
