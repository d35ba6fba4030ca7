import asyncio
import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from crds.names import ANNOTATION_CONFIG_STATE, TAINT_HOT
from headroom.kube import ApiError, ApiServer, ApiUnavailable, paths
from manager import cleanup, node_metric
from manager.cleanup import Cleanup, Options, Refused
from tests.support.api import FakeApi
from tests.support.objects import Json, mid_pod, node, pod

NS = "headroom-system"
DEPLOYMENT, SCHEDULER = (
    f"/apis/apps/v1/namespaces/{NS}/deployments/headroom-{name}" for name in ("manager", "scheduler")
)
LEASE, PLACER = (paths.lease(NS, name) for name in ("headroom-manager", "placer"))
CONFIG = paths.config_map(NS, "slo-controller-config")
SECRET = f"/api/v1/namespaces/{NS}/secrets/headroom-manager-webhook-tls"
RELEASE = f"/api/v1/namespaces/{NS}/secrets/sh.helm.release.v1.headroom.v3"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NODES = {"idle": ("4000", "10Gi"), "busy": ("6000", "8Gi"), "plain": None}
OURS = [{"manager": "headroom-manager", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]


class Installed:
    def __init__(self) -> None:
        self.api = FakeApi()
        self.now = 0.0
        self.happens: dict[float, Callable[[], None]] = {}
        for name, published in NODES.items():
            self.api.put(paths.node(name), node(name, mid=published))
            self.metric(name, OURS)
        self.api.put("/api/v1/pods/m", mid_pod("m", "2000", "1Gi", on="busy"))
        self.api.put("/api/v1/pods/done", mid_pod("done", on="idle", phase="Succeeded"))
        self.api.put("/api/v1/pods/p", pod("p", {"cpu": "1"}, on="idle"))
        notes = {ANNOTATION_CONFIG_STATE: "in force", "mine": "stays"}
        self.api.put(CONFIG, {"metadata": {"name": "slo-controller-config", "annotations": notes}, "data": {"a": "b"}})
        paths_of_maps = (paths.config_map(NS, name) for name in ("headroom-last-good-config", "headroom-shadow-3"))
        for path in (*paths_of_maps, SECRET, PLACER, DEPLOYMENT, SCHEDULER):
            self.api.put(path, {"metadata": {"name": path.rpartition("/")[2]}, "spec": {"replicas": 2}})
        self.lease("")
        self.release("uninstalling")

    def release(self, status: str, revision: int = 3, age_seconds: float = 5.0) -> None:
        labels = {"owner": "helm", "name": "headroom", "status": status, "version": str(revision)}
        written = datetime.fromtimestamp(self.api.server_time() - age_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = f"{RELEASE.removesuffix('3')}{revision}"
        managed = [{"manager": "Helm", "operation": "Update", "time": written}]
        self.api.put(path, {"metadata": {"name": path, "labels": labels, "managedFields": managed}})

    def metric(self, name: str, managed: list[Json]) -> None:
        self.api.put(node_metric.path(name), {"metadata": {"name": name, "uid": name, "managedFields": managed}})

    def lease(self, holder: str, renewed: int = 0) -> None:
        spec = {"holderIdentity": holder, "renewTime": f"2026-11-21T12:00:{renewed:02d}Z", "leaseDurationSeconds": 10}
        self.api.put(LEASE, {"metadata": {"name": "headroom-manager"}, "spec": spec})

    def renews(self, until: int) -> None:
        for second in range(until):
            self.happens[float(second)] = lambda second=second: self.lease("m-1", second)  # type: ignore[misc]

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        for when in sorted(happen for happen in self.happens if happen <= self.now):
            self.happens.pop(when)()

    async def run(self, **more: Any) -> list[str]:  # noqa: ANN401 - any option
        options = Options(namespace=NS, scheduler_name="placer", **more)
        return await Cleanup(cast("ApiServer", self.api), options, lambda: self.now, self.sleep).run()

    def mid(self, name: str) -> Json:
        status = self.api.objects[paths.node(name)]["status"]
        one, other = ({k: v for k, v in status[part].items() if "mid" in k} for part in ("capacity", "allocatable"))
        assert one == other
        return one

    def order(self) -> list[str]:
        return [path for method, path, _ in self.api.calls if method in {"PATCH", "DELETE", "POST"}]


@pytest.fixture
def installed() -> Installed:
    return Installed()


@pytest.fixture
def over() -> Installed:
    installed = Installed()
    del installed.api.objects["/api/v1/pods/m"]
    return installed


async def test_taints_of_hot_nodes_go(over: Installed) -> None:
    """The taint of hot nodes goes from every Node, and other taints stay."""
    gpu = {"key": "gpu", "effect": "NoSchedule"}
    for name in ("idle", "plain"):
        stored = over.api.objects[paths.node(name)]
        over.api.put(
            paths.node(name), {**stored, "spec": {"taints": [{"key": TAINT_HOT, "effect": "NoSchedule"}, gpu]}}
        )
    assert await over.run() == []
    assert [over.api.objects[paths.node(name)]["spec"]["taints"] for name in ("idle", "plain")] == [[gpu], [gpu]]


async def test_taint_that_may_not_be_removed_is_named(over: Installed) -> None:
    """Without the right to patch Nodes the cleanup goes on, and names the taint."""
    stored = over.api.objects[paths.node("idle")]
    over.api.put(paths.node("idle"), {**stored, "spec": {"taints": [{"key": TAINT_HOT, "effect": "NoSchedule"}]}})
    over.api.fails["PATCH /api/v1/nodes/idle"] = ApiError(403, "Forbidden", "cannot patch")
    left = await over.run()
    assert f"taint {TAINT_HOT} of Node idle: cannot patch (Forbidden, HTTP 403)" in left
    assert node_metric.path("idle") not in over.api.objects


async def test_nothing_is_left(over: Installed) -> None:
    """Afterwards no object of Headroom is left, and no foreign object is missing; also the second time."""
    over.api.put(paths.pod(NS, cleanup.TEST_POD), {"metadata": {"name": cleanup.TEST_POD}})
    for _ in range(2):
        assert await over.run() == []
        assert all(over.mid(name) == {} for name in NODES)
        nodes = {paths.node(name) for name in NODES}
        remaining = {"/api/v1/pods/done", "/api/v1/pods/p", CONFIG, DEPLOYMENT, SCHEDULER, RELEASE}
        assert set(over.api.objects) == {*nodes, *remaining}
        assert over.api.objects[CONFIG]["data"] == {"a": "b"}
        assert over.api.objects[CONFIG]["metadata"]["annotations"] == {"mine": "stays"}
        capacity = over.api.objects[paths.node("idle")]["status"]["capacity"]
        assert capacity == {"cpu": "16", "memory": "64Gi", "pods": "110"}


@pytest.mark.parametrize("status", ["deployed", "failed", "superseded"])
async def test_installed_release_is_left_alone(
    installed: Installed, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    """Unless helm deletes the release nothing is removed, as after `helm template | kubectl apply`."""
    installed.api.objects.pop("/api/v1/pods/m")
    installed.release(status)
    before = copy.deepcopy(installed.api.objects)
    assert await installed.run(delete_config=True, delete_priority_classes=True) == []
    assert installed.api.objects == before
    assert "Nothing was removed: Helm does not delete release headroom" in capsys.readouterr().out
    assert await installed.run(without_helm=True) == []
    assert installed.mid("idle") == {}


@pytest.mark.parametrize("rolled_back", [True, False])
async def test_uninstall_that_has_failed(installed: Installed, *, rolled_back: bool) -> None:
    """The status of a refused uninstall counts only for its revision, and only for minutes."""
    installed.api.objects.pop("/api/v1/pods/m")
    if rolled_back:
        installed.release("deployed", revision=10)
    else:
        installed.release("uninstalling", age_seconds=400.0)
    before = copy.deepcopy(installed.api.objects)
    assert await installed.run(delete_config=True, delete_priority_classes=True) == []
    assert installed.api.objects == before


async def test_annotation_that_a_refusal_prints_forces_the_removal(installed: Installed) -> None:
    installed.api.objects[DEPLOYMENT]["metadata"]["annotations"] = {"headroom.dev/uninstall": "force"}
    assert await installed.run() == []
    assert installed.mid("busy") == {}


async def test_running_mid_pods_refuse(installed: Installed, capsys: pytest.CaptureFixture[str]) -> None:
    """While Mid pods run nothing is touched, and each way on is named; with --force they keep nothing."""
    before = copy.deepcopy(installed.api.objects)
    with pytest.raises(Refused) as refused:
        await installed.run(delete_config=True, delete_priority_classes=True)
    assert installed.api.objects == before
    force, keep = "headroom.dev/uninstall=force", "helm rollback headroom 3 --namespace headroom-system"
    edit = "kubectl --namespace headroom-system edit configmap slo-controller-config"
    for part in (
        "nothing was changed",
        "shop/m on Node busy",
        '"enable": false',
        edit,
        force,
        keep,
        "`helm uninstall`",
    ):
        assert part in str(refused.value)
    assert await installed.run(force=True) == []
    assert installed.mid("busy") == {}
    assert "Nodes lost the resources of Mid pods that still run:\n  shop/m on Node busy" in capsys.readouterr().out


async def test_refusal_without_helm_names_the_job(installed: Installed) -> None:
    installed.release("deployed")
    with pytest.raises(Refused, match="Choose one of these, and then run this Job again") as refused:
        await installed.run(without_helm=True)
    assert "helm" not in str(refused.value)


async def test_services_are_stopped_before_anything_is_removed(over: Installed) -> None:
    over.lease("m-1")
    over.api.put(f"{paths.pods(NS)}/headroom-manager-1", {"metadata": {"name": "headroom-manager-1"}})
    over.renews(6)
    over.happens[7.0] = lambda: over.lease("")
    assert await over.run() == []
    assert [over.api.objects[path]["spec"]["replicas"] for path in (DEPLOYMENT, SCHEDULER)] == [0, 0]
    assert over.now >= 7.0 + 5.0  # while pods are left, a standby may take a Lease that was given back
    assert over.order()[:2] == [f"{DEPLOYMENT}/scale", f"{SCHEDULER}/scale"]


@pytest.mark.parametrize("deployed", [True, False])
async def test_killed_manager_is_waited_out(over: Installed, *, deployed: bool) -> None:
    """A manager that is down needs no Deployment: its Lease is free when its time is over, by our own clock."""
    if not deployed:
        del over.api.objects[DEPLOYMENT], over.api.objects[SCHEDULER]
    over.lease("m-dead")
    assert await over.run() == []
    assert 10.0 <= over.now < 20.0
    assert LEASE not in over.api.objects


@pytest.mark.parametrize(
    ("pods", "why"),
    [((), "a replica runs that Deployment .* does not control: m-1"), (("headroom-manager-1",), "does not end within")],
)
async def test_manager_that_goes_on(over: Installed, pods: tuple[str, ...], why: str) -> None:
    for name in pods:
        over.api.put(paths.pod(NS, name), {"metadata": {"name": name}})
    over.lease("m-1")
    over.renews(400)
    with pytest.raises(Refused, match=why):
        await over.run(force=True)
    assert over.mid("idle") != {}
    assert over.order() == [f"{DEPLOYMENT}/scale"]


async def test_late_mid_pod_keeps_resources_of_its_node_and_the_config(over: Installed) -> None:
    late = mid_pod("l", "1000", on="idle")
    over.api.before[f"PATCH {SCHEDULER}/scale"] = lambda: over.api.put("/api/v1/pods/l", late)
    (left,) = await over.run(delete_config=True)
    assert "shop/l on Node idle" in left
    assert over.mid("idle") != {}
    assert over.mid("busy") == {}
    assert CONFIG in over.api.objects


def chart_made(name: str) -> Json:
    return {"metadata": {"name": name, "uid": name, "labels": {"app.kubernetes.io/part-of": "headroom"}}}


async def test_config_is_deleted_on_request_where_the_chart_made_it(over: Installed) -> None:
    await over.run(delete_config=True)
    assert CONFIG in over.api.objects
    over.api.put(CONFIG, chart_made("slo-controller-config"))
    await over.run()
    assert CONFIG in over.api.objects
    await over.run(delete_config=True)
    assert CONFIG not in over.api.objects


async def test_priority_classes_of_the_chart(over: Installed, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("koord-mid", "koord-prod", "koord-free"):
        over.api.put(f"{CLASSES}/{name}", chart_made(name))
    over.api.put(f"{CLASSES}/koord-batch", {"metadata": {"name": "koord-batch"}})
    over.api.put("/api/v1/pods/w", {"metadata": {"name": "w"}, "spec": {"priorityClassName": "koord-prod"}})
    await over.run()
    assert f"{CLASSES}/koord-mid" in over.api.objects
    await over.run(delete_priority_classes=True)
    left = {item.rpartition("/")[2] for item in over.api.objects if item.startswith(CLASSES)}
    assert left == {"koord-prod", "koord-batch"}
    assert "PriorityClasses that pods or workloads name stay: koord-prod." in capsys.readouterr().out


APPS = [f"apps/v1/{kind}" for kind in ("deployments", "statefulsets", "daemonsets", "replicasets")]


@pytest.mark.parametrize("kind", [*APPS, "batch/v1/jobs", "batch/v1/cronjobs"])
async def test_workloads_keep_their_classes(over: Installed, kind: str) -> None:
    """A PriorityClass stays that a workload names, though it has no pods now: it could make none without it."""
    over.api.put(f"{CLASSES}/koord-mid", chart_made("koord-mid"))
    template = {"template": {"spec": {"priorityClassName": "koord-mid"}}}
    spec = {"jobTemplate": {"spec": template}} if kind.endswith("cronjobs") else template
    workload = over.api.put(f"/apis/{kind}/w", {"metadata": {"name": "w"}, "spec": spec})
    await over.run(delete_priority_classes=True)
    assert f"{CLASSES}/koord-mid" in over.api.objects
    workload["metadata"]["ownerReferences"] = [{"kind": "Deployment", "name": "d", "controller": True}]
    over.api.put(f"/apis/{kind}/w", workload)  # as an old revision of a Deployment
    await over.run(delete_priority_classes=True)
    assert f"{CLASSES}/koord-mid" not in over.api.objects


async def test_koordinators_objects_stay(installed: Installed, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = installed.api.objects[paths.node("busy")]
    amounts: Json = {f"f:kubernetes.io/mid-{item}": {} for item in ("cpu", "memory")}
    entry = {"manager": "koord-manager", "subresource": "status", "time": "2026-11-21T12:00:00Z"}
    theirs["metadata"]["managedFields"] = [{**entry, "fieldsV1": {"f:status": {"f:capacity": amounts}}}]
    installed.metric("plain", [{"manager": "koord-manager", "operation": "Update", "fieldsV1": {"f:spec": {}}}])
    before = installed.mid("busy")
    assert await installed.run() == []
    assert installed.mid("busy") == before
    assert installed.mid("idle") == {}
    assert node_metric.path("plain") in installed.api.objects
    said = capsys.readouterr().out
    assert "Mid resources of 1 Nodes stay: Koordinator's manager wrote them." in said
    assert "1 NodeMetrics that the manager did not write stay." in said


async def test_cluster_without_definition(over: Installed) -> None:
    over.api.fails["LIST /apis/slo"] = ApiError(404, "", "404 page not found")
    assert await over.run() == []
    assert over.mid("idle") == {}


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (ApiError(409, "Conflict", "the object has been modified"), 0.5),
        (ApiUnavailable("too many requests", status=429, retry_after=7.0), 14.0),
        (ApiUnavailable("cannot be reached"), 0.5),
    ],
)
async def test_passing_failure_is_tried_again(over: Installed, error: Exception, seconds: float) -> None:
    failures = [error, error]

    def fail() -> None:
        if failures:
            raise failures.pop()

    over.api.before["PATCH /api/v1/nodes/idle"] = fail
    assert await over.run() == []
    assert over.mid("idle") == {}
    assert over.now >= seconds


async def test_failure_is_listed_with_its_reason_and_stops_no_other(over: Installed) -> None:
    over.api.fails["PATCH /api/v1/nodes/idle"] = ApiError(403, "Forbidden", "no permission for nodes/status")
    over.api.fails["LIST /apis/slo"] = ApiError(403, "Forbidden", "no permission for nodemetrics")
    over.api.fails[f"DELETE {SECRET}"] = ApiUnavailable("The API server answers 500: etcd", status=500)
    left = await over.run()
    assert left[0].startswith("Mid resources of Node idle:")
    for why in ("no permission for nodes/status", "no permission for nodemetrics", "500: etcd"):
        assert any(why in entry for entry in left)
    assert over.mid("busy") == {}
    assert LEASE not in over.api.objects
    over.api.fails.clear()
    assert await over.run() == []
    assert SECRET not in over.api.objects


async def test_node_that_has_mid_again_is_named(over: Installed) -> None:
    again = node("idle", mid=("1", "1"))
    over.api.before[f"DELETE {node_metric.path('idle')}"] = lambda: over.api.put(paths.node("idle"), again)
    assert await over.run() == ["Mid resources are back, does another manager run? Node idle"]


async def test_at_most_sixteen_nodes_are_worked_on_at_once(over: Installed, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(200):
        over.api.put(paths.node(f"n-{number}"), node(f"n-{number}", mid=("1", "1")))
    original, running, most = over.api.patch, 0, 0

    async def patch(path: str, body: Any, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return await original(path, body, content_type, params)

    over.api.patch = patch  # type: ignore[method-assign]
    assert await over.run() == []
    assert most == 16
    assert "and 182 more" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--nonsense",), 2, "--help lists all flags"),
        (("--namespace=../etc",), 2, "--namespace"),
        (("--kubeconfig=/nowhere",), 3, "/nowhere"),
    ],
)
def test_exit_codes(arguments: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong flag is final; a cluster that cannot be reached is tried again by the Job."""
    assert cleanup.main(arguments) == code
    assert said in capsys.readouterr().out
