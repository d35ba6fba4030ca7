"""Decisions and evictions against an API server that fails, or changes, at every moment between them."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import pytest
from prometheus_client import CollectorRegistry

from kubeapi import ApiError, ApiServer, ApiUnavailable
from kubeapi.events import EventRecorder
from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.reclaim.budgets import BudgetsRule
from scheduler_plugins.reclaim.controller import Clocks, Controller
from scheduler_plugins.reclaim.judging import Judge
from scheduler_plugins.reclaim.leader import Leader, LeaseName, NotLeading
from scheduler_plugins.reclaim.metrics import ReclaimMetrics
from scheduler_plugins.reclaim.pending import Pending
from scheduler_plugins.reclaim.settings import ReclaimSettings
from scheduler_plugins.reclaim.telling import Teller
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.reclaim.worlds import GPU, NOW, World

OURS: Final = "headroom-scheduler"
QUOTAS: Final = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/elasticquotas"

Json = dict[str, Any]


class Died(Exception):  # noqa: N818 - it is no error of the program
    """The process ended here."""


class Server:
    """An API server with pods and quotas, which can fail at any request."""

    def __init__(self) -> None:
        self.pods: dict[str, Json] = {}
        self.quotas: dict[str, list[Json]] = {}
        self.log: list[str] = []
        self.before: Callable[[str], None] = lambda _: None
        """Is told of each request before it is answered, and may raise."""
        self.version = 100

    def guarded(self, _may_write_for: Callable[[], float]) -> "Server":
        """Itself."""
        return self

    async def get(self, path: str) -> Json:
        """A pod."""
        return copy.deepcopy(self._found("GET", path))

    async def list(self, path: str) -> tuple[Sequence[Json], str]:
        """The quotas of a namespace."""
        self.before(f"LIST {path}")
        return self.quotas.get(path.split("/")[-2], []), ""

    async def patch(self, path: str, body: Json, content_type: str) -> Json:
        """Change a pod's status."""
        assert content_type == "application/strategic-merge-patch+json"
        pod = self._found("PATCH", path.removesuffix("/status"))
        metadata = body["metadata"]
        if metadata["uid"] != pod["metadata"]["uid"] or metadata.get("resourceVersion") not in (None, _version(pod)):
            raise ApiError(409, "Conflict", "it has been changed")
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        annotations = {**pod["metadata"].get("annotations", {}), **metadata.get("annotations", {})}
        pod["metadata"]["annotations"] = {name: text for name, text in annotations.items() if text is not None}
        conditions = {each["type"]: each for each in (*pod["status"].get("conditions", ()), *_conditions(body))}
        pod["status"]["conditions"] = [each for each in conditions.values() if each.get("$patch") != "delete"]
        if "nominatedNodeName" in body["status"]:
            pod["status"]["nominatedNodeName"] = body["status"]["nominatedNodeName"]
        return copy.deepcopy(pod)

    async def create(self, path: str, _body: Json) -> Json:
        """Evict a pod."""
        self._end("EVICT", path.removesuffix("/eviction"))
        return {}

    async def delete(self, path: str, body: Json) -> Json:
        """Delete a pod."""
        assert body["preconditions"]["uid"] == self.pods[path]["metadata"]["uid"]
        self._end("DELETE", path)
        return {}

    def _end(self, verb: str, path: str) -> None:
        self._found(verb, path)["metadata"]["deletionTimestamp"] = "2026-01-01T02:00:00Z"

    def _found(self, verb: str, path: str) -> Json:
        self.before(f"{verb} {path.rpartition('/')[2]}")
        self.log.append(f"{verb} {path.rpartition('/')[2]}")
        if path not in self.pods:
            raise ApiError(404, "NotFound", "not found")
        return self.pods[path]

    @property
    def evicted(self) -> Sequence[str]:
        """Names of the pods that were told to leave, in order."""
        return [line.split()[1] for line in self.log if line.startswith(("EVICT", "DELETE"))]


