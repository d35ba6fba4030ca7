import json
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from headroom.kube import ApiError, ApiServer
from kubectl_headroom import arguments
from kubectl_headroom.errors import CommandError
from kubectl_headroom.table import plain
from kubectl_headroom.top import command
from kubectl_headroom.top import nodes as top_nodes
from kubectl_headroom.top import pods as top_pods
from manager.mid.explanation.node_metric import Amount, Report
from manager.mid.explanation.waste import waste
from tests.kubectl_headroom.recording import NOW, golden, named, recorded


def rows() -> list[top_nodes.NodeRow]:
    return top_nodes.node_rows(recorded("nodes"), recorded("nodeMetrics"), recorded("pods"), NOW)


def test_top_nodes_text() -> None:
    """The table of nodes: one of ours, one with another agent's old report, one that has not reported."""
    assert plain(top_nodes.COLUMNS, [top_nodes.cells(row) for row in rows()]) == golden("top_nodes.txt")


def test_top_pods_text() -> None:
    """The table of pods: bound and not ended; a Mid pod's request is its Mid resources."""
    result = top_pods.pod_rows(recorded("pods"), recorded("nodeMetrics"), NOW)
    assert plain(top_pods.COLUMNS, [top_pods.cells(row) for row in result]) == golden("top_pods.txt")


def test_ended_pods_request_nothing() -> None:
    pods = recorded("pods")
    for pod in pods:
        pod["status"]["phase"] = "Failed"
    result = top_nodes.node_rows(recorded("nodes"), [], pods, NOW)
    assert {row.mid_requested for row in result} == {Amount(0, 0)}


def _web_1(reason: str | None, status: str, late: float) -> top_nodes.NodeRow:
    """The row of web-1, so much later, with this condition MidPublished or none."""
    metric = named("nodeMetrics", "web-1")
    remaining = [
        condition for condition in metric["status"].get("conditions") or () if condition["type"] != "MidPublished"
    ]
    texts = [{"type": "MidPublished", "status": status, "reason": reason, "message": "Why."}] if reason else []
    metric["status"]["conditions"] = [*remaining, *texts]
    return top_nodes.node_rows([named("nodes", "web-1")], [metric], recorded("pods"), NOW + late)[0]


@pytest.mark.parametrize(
    ("reason", "status", "late", "prediction"),
    [
        (None, "", 0, "ready"),
        (None, "", 839, "ready"),
        (None, "", 841, "expired"),  # the report was a minute old before
        ("ReportExpired", "False", 300, "expired"),  # degradeTimeMinutes is less than by default
        ("PredictionExpired", "False", 0, "expired"),
        ("Published", "True", 1200, "ready"),  # degradeTimeMinutes is more than by default
        ("ColocationDisabled", "False", 1200, "expired"),
        ("ColocationDisabled", "False", 0, "ready"),
    ],
)
def test_report_that_no_longer_counts(reason: str | None, status: str, late: float, prediction: str) -> None:
    """A report that is too old for the manager is called expired, and nothing that was predicted is shown of it."""
    row = _web_1(reason, status, late)
    shown = dict(zip([column.title for column in top_nodes.COLUMNS], top_nodes.cells(row), strict=True))
    texts = {name: shown[name].text for name in ("PROD PEAK", "RECLAIMABLE", "WASTE")}
    assert shown["PREDICTION"].text == prediction
    assert {text == "-" for text in texts.values()} == {prediction == "expired"}
    assert shown["CPU"].text == "6000m"
    assert row.mid.cpu_milli == 6500


@pytest.mark.parametrize("status", [{"conditions": "none"}, {"conditions": ["bad"]}, ["bad"], None])
def test_malformed_conditions(status: Any) -> None:  # noqa: ANN401 - any content
    metric = {"metadata": {"name": "web-1"}, "spec": {}, "status": status}
    (row,) = top_nodes.node_rows([named("nodes", "web-1")], [metric], [], NOW)
    assert row.report.prediction in {"unreadable", "no report"}


def test_three_missing_reports_are_late() -> None:
    by_name = {row.name: row for row in rows()}
    assert not top_nodes.late(by_name["web-1"].report)
    assert top_nodes.late(by_name["web-2"].report)
    assert not top_nodes.late(by_name["web-3"].report)


def test_hot_node_is_marked() -> None:
    styles = {row.name: top_nodes.cells(row)[2].style for row in rows()}
    assert styles == {"web-1": "", "web-2": "red", "web-3": ""}


def test_json_has_units() -> None:
    """JSON has plain numbers with their units in the names, and null for unknown ones."""
    first, _, last = top_nodes.as_json(rows())["items"]
    assert first["mid"] == {"cpuMilli": 6500, "memoryBytes": 20 * 2**30}
    assert first["midRequested"] == {"cpuMilli": 3000, "memoryBytes": 4 * 2**30}
    assert last["usage"] == {"cpuMilli": None, "memoryBytes": None}
    pod = top_pods.as_json(top_pods.pod_rows([named("pods", "cart")], recorded("nodeMetrics"), NOW))["items"][0]
    assert pod["usage"]["cpuMilli"] == 1200
    assert pod["band"] == "koord-prod"


class Cluster:
    """An API server with the recorded objects, which evaluates `pool=web` alone."""

    server_time = staticmethod(time.time)

    async def list(self, path: str, params: Mapping[str, str] | None = None) -> tuple[list[Any], str]:
        kind = {"nodes": "nodes", "nodemetrics": "nodeMetrics", "pods": "pods"}[path.rpartition("/")[2]]
        wanted = (params or {}).get("labelSelector")
        assert wanted in {None, "pool=web", "pool=none"}
        result = [entry for entry in recorded(kind) if wanted is None or entry["metadata"]["name"] == "web-1"]
        return ([] if wanted == "pool=none" else result), "1"


