"""Uninstalling from an API server in memory."""

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from cli import manager_state
from cli.errors import CommandError
from cli.uninstall import command as uninstall
from cli.uninstall import plan as uninstall_plan
from cli.uninstall.plan import Asked
from cli.uninstall.stopping import Clock
from crds.names import ANNOTATION_CONFIG_STATE
from kubeapi import ApiError, ApiServer, ApiUnavailable, paths
from manager import node_metric
from manager.settings import Settings
from tests.manager.made import FakeApi, Json, mid_pod, node, pod

NS = "headroom-system"
DEPLOYMENT = manager_state.deployment_path(NS)
LEASE = paths.lease(NS, "headroom-manager")
SCHEDULER = f"/apis/apps/v1/namespaces/{NS}/deployments/headroom-scheduler"
PLACER = paths.lease(NS, "placer")
CONFIG = paths.config_map(NS, "slo-controller-config")
LAST_GOOD = paths.config_map(NS, "headroom-last-good-config")
SECRET = uninstall_plan.secret_path(NS)
OURS = [{"manager": "headroom-manager", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]


class Stage:
    """A cluster after the manager has worked in it, and a clock on which things happen."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.now = 0.0
        self.happens: dict[float, Callable[[], None]] = {}
        for name, offered in (("idle", ("4000", "10Gi")), ("busy", ("6000", "8Gi")), ("plain", None)):
            self.api.put(paths.node(name), node(name, mid=offered))
            self.metric(name, OURS)
        self.api.put("/api/v1/pods/m", mid_pod("m", "2000", "1Gi", on="busy"))
        self.api.put("/api/v1/pods/done", mid_pod("done", on="idle", phase="Succeeded"))
        self.api.put("/api/v1/pods/p", pod("p", {"cpu": "1"}, on="idle"))
        annotations = {ANNOTATION_CONFIG_STATE: "in force", "mine": "stays"}
        self.api.put(
            CONFIG, {"metadata": {"name": "slo-controller-config", "annotations": annotations}, "data": {"a": "b"}}
        )
        self.api.put(LAST_GOOD, {"metadata": {"name": "headroom-last-good-config"}})
        self.api.put(SECRET, {"metadata": {"name": "headroom-manager-webhook-tls"}})
        self.lease("")
        self.api.put(DEPLOYMENT, {"metadata": {"name": "headroom-manager"}, "spec": {"replicas": 0}})
        arguments = [f"--leader-lease={NS}/placer"]
        template = {"spec": {"containers": [{"name": "kube-scheduler"}, {"name": "extender", "args": arguments}]}}
        body = {"metadata": {"name": "headroom-scheduler"}, "spec": {"replicas": 0, "template": template}}
        self.api.put(SCHEDULER, body)
        lease = {"holderIdentity": "", "renewTime": "2026-11-21T12:00:00Z", "leaseDurationSeconds": 15}
        self.api.put(PLACER, {"metadata": {"name": "placer", "uid": "placer"}, "spec": lease})

    def metric(self, name: str, managed: list[Json]) -> None:
        """A NodeMetric."""
        metadata = {"name": name, "uid": f"metric-{name}", "managedFields": managed}
        self.api.put(node_metric.path(name), {"metadata": metadata})

    def lease(self, holder: str, renewed: int = 0) -> None:
        """The Lease, renewed for the so-many-th time."""
        spec = {"holderIdentity": holder, "renewTime": f"2026-11-21T12:00:{renewed:02d}Z", "leaseDurationSeconds": 10}
        self.api.put(LEASE, {"metadata": {"name": "headroom-manager", "uid": "lease"}, "spec": spec})

    def renews(self, until: float) -> None:
        """A manager renews the Lease each second until a time."""
        for second in range(int(until)):
            self.happens[float(second)] = lambda second=second: self.lease("m-1", second)  # type: ignore[misc]

    async def sleep(self, seconds: float) -> None:
        """Time passes, and what is due happens."""
        self.now += seconds
        for when in sorted(each for each in self.happens if each <= self.now):
            self.happens.pop(when)()

    async def run(self, *, dry_run: bool = False, output: str = "table", **asked: bool) -> int:
        """Run the command."""
        clock = Clock(lambda: self.now, self.sleep)
        api = cast("ApiServer", self.api)
        return await uninstall.run(
            api, NS, "slo-controller-config", Asked(**asked), dry_run=dry_run, output=output, clock=clock
        )

    def mid(self, name: str) -> Json:
        """Mid resources of a Node."""
        status = self.api.objects[paths.node(name)]["status"]
        assert {k: v for k, v in status["capacity"].items() if "mid" in k} == {
            k: v for k, v in status["allocatable"].items() if "mid" in k
        }
        return {key.rpartition("-")[2]: amount for key, amount in status["capacity"].items() if "mid" in key}

    def objects(self) -> Json:
        """Everything there is."""
        return copy.deepcopy(self.api.objects)


@pytest.fixture
def stage() -> Stage:
    """A cluster to uninstall from."""
    return Stage()


def lines(said: str) -> list[tuple[str, str, str]]:
    """Kind, name and what of each line of the table."""
    rows = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in said.splitlines()]
    return [(row[0], row[1], row[2]) for row in rows if len(row) == 4 and row[0] != "KIND"]


def test_names_are_the_managers() -> None:
    """What is taken away has the names under which the manager writes it."""
    settings = Settings()
    assert settings.leader.lease_name == manager_state.NAME
    assert settings.webhook.secret_name == uninstall_plan.WEBHOOK_SECRET


async def test_dry_run_changes_nothing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run writes nothing, and ends as the real run would."""
    before = stage.objects()
    assert await stage.run(dry_run=True, stop_selling=True) == 1
    assert stage.objects() == before
    assert {method for method, _, _ in stage.api.calls} == {"GET", "LIST"}
    assert "Nothing was changed: this is a dry run." in capsys.readouterr().out


async def test_dry_run_lists_what_is_done(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """The dry run and the real run print the same list, and it is exactly what was written."""
    stage.api.objects[DEPLOYMENT]["spec"]["replicas"] = 2
    assert await stage.run(dry_run=True, stop_selling=True) == 1
    listed = lines(capsys.readouterr().out)
    assert await stage.run(stop_selling=True) == 1
    assert lines(capsys.readouterr().out) == listed
    assert listed == [
        ("Deployment", f"{NS}/headroom-manager", "scaled from 2 to 0"),
        ("Node", "idle", "mid-cpu 4000m removed, mid-memory 10240Mi removed"),
        ("Node", "busy", "mid-cpu 6000m lowered to 2000m, mid-memory 8192Mi lowered to 1024Mi"),
        ("NodeMetric", "idle", "deleted"),
        ("NodeMetric", "busy", "deleted"),
        ("NodeMetric", "plain", "deleted"),
        (
            "ConfigMap",
            f"{NS}/slo-controller-config",
            "annotation headroom.sh/config-state removed, the rest is yours and stays",
        ),
        ("ConfigMap", f"{NS}/headroom-last-good-config", "deleted"),
        ("Secret", f"{NS}/headroom-manager-webhook-tls", "deleted"),
        ("Lease", f"{NS}/headroom-manager", "deleted"),
    ]
    written = [path for method, path, _ in stage.api.calls if method in {"PATCH", "DELETE", "POST"}]
    assert len(written) == len(listed)


async def test_nothing_is_left(stage: Stage) -> None:
    """Afterwards nothing of the manager's is there, and nothing of anybody else's is missing."""
    del stage.api.objects["/api/v1/pods/m"]
    assert await stage.run() == 0
    assert all(stage.mid(name) == {} for name in ("idle", "busy", "plain"))
    left = set(stage.api.objects)
    assert left == {
        *(paths.node(name) for name in ("idle", "busy", "plain")),
        "/api/v1/pods/done",
        "/api/v1/pods/p",
        CONFIG,
        DEPLOYMENT,
        SCHEDULER,
    }
    config = stage.api.objects[CONFIG]
    assert config["data"] == {"a": "b"}
    assert config["metadata"]["annotations"] == {"mine": "stays"}
    assert stage.api.objects[paths.node("idle")]["status"]["capacity"] == {"cpu": "16", "memory": "64Gi", "pods": "110"}


async def test_second_run_has_nothing_to_do(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """Running it again writes nothing, and says that nothing is left."""
    del stage.api.objects["/api/v1/pods/m"]
    await stage.run()
    stage.api.calls.clear()
    capsys.readouterr()
    assert await stage.run() == 0
    assert {method for method, _, _ in stage.api.calls} == {"GET", "LIST"}
    assert capsys.readouterr().out == "Nothing is left of the manager's writes.\n"


@pytest.mark.parametrize("dry_run", [False, True])
async def test_running_mid_pods_refuse(stage: Stage, capsys: pytest.CaptureFixture[str], *, dry_run: bool) -> None:
    """While Mid pods run nothing is touched, the manager goes on, and each way on is named."""
    stage.api.objects[DEPLOYMENT]["spec"]["replicas"] = 2
    before = stage.objects()
    assert await stage.run(dry_run=dry_run, delete_config=True, delete_priority_classes=True) == 1
    assert stage.objects() == before
    assert {method for method, _, _ in stage.api.calls} == {"GET", "LIST"}
    said = capsys.readouterr().out
    assert "Mid pods run on 1 Node, and nothing was changed." in said
    assert "Node busy: shop/m" in said
    for way in ("--stop-selling", "--force", '"enable": false'):
        assert way in said


async def test_refusal_for_programs(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """A program reads that it was refused, and whose pods run where."""
    assert await stage.run(output="json") == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["refused"], said["changes"]) == (True, [])
    assert [each["pods"] for each in said["nodesWithMidPods"]] == [["shop/m"]]


async def test_mid_pod_that_comes_late(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """A Mid pod that is placed while the manager ends keeps what it bought, and the end is not reached."""
    del stage.api.objects["/api/v1/pods/m"]
    stage.api.objects[DEPLOYMENT]["spec"]["replicas"] = 1
    stage.lease("m-1")
    stage.renews(3)

    def comes() -> None:
        stage.lease("")
        stage.api.put("/api/v1/pods/l", mid_pod("l", "1000", on="idle"))

    stage.happens[4.0] = comes
    assert await stage.run(delete_config=True) == 1
    assert stage.mid("idle")["cpu"] == "1000"
    assert CONFIG in stage.api.objects
    assert "Node idle keeps what Mid pods bought that still run there: shop/l." in capsys.readouterr().out


async def test_scheduler_is_stopped_last(stage: Stage) -> None:
    """The scheduler ends before its Lease goes, whatever the values call it; but not while Mid pods run."""
    stage.api.objects[SCHEDULER]["spec"]["replicas"] = 2
    assert await stage.run(stop_selling=True) == 1
    assert stage.api.objects[SCHEDULER]["spec"]["replicas"] == 2
    assert PLACER in stage.api.objects
    del stage.api.objects["/api/v1/pods/m"]
    assert await stage.run() == 0
    assert stage.api.objects[SCHEDULER]["spec"]["replicas"] == 0
    assert PLACER not in stage.api.objects
    methods = [(method, path) for method, path, _ in stage.api.calls]
    assert methods.index(("PATCH", f"{SCHEDULER}/scale")) < methods.index(("DELETE", PLACER))


async def test_failed_helm_test_is_tidied(stage: Stage) -> None:
    """The pod of a `helm test` that failed, which helm leaves for its log, goes too."""
    path = paths.pod(NS, uninstall_plan.TEST_POD)
    stage.api.put(path, {"metadata": {"name": uninstall_plan.TEST_POD}})
    await stage.run(force=True)
    assert path not in stage.api.objects


async def test_without_scheduler(stage: Stage) -> None:
    """Where the chart was installed without a scheduler there is none to stop, and a Lease of its name is deleted."""
    del stage.api.objects[SCHEDULER]
    usual = paths.lease(NS, "headroom-scheduler")
    stage.api.put(usual, {"metadata": {"name": "headroom-scheduler"}})
    assert await stage.run(force=True) == 0
    assert usual not in stage.api.objects


def chart_made(name: str, **more: Any) -> Json:  # noqa: ANN401 - further parts of an object
    """An object that the chart has made."""
    return {"metadata": {"name": name, "uid": name, "labels": {"app.kubernetes.io/part-of": "headroom"}}, **more}


async def test_config_of_the_chart(stage: Stage) -> None:
    """The colocation ConfigMap is deleted when that is asked for and the chart made it, and never otherwise."""
    await stage.run(force=True, delete_config=True)
    assert CONFIG in stage.api.objects
    stage.api.put(CONFIG, chart_made("slo-controller-config", data={"a": "b"}))
    await stage.run(force=True)
    assert CONFIG in stage.api.objects
    await stage.run(force=True, delete_config=True)
    assert CONFIG not in stage.api.objects


async def test_priority_classes_of_the_chart(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """PriorityClasses go when that is asked for, but for those of others and those that pods name."""
    path = uninstall_plan.priority_class_path
    for name in ("koord-mid", "koord-prod", "koord-free"):
        stage.api.put(path(name), chart_made(name))
    stage.api.put(path("koord-batch"), {"metadata": {"name": "koord-batch"}})
    waiting = pod("w", phase="Pending")
    stage.api.put("/api/v1/pods/w", {**waiting, "spec": {**waiting["spec"], "priorityClassName": "koord-prod"}})
    await stage.run(force=True)
    assert path("koord-mid") in stage.api.objects
    await stage.run(force=True, delete_priority_classes=True)
    left = {each for each in stage.api.objects if "priorityclasses" in each}
    assert left == {path("koord-prod"), path("koord-batch")}
    assert "PriorityClasses that pods name stay: koord-prod." in capsys.readouterr().out


async def test_running_mid_pods_keep_theirs(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """A Node with Mid pods goes on offering exactly what they bought, and is named with them, in every further run."""
    assert await stage.run(stop_selling=True) == 1
    assert stage.mid("busy") == {"cpu": "2000", "memory": str(2**30)}
    assert stage.mid("idle") == {}
    said = capsys.readouterr().out
    assert "Node busy keeps what Mid pods bought that still run there: shop/m." in said
    assert "Let these Mid pods end, or delete them, and run this again" in said
    stage.api.calls.clear()
    assert await stage.run(stop_selling=True) == 1
    assert not stage.api.written("PATCH", "/nodes/")
    del stage.api.objects["/api/v1/pods/m"]
    assert await stage.run() == 0
    assert stage.mid("busy") == {}


async def test_force_takes_everything(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """With --force running Mid pods keep nothing, and that is said."""
    assert await stage.run(force=True) == 0
    assert stage.mid("busy") == {}
    assert "Node busy lost the resources of Mid pods that still run: shop/m." in capsys.readouterr().out


async def test_foreign_metrics_stay(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """NodeMetrics that another manager has made are left alone and counted."""
    stage.metric("plain", [{"manager": "koord-manager", "operation": "Update", "fieldsV1": {"f:spec": {}}}])
    await stage.run(force=True)
    assert node_metric.path("plain") in stage.api.objects
    assert "1 NodeMetrics that the manager did not write stay." in capsys.readouterr().out


async def test_running_manager_is_stopped_first(stage: Stage) -> None:
    """The Deployment is scaled to nothing, and only when nobody holds the Lease any more is anything taken away."""
    stage.api.objects[DEPLOYMENT]["spec"]["replicas"] = 2
    stage.lease("m-1")
    stage.renews(6)
    stage.happens[7.0] = lambda: stage.lease("")
    await stage.run(force=True)
    assert stage.api.objects[DEPLOYMENT]["spec"]["replicas"] == 0
    assert stage.now >= 7.0
    methods = [(method, path) for method, path, _ in stage.api.calls]
    assert methods.index(("PATCH", f"{DEPLOYMENT}/scale")) < methods.index(("PATCH", paths.status(paths.node("idle"))))


async def test_killed_manager_is_waited_out(stage: Stage) -> None:
    """A Lease that nobody renews any more is free when its time is over, by our own clock."""
    stage.lease("m-dead")
    await stage.run(force=True)
    assert 10.0 < stage.now < 20.0
    assert LEASE not in stage.api.objects


async def test_standby_may_not_take_over(stage: Stage) -> None:
    """While pods of the manager are left, one may take a Lease that was given back: it must stay free first."""
    stage.api.objects[DEPLOYMENT]["spec"]["replicas"] = 2
    stage.api.put(f"{paths.pods(NS)}/headroom-manager-2", {"metadata": {"name": "headroom-manager-2"}})
    stage.happens[2.0] = lambda: stage.lease("m-2", 2)
    stage.happens[4.0] = lambda: stage.lease("")
    await stage.run(force=True)
    assert stage.now >= 4.0 + 5.0


async def test_unknown_manager_is_refused(stage: Stage) -> None:
    """A manager that no Deployment runs is not stopped but named, and nothing is taken away under it."""
    del stage.api.objects[DEPLOYMENT]
    stage.lease("laptop")
    stage.renews(30)
    before = {path for path in stage.api.objects if path != LEASE}
    with pytest.raises(
        CommandError, match=r"no Deployment headroom-system/headroom-manager runs.* m-1 holds the Lease"
    ):
        await stage.run(force=True)
    assert {path for path in stage.api.objects if path != LEASE} == before
    assert stage.mid("idle") != {}


async def test_manager_that_does_not_end(stage: Stage) -> None:
    """When the manager does not end in time, nothing is taken away, and it is said where to look."""
    stage.api.objects[DEPLOYMENT]["spec"]["replicas"] = 1
    stage.api.put(f"{paths.pods(NS)}/headroom-manager-1", {"metadata": {"name": "headroom-manager-1"}})
    stage.lease("m-1")
    stage.renews(400)
    with pytest.raises(CommandError, match="m-1 still holds the Lease"):
        await stage.run(force=True)
    assert stage.mid("idle") != {}


@pytest.mark.parametrize(
    "error",
    [
        ApiError(409, "Conflict", "the object has been modified"),
        ApiUnavailable("too many requests", status=429, retry_after=7.0),
        ApiUnavailable("cannot be reached"),
    ],
)
async def test_passing_failures_are_repeated(stage: Stage, error: Exception) -> None:
    """A conflict, an API server that is busy or away for a moment: it is tried again, when the server asks."""
    original, failures = stage.api.patch, [error, error]

    async def patch(path: str, body: Any, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401
        if "/nodes/idle" in path and failures:
            raise failures.pop()
        return await original(path, body, content_type, params)

    stage.api.patch = patch  # type: ignore[method-assign]
    assert await stage.run(force=True) == 0
    assert stage.mid("idle") == {}
    assert stage.now >= (14.0 if isinstance(error, ApiUnavailable) and error.retry_after else 0.5)


async def test_one_failure_stops_no_other(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be changed is reported with its reason, everything else is done, and the exit code is 1."""
    stage.api.fails["PATCH /api/v1/nodes/idle"] = ApiError(403, "Forbidden", "no permission for nodes/status")
    stage.api.fails[f"DELETE {SECRET}"] = ApiUnavailable("The API server answers 500: etcd", status=500)
    assert await stage.run(force=True) == 1
    said = capsys.readouterr().out
    assert "failed: no permission for nodes/status" in said
    assert "2 of 10 changes failed: run this again, it goes on where it stopped." in said
    assert stage.mid("busy") == {}
    assert LEASE not in stage.api.objects
    stage.api.fails.clear()
    assert await stage.run(force=True) == 0
    assert stage.mid("idle") == {}
    assert SECRET not in stage.api.objects


async def test_vanished_objects_are_done(stage: Stage) -> None:
    """What somebody else has deleted meanwhile is as good as done."""
    for part in ("DELETE /apis/slo", "PATCH /api/v1/nodes"):
        stage.api.fails[part] = ApiError(404, "NotFound", "gone")
    stage.api.objects = {
        path: obj for path, obj in stage.api.objects.items() if "/nodes/" not in path or "plain" in path
    }
    assert await stage.run() == 0


async def test_numbers_that_come_back_are_told(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """A Node that offers Mid again afterwards, or got a Mid pod meanwhile, is told: somebody else is at work."""
    original = stage.api.delete

    async def delete(path: str, body: Json | None = None) -> Json:
        if path == node_metric.path("idle"):
            stage.api.put(paths.node("idle"), node("idle", mid=("1", "1")))
            stage.api.put("/api/v1/pods/late", mid_pod("late", on="idle"))
        return await original(path, body)

    stage.api.delete = delete  # type: ignore[method-assign]
    assert await stage.run(force=True) == 1
    said = capsys.readouterr().out
    assert "Node idle offers Mid resources again (is another manager at work" in said
    assert "Mid pod shop/late was placed on Node idle meanwhile" in said


async def test_cluster_without_definition(stage: Stage) -> None:
    """Where the NodeMetric definition is gone already, the rest is taken away all the same."""
    stage.api.fails["LIST /apis/slo"] = ApiError(404, "", "404 page not found")
    assert await stage.run(force=True) == 0
    assert stage.mid("idle") == {}


async def test_json_for_programs(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """The same list for programs, with what stays and why."""
    await stage.run(dry_run=True, output="json", stop_selling=True)
    planned = json.loads(capsys.readouterr().out)
    await stage.run(output="json", stop_selling=True)
    done = json.loads(capsys.readouterr().out)
    assert [each["what"] for each in planned["changes"]] == [each["what"] for each in done["changes"]]
    assert not any(each["done"] for each in planned["changes"])
    assert all(each["done"] for each in done["changes"])
    assert done["nodesWithMidPods"] == [
        {"node": "busy", "pods": ["shop/m"], "kept": {"cpuMilli": 2000, "memoryBytes": 2**30}}
    ]


async def test_many_nodes_at_a_time(stage: Stage) -> None:
    """Many Nodes are worked on some at a time, never more at once than the API server should bear."""
    for number in range(200):
        name = f"n-{number}"
        stage.api.objects[paths.node(name)] = {
            "metadata": {"name": name},
            "status": {part: {"kubernetes.io/mid-cpu": "1"} for part in ("capacity", "allocatable")},
        }
    busy, most = 0, 0

    async def patch(path: str, body: Any, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401, ARG001
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        status = stage.api.objects.get(path.removesuffix("/status"), {}).get("status", {})
        for part in status.values():
            part.pop("kubernetes.io/mid-cpu", None)
            part.pop("kubernetes.io/mid-memory", None)
        return {}

    stage.api.patch = patch  # type: ignore[method-assign]
    assert await stage.run(force=True) == 0
    assert most == 16
