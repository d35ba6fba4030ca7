"""Uninstalling from an API server in memory."""

import json
from typing import Any

import pytest

from headroom.cli import manager_state
from headroom.cli.uninstall import plan as uninstall_plan
from headroom.kube import ApiError, paths
from manager import node_metric
from manager import settings as manager_settings
from manager.settings import Settings
from tests.headroom.cli.uninstalled import CONFIG, DEPLOYMENT, NS, SCHEDULER, Stage
from tests.manager.made import Json, pod


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
    assert manager_settings.LEASE_NAME == manager_state.NAME
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
        ("ConfigMap", f"{NS}/headroom-shadow-3", "deleted"),
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


async def test_failed_helm_test_is_tidied(stage: Stage) -> None:
    """The pod of a `helm test` that failed, which helm leaves for its log, goes too."""
    path = paths.pod(NS, uninstall_plan.TEST_POD)
    stage.api.put(path, {"metadata": {"name": uninstall_plan.TEST_POD}})
    await stage.run(force=True)
    assert path not in stage.api.objects


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
    assert "PriorityClasses that pods or workloads name stay: koord-prod." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "owned", "stays"),
    [
        ("apps/v1/deployments", False, True),
        ("apps/v1/statefulsets", False, True),
        ("apps/v1/daemonsets", False, True),
        ("apps/v1/replicasets", False, True),
        ("apps/v1/replicasets", True, False),  # an old revision of a Deployment
        ("batch/v1/jobs", False, True),
        ("batch/v1/cronjobs", False, True),
    ],
)
async def test_workloads_keep_their_classes(stage: Stage, kind: str, owned: bool, stays: bool) -> None:  # noqa: FBT001 - parameters
    """A PriorityClass stays that a workload names, though it has no pods now: it could make none without it."""
    path = uninstall_plan.priority_class_path("koord-mid")
    stage.api.put(path, chart_made("koord-mid"))
    template = {"template": {"spec": {"priorityClassName": "koord-mid"}}}
    spec = {"jobTemplate": {"spec": template}} if kind.endswith("cronjobs") else template
    owners = [{"kind": "Deployment", "name": "d", "controller": True}] if owned else []
    stage.api.put(f"/apis/{kind}/w", {"metadata": {"name": "w", "ownerReferences": owners}, "spec": spec})
    await stage.run(force=True, delete_priority_classes=True)
    assert (path in stage.api.objects) is stays


async def test_pods_of_our_scheduler_are_named(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """What names our scheduler has no scheduler afterwards: it is said of workloads, and of pods that wait alone."""
    template = {"template": {"spec": {"schedulerName": "placer"}}}
    specs = {
        "apps/v1/deployments": template,
        "batch/v1/cronjobs": {"jobTemplate": {"spec": template}},
        "apps/v1/statefulsets": {"template": {"spec": {"schedulerName": "another"}}},
    }
    for path, spec in specs.items():
        stage.api.put(f"/apis/{path}/w", {"metadata": {"name": "w", "namespace": "shop"}, "spec": spec})
    owner = [{"kind": "Deployment", "name": "w", "controller": True}]
    owned = {"metadata": {"name": "w-1", "namespace": "shop", "ownerReferences": owner}, "spec": template}
    stage.api.put("/apis/apps/v1/replicasets/w-1", owned)
    waiting = pod("w", phase="Pending")
    stage.api.put("/api/v1/pods/w", {**waiting, "spec": {"containers": [], "schedulerName": "placer"}})
    await stage.run(force=True, output="json")
    said = json.loads(capsys.readouterr().out)
    assert (said["scheduler"], said["unplaced"]) == (
        "placer",
        ["CronJob shop/w", "Deployment shop/w", f"Pod {waiting['metadata']['namespace']}/w"],
    )
    await stage.run(force=True, dry_run=True)
    words = capsys.readouterr().out
    assert "Nobody places new pods with schedulerName: placer any more" in words
    assert "CronJob shop/w, Deployment shop/w, Pod" in words


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


async def test_koordinators_numbers_stay(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """Mid resources that Koordinator's manager wrote are not ours to take, and its Mid pods refuse nothing."""
    sold: Json = {f"f:kubernetes.io/mid-{each}": {} for each in ("cpu", "memory")}
    entry = {
        "manager": "koord-manager",
        "subresource": "status",
        "time": "2026-11-21T12:00:00Z",
        "fieldsV1": {"f:status": {"f:capacity": sold}},
    }
    theirs = stage.api.objects[paths.node("busy")]
    theirs["metadata"]["managedFields"] = [entry]
    before = stage.mid("busy")
    assert await stage.run() == 0
    assert stage.mid("busy") == before
    assert stage.mid("idle") == {}
    assert "Mid resources of 1 Nodes stay: Koordinator's manager wrote them." in capsys.readouterr().out
