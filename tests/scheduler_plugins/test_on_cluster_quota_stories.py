"""The user stories of capacity scheduling on the real kube-scheduler, step by step, with the results of each step.

They follow the design text: story 1 and story 2. Each step checks the running, pending and evicted pods, and each
quota's usage, both by the pods and by the quotas' status.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from crds.quantity import parse_quantity
from tests.audited import audited
from tests.scheduler_plugins import priorities
from tests.scheduler_plugins.extenders import Json, configuration, profile, until
from tests.scheduler_plugins.quota_teams import CAPACITY_SCHEDULING, GPU, Team, give_gpus, requested, teams
from tests.scheduler_plugins.stage import Stage
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

NAME: Final = "quota-stories"
PRIORITIES: Final = {"teams-low": 10, "teams-high": 1000}
LOW, HIGH = {"priorityClassName": "teams-low"}, {"priorityClassName": "teams-high"}


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    arguments = {"maxMissing": "infinite", "reclaim": {"schedulerNames": [NAME]}}
    with Stage.open(cluster, NAME, 1) as stage:
        for each, value in PRIORITIES.items():
            priorities.make(cluster, each, value)
        give_gpus(stage, 10)
        stage.add(NAME, profile(plugins=[{**CAPACITY_SCHEDULING, "args": arguments}]))
        stage.wait()
        yield stage
        for priority in PRIORITIES:
            priorities.remove(cluster, priority)


def standing(used: int, runs: str = "", waits: str = "") -> tuple[int, int, set[str], set[str]]:
    return used, used, set(runs.split()), set(waits.split())


def _state(team: Team) -> tuple[int, int, set[str], set[str]]:
    pods = team.read()
    bound = {name: pod for name, pod in pods.items() if pod["spec"].get("nodeName")}
    alive = {name: pod for name, pod in pods.items() if "deletionTimestamp" not in pod["metadata"]}
    runs = {name for name, pod in alive.items() if name in bound and pod["status"]["phase"] == "Running"}
    reported = team.stage.cluster.api.get(team.quota).get("status", {}).get("used", {}).get(GPU, -1)
    return sum(map(requested, bound.values())), int(parse_quantity(reported)), runs, alive.keys() - bound.keys()


@dataclass
class Scene:
    stage: Stage
    teams: dict[str, Team]

    def submit(self, team: str, name: str, gpus: int, **spec: Any) -> None:  # noqa: ANN401 - any field of a PodSpec
        result = self.teams[team]
        result.create(result.pod(name, NAME, gpus, terminationGracePeriodSeconds=30, **spec))

    def next_second(self) -> None:
        second = int(time.time())
        until(lambda: int(time.time()) > second, "the next second")

    def reach(self, **wanted: tuple[int, int, set[str], set[str]]) -> None:
        observed: Json = {}

        def there() -> bool:
            observed.update({name: _state(self.teams[name]) for name in wanted})
            return observed == wanted

        until(there, lambda: f"{wanted} instead of {observed}; evicted: {self.evicted()}")

    def stay(self, **wanted: tuple[int, int, set[str], set[str]]) -> None:
        """Check that teams have these pods, and keep them over further rounds of kube-scheduler and the controller."""
        self.reach(**wanted)
        self.stage.extenders[0].wait_for_rounds()
        self.reach(**wanted)

    def evicted(self) -> list[str]:
        result, mark = [], f'"namespace":"{self.teams["a"].name.removesuffix("a")}'
        for event in audited(self.stage.cluster, mark):
            about, code = event["objectRef"], event.get("responseStatus", {}).get("code", 0)
            by_us = event.get("userAgent", "").startswith("headroom") or "kube-scheduler" in event["user"]["username"]
            ends = event["verb"] == "delete" or (event["verb"] == "create" and about.get("subresource") == "eviction")
            if about["resource"] == "pods" and by_us and ends and code < 300:
                result.append(about["name"])
        return result

    def expect_evicted(self, *names: str) -> None:
        until(lambda: self.evicted() == list(names), lambda: f"{names} evicted: {self.evicted()}")

    def has_event(self, team: str, name: str, *words: str) -> None:
        def notes() -> list[str]:
            path = f"/apis/events.k8s.io/v1/namespaces/{self.teams[team].name}/events"
            about = [
                item for item in self.stage.cluster.api.get(path)["items"] if item["regarding"].get("name") == name
            ]
            return [f"{event['reason']}: {event.get('note', '')}" for event in about]

        until(
            lambda: any(all(word in note for word in words) for note in notes()),
            lambda: f"{words} in the events of {name}: {notes()}",
        )


def test_first_story(stage: Stage) -> None:
    """Story 1: user A borrows two GPUs of B's, B reclaims them from one pod, and pods above min stay pending."""
    with teams(stage, {"first-a": (4, 6), "first-b": (6, 8)}) as made:
        gpus = Scene(stage, dict(zip("ab", made.values(), strict=True)))
        gpus.submit("a", "a-1", 2)
        gpus.submit("b", "b-1", 3)
        gpus.reach(a=standing(2, "a-1"), b=standing(3, "b-1"))  # 1: both within min
        gpus.next_second()
        gpus.submit("a", "a-2", 2)
        gpus.reach(a=standing(4, "a-1 a-2"), b=standing(3, "b-1"))  # 2: A reaches its min
        gpus.next_second()
        gpus.submit("a", "a-3", 2)  # three GPUs are free, and A gets two of them
        gpus.reach(a=standing(6, "a-1 a-2 a-3"), b=standing(3, "b-1"))
        gpus.submit("a", "a-4", 1)
        gpus.has_event("a", "a-4", "FailedScheduling", "used 6", "max 6")
        gpus.stay(a=standing(6, "a-1 a-2 a-3", "a-4"), b=standing(3, "b-1"))  # 3: A at its max, two borrowed
        assert gpus.evicted() == []

        gpus.submit("b", "b-2", 3)  # one GPU is free, and B's min is 6
        gpus.reach(a=standing(4, "a-1 a-2", "a-4"), b=standing(6, "b-1 b-2"))  # 4: from 6/3 to 4/6
        gpus.expect_evicted("a-3")
        numbers = ("uses 6 of min 4 (nvidia.com/gpu)", "needs 3 of its min 6")
        gpus.has_event("a", "a-3", "Preempted", "/b-2", *numbers)
        gpus.has_event("b", "b-2", "Reclaiming", "/a-3", *numbers)

        gpus.submit("b", "b-3", 1)
        gpus.submit("b", "b-4", 2)
        for name in ("b-3", "b-4"):  # within B's max of 8, and all of A's GPUs are guaranteed by now
            gpus.has_event("b", name, "FailedScheduling", "Insufficient nvidia.com/gpu")
            gpus.has_event("b", name, "ReclaimImpossible")
        gpus.stay(a=standing(4, "a-1 a-2", "a-4"), b=standing(6, "b-1 b-2", "b-3 b-4"))
        gpus.expect_evicted("a-3")