def _version(pod: Json) -> str:
    return str(pod["metadata"]["resourceVersion"])


def _conditions(body: Mapping[str, Any]) -> Sequence[Json]:
    return list(body["status"].get("conditions", ()))


class Play:
    """A borrower with two pods on a node of three GPUs, and a lender who wants two of them back.

    Args:
        settings: of reclaim.
    """

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - of ReclaimSettings
        self.server = Server()
        self.world = World({"n1": 3}, {"a": (1, 3), "b": (2, 3)})
        self.now = NOW
        self.leads = True
        self.settings = ReclaimSettings(**settings)
        for namespace, least in (("a", 1), ("b", 2)):
            spec = {"min": {GPU: str(least)}, "max": {GPU: "3"}}
            self.server.quotas[namespace] = [{"metadata": {"name": "q", "namespace": namespace}, "spec": spec}]
        for name, started in (("a1", 0), ("a2", 1)):
            status = {"phase": "Running", "startTime": f"2026-01-01T00:00:0{started}Z"}
            self.add("a", name, 1, {"nodeName": "n1"}, status)
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
        self.add("b", "b1", 2, {"schedulerName": OURS}, {"conditions": [refused]})
        self.start()

    def add(self, namespace: str, name: str, gpus: int, spec: Json, status: Json) -> None:
        """A pod on the server."""
        metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "resourceVersion": "1"}
        containers = [{"name": "main", "resources": {"requests": {GPU: str(gpus)}}}]
        pod = {"metadata": metadata, "spec": {"containers": containers, **spec}, "status": status}
        self.server.pods[f"/api/v1/namespaces/{namespace}/pods/{name}"] = pod

    def start(self) -> None:
        """A program that knows nothing but what the server says: the first one, or the next."""
        for uid in list(self.world.cluster.pods):
            self.world.cluster.delete_pod(uid)
        metrics, lease = ReclaimMetrics(CollectorRegistry()), LeaseName("ns", "lease")
        cache = ClusterCache(LoadRules(), {})
        api = cast("ApiServer", self.server)
        judge = Judge(self.world.cluster, cache, Cycle([]), self.settings, metrics)
        self.pending = Pending(frozenset({OURS}), lambda _: None)
        leader = Leader(api, lease, "me")
        leader.leads = lambda: self.leads  # type: ignore[method-assign]
        clocks = Clocks(lambda: self.now, lambda: self.now)
        teller = Teller(EventRecorder(api, OURS))
        self.controller = Controller(self.settings, judge, self.pending, api, leader, teller, metrics, clocks)
        self.watch()

    def watch(self) -> None:
        """The watch catches up."""
        there = {pod["metadata"]["uid"] for pod in self.server.pods.values()}
        for uid in set(self.world.cluster.pods) - there:
            self.world.cluster.delete_pod(uid)
            self.pending.delete_pod(uid)
        for pod in copy.deepcopy(list(self.server.pods.values())):
            self.world.cluster.put_pod(pod)
            self.pending.put_pod(pod)

    async def live(self, rounds: int = 6) -> None:
        """Time passes, and the watch is always up to date."""
        for _ in range(rounds):
            await self.controller.look()
            self.watch()
            self.now += 1

    def held(self) -> bool:
        """Whether the server has a hold for b1."""
        return "headroom.sh/reclaim-hold" in self.pod("b1")["metadata"].get("annotations", {})

    def pod(self, name: str) -> Json:
        """A pod on the server."""
        return next(pod for path, pod in self.server.pods.items() if path.endswith(f"/{name}"))

    def end(self, *names: str) -> None:
        """Pods are gone from the server."""
        for path in [path for path in self.server.pods if path.rpartition("/")[2] in names]:
            del self.server.pods[path]
        self.watch()


