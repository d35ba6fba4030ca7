"""Pods as large as the API server allows, on the real kube-scheduler with the shipped timeout: quotas stay in force."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.scheduler_plugins.extenders import Json, configuration, profile, until
from tests.scheduler_plugins.quota_teams import CAPACITY_SCHEDULING, Team, give_gpus, teams
from tests.scheduler_plugins.stage import Stage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAME: Final = "large-pods"
POOL: Final[Json] = {"key": "pool", "value": NAME, "effect": "NoSchedule"}
NODES, PODS, MOST = 100, 24, 2
LARGE: Final[Json] = {
    "tolerations": [{"key": "pool", "operator": "Exists"}]
    + [{"key": f"t{each}", "operator": "Exists"} for each in range(24_000)]
}
"""The other fields that may be large: `test_largest_pods.py`."""


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """A hundred nodes with a soft taint, and kube-scheduler with the shipped timeout: it skips a late extender."""
    with Stage.open(cluster, NAME, NODES) as stage:
        give_gpus(stage, 1)
        soft = {"key": "soft", "value": "1", "effect": "PreferNoSchedule"}
        for name in stage.nodes:
            stage.cluster.api.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": [POOL, soft]}})
        extender = stage.add_extender(f"extender-{NAME}", profile(plugins=[CAPACITY_SCHEDULING]))
        extender.wait()
        found = configuration("shortlist", NAME, extender.url)
        found["extenders"][0] |= {"httpTimeout": "1s", "ignorable": True}
        stage.add_scheduler(NAME, found)
        yield stage


def _conditions(pod: Json) -> str:
    return " ".join(each.get("message", "") for each in pod["status"].get("conditions", ()))


def test_large_pods_of_one_tenant_leave_quotas_in_force(stage: Stage) -> None:
    """Of 24 pods behind 24 pods of a megabyte as many are bound as the quota allows; the large ones are refused."""
    with teams(stage, {"small": (MOST, MOST)}) as made:
        (team,) = made.values()
        large: list[Any] = [stage.pod(f"large-{each}", NAME, **LARGE) for each in range(PODS)]
        stage.create(*large)
        team.create(*(team.pod(f"small-{each}", NAME) for each in range(PODS)))
        _all_tried(stage, team)
        assert len(team.bound()) == MOST
        items = stage.cluster.api.get(stage.path)["items"]
        assert not [pod for pod in items if pod["spec"].get("nodeName")]
        assert all(f"{NODES} the pod cannot be read: spec.tolerations: at most" in _conditions(pod) for pod in items)
        stage.clear()


def _all_tried(stage: Stage, team: Team) -> None:
    def tried() -> bool:
        pods = [*team.read().values(), *stage.cluster.api.get(stage.path)["items"]]
        return all(pod["spec"].get("nodeName") or _conditions(pod) for pod in pods)

    until(tried, "every pod being bound or refused")