def test_second_story(stage: Stage) -> None:
    """Story 2: within its min B reclaims from A, which borrows; above it the victim is B's own low-priority pod."""
    with teams(stage, {"second-a": (3, 4), "second-b": (4, 6), "second-c": (3, 4)}) as made:
        gpus = Scene(stage, dict(zip("abc", made.values(), strict=True)))
        for team, amount in (("a", 2), ("b", 2), ("c", 3)):
            gpus.submit(team, f"{team}-1", amount, **LOW)
        gpus.reach(a=standing(2, "a-1"), b=standing(2, "b-1"), c=standing(3, "c-1"))  # 5: all within min
        gpus.next_second()
        gpus.submit("a", "a-2", 2, **LOW)
        gpus.submit("b", "b-2", 1, **LOW)
        gpus.reach(a=standing(4, "a-1 a-2"), b=standing(3, "b-1 b-2"), c=standing(3, "c-1"))  # 6: A at max, all in use

        gpus.submit("b", "b-3", 1, **LOW)  # B used 3 + 1 <= min 4: from quotas above min, only A's
        gpus.reach(a=standing(2, "a-1"), b=standing(4, "b-1 b-2 b-3"), c=standing(3, "c-1"))  # 7
        gpus.expect_evicted("a-2")

        made["second-b"].delete("b-1", "b-2", "b-3")
        gpus.submit("b", "pod-a", 2, **LOW)
        gpus.submit("b", "pod-b", 3, **HIGH)
        gpus.reach(a=standing(2, "a-1"), b=standing(5, "pod-a pod-b"), c=standing(3, "c-1"))  # 8: B's two pods have 5
        gpus.submit("b", "pod-0", 1, **LOW)  # B used 5 + 1 > min 4: own pods of lower priority only: none
        gpus.stay(a=standing(2, "a-1"), b=standing(5, "pod-a pod-b", "pod-0"), c=standing(3, "c-1"))
        gpus.expect_evicted("a-2")
        made["second-b"].delete("pod-0")
        gpus.submit("b", "pod-c", 1, **HIGH)
        gpus.stay(a=standing(2, "a-1"), b=standing(4, "pod-b pod-c"), c=standing(3, "c-1"))  # 9: PodA is the victim
        gpus.expect_evicted("a-2", "pod-a")
        gpus.has_event("b", "pod-a", "Preempted", "/pod-c", "uses 5 of min 4 (nvidia.com/gpu)", "needs 1 more")