async def test_hold_comes_first() -> None:
    """Nobody is evicted before the hold is written, and seen by our own watch; then just whom it names."""
    play = Play()
    await play.controller.look()
    assert (play.held(), play.server.evicted) == (True, [])
    await play.controller.look()
    assert play.server.evicted == []  # the watch has not shown it
    play.watch()
    await play.controller.look()
    assert play.server.evicted == ["a2"]
    assert play.pod("b1")["status"]["nominatedNodeName"] == "n1"
    (target,) = play.pod("a2")["status"]["conditions"]
    assert (target["type"], target["reason"]) == ("DisruptionTarget", "PreemptionByScheduler")


@pytest.mark.parametrize("rule", list(BudgetsRule))
async def test_death_at_every_request(rule: BudgetsRule) -> None:
    """Wherever the process ends, before or after a request took effect, the next one evicts the same, once."""
    whole = Play(disruption_budgets=rule)
    requests: list[str] = []
    whole.server.before = requests.append
    await whole.live(3)
    assert whole.server.evicted == ["a2"]

    for end in range(len(requests)):
        play, count = Play(disruption_budgets=rule), 0

        def dies(_request: str, end: int = end) -> None:
            nonlocal count
            count += 1
            if count == end + 1:
                raise Died

        play.server.before = dies
        with pytest.raises(Died):
            await play.live(3)
        play.server.before = lambda _: None
        done, held = list(play.server.evicted), play.held()
        play.start()  # the next one
        assert play.held() == held
        await play.live(4)
        assert play.server.evicted == ["a2"], (end, requests[end], done)
        assert play.held()


async def test_room_is_used_and_nobody_more_leaves() -> None:
    """Once the victim is gone and the pod bound, nothing happens any more."""
    play = Play()
    await play.live()
    play.end("a2")
    await play.live(3)
    assert play.server.log[-1].startswith("PATCH b1")  # kube-scheduler is told to look again
    play.pod("b1")["spec"]["nodeName"] = "n1"
    play.watch()
    log = list(play.server.log)
    await play.live()
    assert play.server.log == log
    assert play.server.evicted == ["a2"]


async def test_preemptor_goes_in_between() -> None:
    """The pod is deleted after the hold was seen, and only the server knows: nobody leaves."""
    play = Play()
    await play.controller.look()
    play.watch()
    play.pod("b1")["metadata"]["deletionTimestamp"] = "2026-01-01T02:00:00Z"
    await play.controller.look()
    assert play.server.evicted == []
    await play.live()
    assert play.server.evicted == []


async def test_preemptor_is_bound_in_between() -> None:
    """kube-scheduler bound the pod meanwhile: the hold cannot be written, and nobody leaves."""
    play = Play()
    pod = play.pod("b1")
    pod["spec"]["nodeName"], pod["metadata"]["resourceVersion"] = "n1", "2"
    await play.controller.look()
    assert not play.held()
    await play.live()
    assert play.server.evicted == []


async def test_quota_changes_in_between() -> None:
    """A quota that the server has otherwise than we know it: nobody leaves before the watch has brought it."""
    play = Play()
    await play.controller.look()
    play.watch()
    (quota,) = play.server.quotas["a"]
    quota["spec"] = {"min": {GPU: "3"}, "max": {GPU: "3"}}
    await play.live()
    assert play.server.evicted == []
    play.world.cluster.put_quota(quota)  # the borrower borrows nothing any more
    await play.live()
    assert (play.held(), play.server.evicted) == (False, [])


async def test_victim_ends_in_between() -> None:
    """A victim that ended by itself after the hold was written: there is room, and nobody else leaves."""
    play = Play()
    await play.controller.look()
    play.end("a2")
    await play.live()
    assert play.server.evicted == []


async def test_another_pod_of_that_name() -> None:
    """A victim that was replaced by a pod of its name, and the watch does not know: that one stays."""
    play = Play()
    await play.controller.look()
    play.watch()
    play.pod("a2")["metadata"]["uid"] = "another"
    await play.controller.look()
    assert play.server.evicted == []


