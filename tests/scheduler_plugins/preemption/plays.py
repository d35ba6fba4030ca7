"""An API server with injected failures, and a small scenario: a namespace borrows, its lender reclaims."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from prometheus_client import CollectorRegistry

from headroom.kube import ApiError, ApiServer
from headroom.kube.events import EventRecorder
from headroom.kube.lease import LeaseFollower, LeaseName
from headroom.runtime.clocks import Clocks, SlewedClock
from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.preemption.controller import Controller
from scheduler_plugins.preemption.evaluator import Evaluator
from scheduler_plugins.preemption.events import PreemptionEventRecorder
from scheduler_plugins.preemption.metrics import PreemptionMetrics
from scheduler_plugins.preemption.pending import Pending
from scheduler_plugins.preemption.settings import PreemptionSettings
from scheduler_plugins.quota.hold import LONGEST_SECONDS, Hold
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.headroom.kube.preconditions import check_options, check_patch
from tests.scheduler_plugins.preemption.worlds import GPU, NOW, World
from tools.soak.quota_history import Event, Evicted, HoldWritten

OURS: Final = "headroom-scheduler"
QUOTAS: Final = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/elasticquotas"

Json = dict[str, Any]


class Server:
    """An API server with pods and quotas, which can fail at any request."""

    def __init__(self) -> None:
        self.pods: dict[str, Json] = {}
        self.quotas: dict[str, list[Json]] = {}
        self.log: list[str] = []
        self.evicted: list[str] = []  # names of the evicted pods, in order
        self.history: list[Event] = []
        """The accepted writes, for the check of histories; times are lengths of the log."""
        self.writer = ""
        """The identity of the writer."""
        self.before: Callable[[str], None] = lambda _: None
        """A hook that gets each request before the response, and may raise."""
        self.version = 100

    def fail(self, request: str, error: BaseException, times: int = 10**4) -> None:
        """Fail the next requests with this prefix, before they take effect."""
        left = [error] * times

        def fails(received: str) -> None:
            if received.startswith(request) and left:
                raise left.pop()

        self.before = fails

    def guarded(self, _may_write_for: Callable[[], float]) -> "Server":
        return self

    async def get(self, path: str) -> Json:
        return copy.deepcopy(self._found("GET", path))

    async def list(self, path: str) -> tuple[Sequence[Json], str]:
        self.before(f"LIST {path}")
        return self.quotas.get(path.split("/")[-2], []), ""

    async def patch(self, path: str, body: Json, content_type: str) -> Json:
        assert content_type == "application/strategic-merge-patch+json"
        pod = self._found("PATCH", path.removesuffix("/status"))
        metadata = body["metadata"]
        check_patch(pod, body)
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        annotations = {**pod["metadata"].get("annotations", {}), **metadata.get("annotations", {})}
        pod["metadata"]["annotations"] = {name: text for name, text in annotations.items() if text is not None}
        conditions = {
            condition["type"]: condition
            for condition in (*pod["status"].get("conditions", ()), *body["status"].get("conditions", ()))
        }
        pod["status"]["conditions"] = [
            condition for condition in conditions.values() if condition.get("$patch") != "delete"
        ]
        if "nominatedNodeName" in body["status"]:
            pod["status"]["nominatedNodeName"] = body["status"]["nominatedNodeName"]
        hold = Hold.of_pod(pod)
        victims = frozenset(hold.victims) if hold is not None else frozenset()
        self.history.append(HoldWritten(len(self.log), self.writer, pod["metadata"]["uid"], victims))
        return copy.deepcopy(pod)

    async def create(self, path: str, body: Json) -> Json:
        pod, _, subresource = path.rpartition("/")
        assert (subresource, body["apiVersion"], body["kind"]) == ("eviction", "policy/v1", "Eviction")
        namespace, name = pod.split("/")[-3], pod.split("/")[-1]
        if (body["metadata"]["namespace"], body["metadata"]["name"]) != (namespace, name):
            raise ApiError(400, "BadRequest", "name in URL does not match name in Eviction object")
        self._end("EVICT", pod, body.get("deleteOptions"))
        return {}

    async def delete(self, path: str, body: Json | None = None) -> Json:
        self._end("DELETE", path, body)
        return {}

    def _end(self, verb: str, path: str, options: Json | None) -> None:
        pod = self._found(verb, path)
        check_options(pod, options)
        uid = pod["metadata"]["uid"]
        holds = ((entry["metadata"]["uid"], Hold.of_pod(entry)) for entry in self.pods.values())
        claimant = next((nominations for nominations, hold in holds if hold is not None and uid in hold.victims), "")
        self.history.append(Evicted(len(self.log), self.writer, uid, claimant))
        self.evicted.append(path.rpartition("/")[2])
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T02:00:00Z"

    def _found(self, verb: str, path: str) -> Json:
        self.before(f"{verb} {path.rpartition('/')[2]}")
        self.log.append(f"{verb} {path.rpartition('/')[2]}")
        if path not in self.pods:
            raise ApiError(404, "NotFound", "not found")
        return self.pods[path]


class Play:
    """A borrower with two pods on a node of three GPUs, and a lender that reclaims two of the GPUs."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - of ReclaimSettings
        self.server = Server()
        self.world = World({"n1": 3}, {"a": (1, 3), "b": (2, 3)})
        self.now = NOW
        self.ahead = 0.0
        """The total adjustment of the machine's clock. [s]"""
        self.leads = True
        self.settings = PreemptionSettings(**settings)
        self.put_quota("a", 1)
        self.put_quota("b", 2)
        for name, started in (("a1", 0), ("a2", 1)):
            status = {"phase": "Running", "startTime": f"2026-01-01T00:00:0{started}Z"}
            self.add("a", name, 1, {"nodeName": "n1"}, status)
        self.wait("b", "b1", 2)
        self.start()

    def add(self, namespace: str, name: str, gpus: int, spec: Json, status: Json) -> None:
        metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "resourceVersion": "1"}
        containers = [{"name": "main", "resources": {"requests": {GPU: str(gpus)}}}]
        pod = {"metadata": metadata, "spec": {"containers": containers, **spec}, "status": status}
        self.server.pods[f"/api/v1/namespaces/{namespace}/pods/{name}"] = pod

    def wait(self, namespace: str, name: str, gpus: int, **spec: Any) -> None:  # noqa: ANN401 - any field of a PodSpec
        """Create a pod on the server that kube-scheduler found no node for."""
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
        self.add(namespace, name, gpus, {"schedulerName": OURS, **spec}, {"conditions": [refused]})

    def put_quota(self, namespace: str, least: int) -> None:
        """Put a quota with a max of 3 on the server; the watch has not delivered it yet."""
        spec = {"min": {GPU: str(least)}, "max": {GPU: "3"}}
        self.server.quotas[namespace] = [{"metadata": {"name": "q", "namespace": namespace}, "spec": spec}]

    def start(self) -> None:
        """Start a process that knows only the server's state: the first one, or its successor."""
        for uid in list(self.world.cluster.pods):
            self.world.cluster.delete_pod(uid)
        self.registry = CollectorRegistry()
        metrics, lease = PreemptionMetrics(self.registry), LeaseName("ns", "lease")
        self.cache = ClusterCache(LoadRules(), {})
        api = cast("ApiServer", self.server)
        evaluator = Evaluator(self.world.cluster, self.cache, Cycle([]), self.settings, metrics)
        self.pending = Pending(frozenset({OURS}), lambda _: None)
        leader = LeaseFollower(api, lease, "me")
        leader.leads = lambda: self.leads  # type: ignore[method-assign]
        clocks = Clocks(lambda: self.now + self.ahead, lambda: self.now)
        calm = SlewedClock(clocks.wall, clocks.monotonic, LONGEST_SECONDS)
        self.world.cluster.present = lambda _: calm()
        recorder = PreemptionEventRecorder(EventRecorder(api, OURS))
        self.controller = Controller(self.settings, evaluator, self.pending, api, leader, recorder, metrics, clocks)
        self.watch()

    def watch(self) -> None:
        there = {pod["metadata"]["uid"] for pod in self.server.pods.values()}
        for uid in set(self.world.cluster.pods) - there:
            self.world.cluster.delete_pod(uid)
            self.pending.delete_pod(uid)
        for pod in copy.deepcopy(list(self.server.pods.values())):
            self.world.cluster.put_pod(pod)
            self.pending.put_pod(pod)

    async def hold(self) -> None:
        """Have the hold written and shown by the watch."""
        await self.controller.reconcile()
        self.watch()

    async def live(self, rounds: int = 6) -> None:
        for _ in range(rounds):
            await self.controller.reconcile()
            self.watch()
            self.now += 1

    def held(self) -> bool:
        return "headroom.dev/reclaim-hold" in self.pod("b1")["metadata"].get("annotations", {})

    def pod(self, name: str) -> Json:
        return next(pod for path, pod in self.server.pods.items() if path.endswith(f"/{name}"))

    def end(self, *names: str) -> None:
        for path in [path for path in self.server.pods if path.rpartition("/")[2] in names]:
            del self.server.pods[path]
        self.watch()