# Pods of the API server's maximum size

NODES, PODS, MOST = 100, 24, 2
TOLERATIONS: Final[list[Json]] = [{"key": f"t{index}", "operator": "Exists"} for index in range(24_000)]
"""`test_largest_pods.py` covers the other fields that may be large."""


def _conditions(pod: Json) -> str:
    return " ".join(condition.get("message", "") for condition in pod["status"].get("conditions", ()))


def test_large_pods_of_one_tenant_leave_quotas_in_force(cluster: Cluster) -> None:
    """As many of 24 pods after 24 pods of a megabyte are bound as the quota allows; the large ones are rejected.

    On a hundred nodes with a soft taint, by a kube-scheduler with the shipped timeout: it skips a late extender.
    """
    name = "large-pods"
    with Stage.open(cluster, name, NODES) as stage, teams(stage, {"small": (MOST, MOST)}) as made:
        give_gpus(stage, 1)
        taints = [{"key": "pool", "value": name, "effect": "NoSchedule"}]
        taints.append({"key": "soft", "value": "1", "effect": "PreferNoSchedule"})
        for node in stage.nodes:
            cluster.api.merge(f"/api/v1/nodes/{node}", {"spec": {"taints": taints}})
        extender = stage.add_extender(f"extender-{name}", profile(plugins=[CAPACITY_SCHEDULING]))
        extender.wait()
        result = configuration("shortlist", name, extender.url)
        result["extenders"][0] |= {"httpTimeout": "1s", "ignorable": True}
        stage.add_scheduler(name, result)
        team = made["small"]
        team.known(MOST, MOST)
        tolerations = [{"key": "pool", "operator": "Exists"}, *TOLERATIONS]
        stage.create(*(stage.pod(f"large-{index}", name, tolerations=tolerations) for index in range(PODS)))
        team.create(*(team.pod(f"small-{number}", name) for number in range(PODS)))

        def large() -> list[Json]:
            items: list[Json] = cluster.api.get(stage.path)["items"]
            return items

        def tried() -> bool:
            return all(pod["spec"].get("nodeName") or _conditions(pod) for pod in [*team.read().values(), *large()])

        until(tried, "every pod being bound or refused")
        assert len(team.bound()) == MOST
        assert not [pod for pod in large() if pod["spec"].get("nodeName")]
        assert all(f"{NODES} the pod cannot be read: spec.tolerations: at most" in _conditions(pod) for pod in large())