async def test_budget_says_no() -> None:
    """The Eviction API refuses: the hold is withdrawn, nobody left, and that node rests for a while."""
    play = Play()

    def refuses(request: str) -> None:
        if request.startswith("EVICT"):
            raise ApiUnavailable("Cannot evict pod as it would violate the pod's disruption budget.", 429)

    play.server.before = refuses
    await play.controller.look()
    play.watch()
    assert play.held()
    await play.live()
    assert (play.held(), play.server.evicted) == (False, [])
    assert not any(each["type"].startswith("headroom") for each in play.pod("b1")["status"]["conditions"])
    play.server.before = lambda _: None
    await play.live(20)
    assert play.server.evicted == []
    await play.live(20)
    assert play.server.evicted == ["a2"]


async def test_leader_changes_in_between() -> None:
    """Who leads no longer writes no more; the next one goes on from the hold."""
    play = Play()
    await play.controller.look()
    play.watch()
    play.leads = False
    await play.live()
    assert play.server.evicted == []
    play.start()
    play.leads = True
    await play.live()
    assert play.server.evicted == ["a2"]


async def test_right_ends_in_a_write() -> None:
    """The session itself refuses the write when the right has ended meanwhile."""
    play = Play()

    def ends(request: str) -> None:
        if request.startswith("EVICT"):
            raise NotLeading("this replica does not lead any more")

    play.server.before = ends
    await play.controller.look()
    play.watch()
    with pytest.raises(NotLeading):
        await play.controller.look()
    assert (play.held(), play.server.evicted) == (True, [])


async def test_stubborn_victim_expires_the_hold() -> None:
    """A hold expires after the grace period and holdSeconds; then the pod waits, longer after each attempt."""
    play = Play(hold_seconds=10.0, back_off_seconds=20.0)
    play.pod("a2")["spec"]["terminationGracePeriodSeconds"] = 5
    await play.live(14)
    assert play.server.evicted == ["a2"]
    assert play.pod("b1")["status"]["nominatedNodeName"] == "n1"
    await play.live(4)
    assert play.pod("b1")["status"]["nominatedNodeName"] is None  # nothing is kept for it any more
    assert not play.world.cluster.holding(play.now)
    log = list(play.server.log)
    await play.live(15)
    assert play.server.log == log
    assert play.server.evicted == ["a2"]


async def test_lost_node_costs_no_attempt() -> None:
    """Room on a node that is gone is none: the pod is decided for anew at once, and not made to wait."""
    play = Play()
    await play.live(3)
    assert play.server.evicted == ["a2"]
    play.world.cluster.delete_node("n1")
    play.end("a2")
    has = {GPU: "2", "cpu": "9", "pods": "9"}
    play.world.cluster.put_node({"metadata": {"name": "n2"}, "status": {"allocatable": has}})
    play.add("a", "a3", 2, {"nodeName": "n2"}, {"phase": "Running", "startTime": "2026-01-01T00:00:05Z"})
    play.watch()
    await play.live()
    assert play.server.evicted == ["a2", "a3"]
    assert '"attempt": 1' in play.pod("b1")["metadata"]["annotations"]["headroom.sh/reclaim-hold"]


async def test_rate_is_kept() -> None:
    """No more evictions than the rate allows; the rest follows."""
    play = Play(eviction_burst=1, evictions_per_second=0.1)
    for namespace, least in (("a", "0"), ("b", "3")):
        (quota,) = play.server.quotas[namespace]
        quota["spec"] = {"min": {GPU: least}, "max": {GPU: "3"}}
        play.world.cluster.put_quota(quota)
    play.pod("b1")["spec"]["containers"][0]["resources"]["requests"][GPU] = "3"
    play.watch()
    await play.live(4)
    assert len(play.server.evicted) == 1
    await play.live(12)
    assert sorted(play.server.evicted) == ["a1", "a2"]


async def test_rehearsal_writes_nothing() -> None:
    """With dryRun nothing is written."""
    play = Play(dry_run=True)
    await play.live()
    assert play.server.log == []