async def test_selector_chooses_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """With a label selector the API server says which nodes are shown."""
    api = cast("ApiServer", Cluster())
    await command.nodes(api, (), "json", labels="pool=web")
    shown = [load["node"] for load in json.loads(capsys.readouterr().out)["items"]]
    assert shown == ["web-1"]
    await command.nodes(api, (), "json")
    assert len(json.loads(capsys.readouterr().out)["items"]) == 3
    await command.nodes(api, (), "table", labels="pool=none")
    assert capsys.readouterr().err == "No resources found\n"


async def test_selector_chooses_pods(capsys: pytest.CaptureFixture[str]) -> None:
    await command.pods(cast("ApiServer", Cluster()), command.Place("shop"), None, "table", labels="pool=none")
    assert capsys.readouterr().err == "No resources found in shop namespace.\n"


def test_node_or_selector() -> None:
    assert arguments.parser().parse_args(["top", "nodes", "-l", "a in (b),!c"]).selector == "a in (b),!c"
    with pytest.raises(SystemExit):
        arguments.parser().parse_args(["top", "nodes", "-l", "a=b", "--node", "n"])


@pytest.mark.parametrize(
    ("owner", "labels", "name"),
    [
        ("ReplicaSet/cart-7f9", {"pod-template-hash": "7f9"}, "Deployment cart"),
        ("ReplicaSet/cart-7f9", {"rollouts-pod-template-hash": "7f9"}, "Rollout cart"),
        ("CloneSet/cart-7f9", {"pod-template-hash": "7f9"}, "CloneSet cart"),
        ("ReplicationController/cart-3", {"deploymentconfig": "cart"}, "DeploymentConfig cart"),
        ("StatefulSet/db", {}, "StatefulSet db"),
        ("Job/backup-29384756", {}, "CronJob backup"),
    ],
)
def test_workload_is_the_rollout_object(owner: str, labels: Mapping[str, str], name: str) -> None:
    """A pod is shown with the object that a person made, for any controller between them."""
    kind, _, of = owner.partition("/")
    owners = [{"kind": kind, "name": of, "controller": True}]
    assert top_pods.workload({"metadata": {"labels": labels, "ownerReferences": owners}}) == name
    assert top_pods.workload({"metadata": {}}) == ""


@pytest.mark.parametrize(
    ("requested", "peak", "published", "wasted"),
    [
        (10, 4, 5, 1),
        (10, 4, None, 6),  # nothing is published
        (10, 4, 7, 0),  # more is published, of unrequested resources
        (3, 4, 0, 0),  # they are predicted to need more than they request
        (None, 4, 0, None),
        (10, None, 0, None),
    ],
)
def test_waste(requested: int | None, peak: int | None, published: int | None, wasted: int | None) -> None:
    """Waste is requested, not predicted to be needed, and not published."""
    assert waste(requested, peak, published) == wasted


def test_waste_of_a_node() -> None:
    """A node's waste is reported for each resource, and not before its prediction is ready."""
    report = Report(prod_peak=Amount(4000, 2**30), prediction="ready")
    row = top_nodes.NodeRow(
        "n", Amount(16_000, 2**35), report, Amount(5000, None), Amount(0, 0), Amount(), Amount(10_000, 2**31)
    )
    assert row.waste == Amount(1000, 2**30)
    assert replace(row, report=replace(report, prediction="warming")).waste == Amount()


class TenantsCluster(Cluster):
    """The same for a login that may not read some kinds."""

    def __init__(self, *denied: str) -> None:
        self.denied = denied

    async def list(self, path: str, params: Mapping[str, str] | None = None) -> tuple[list[Any], str]:
        if path.rpartition("/")[2] in self.denied:
            raise ApiError(403, "Forbidden", f"{path} is forbidden")
        return await super().list(path, params)


@pytest.mark.parametrize(
    ("denied", "dashes"),
    [
        (("nodes",), {"CPU%", "MEMORY%", "MID", "WASTE"}),
        (("pods",), {"MID REQUESTED", "WASTE"}),
        (("nodemetrics",), {"CPU", "MEMORY", "PROD PEAK", "RECLAIMABLE"}),
        (("nodes", "pods"), {"CPU%", "MID", "MID REQUESTED", "WASTE"}),
    ],
)
async def test_top_with_the_rights_of_a_tenant(
    denied: tuple[str, ...], dashes: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Amounts that need a kind that may not be read are a dash, and a note names the kind and the role."""
    await command.nodes(cast("ApiServer", TenantsCluster(*denied)), (), "json")
    assert json.loads(capsys.readouterr().out)
    await command.nodes(cast("ApiServer", TenantsCluster(*denied)), (), "table")
    header, first, *_, note = capsys.readouterr().out.splitlines()
    titles = [title.strip() for title in re.split(r"\s{2,}", header)]
    cells = dict(zip(titles, re.split(r"\s{2,}", first), strict=True))
    assert {name for name in dashes if cells[name] != "-"} == set()
    assert note.startswith("- This login may not list ")
    assert "headroom-tenant" in note


async def test_top_without_any_right(capsys: pytest.CaptureFixture[str]) -> None:
    """Without Nodes and NodeMetrics there is nothing to show; pods still show their requests."""
    api = cast("ApiServer", TenantsCluster("nodes", "nodemetrics"))
    with pytest.raises(CommandError, match="may not list Nodes and NodeMetrics: there is nothing to show"):
        await command.nodes(api, (), "table")
    await command.pods(api, command.Place(everywhere=True), None, "table")
    assert capsys.readouterr().out.splitlines()[-1].startswith("- This login may not list NodeMetrics: usage is a dash")
