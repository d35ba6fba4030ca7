"""Reports of workloads in, histories for cold pods out."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.predict_policy import DEFAULTS
from crds.quantity import parse_quantity
from crds.workload_history import WorkloadUsage, workload_id
from manager.cluster import ClusterState
from manager.node_metric import manifest
from manager.workload_history import WorkloadHistories
from tests.support.objects import NOW, node, report, strategy

CART, TILL = workload_id("shop/Deployment/cart"), workload_id("shop/Deployment/till")
CAPACITY = {"cpu": "16", "memory": "32Gi"}


def line(cpu: int = 1000, memory: int = 1024, hours: int = 48, cold: int = 0, workload: str = CART) -> str:
    return str(WorkloadUsage(workload, cpu, memory, hours, 1, cold))


WANTS = line(0, 0, 0, 1)


def histories(**lines: str) -> WorkloadHistories:
    """The reports of nodes with a line each."""
    result = WorkloadHistories()
    for name, text in lines.items():
        result.put(name, [text], CAPACITY)
    return result


def needed(reports: WorkloadHistories, **fields: int | bool) -> dict[str, dict[str, str]]:
    return reports.needed("new", replace(DEFAULTS, **fields))  # type: ignore[arg-type]


def test_highest_usage_of_all_nodes_is_handed_out() -> None:
    """A node with cold pods of a workload receives its highest CPU and its highest memory; no other node does."""
    reports = histories(a=line(cpu=1984, memory=512), b=line(cpu=500, memory=1024), new=WANTS)
    assert needed(reports) == {CART: {"cpu": "1984m", "memory": "1Gi"}}
    assert reports.needed("a", DEFAULTS) == {}
    reports.put("new", [line(workload=TILL, cold=1)], CAPACITY)
    assert needed(reports) == {}


@pytest.mark.parametrize(
    ("hours", "fields", "is_known"),
    [
        ((36, 36), {}, True),
        ((36, 35), {}, False),  # three pod-days are needed
        ((168,), {}, False),  # on two nodes
        ((168, 2), {}, False),  # for three hours on each
        ((168, 3), {}, True),
        ((24, 24, 24), {"workload_history_nodes": 3}, True),
        ((23,) * 10, {}, False),  # a day of one pod is needed
        ((24, *(3,) * 16), {}, True),
        ((36, 36), {"workload_history_nodes": 3}, False),
        ((24, 3), {"workload_history_pod_days": 1}, True),
        ((23, 23), {"workload_history_pod_days": 1}, False),
        ((36, 36), {"use_workload_history": False}, False),
    ],
)
def test_evidence_comes_from_several_nodes(hours: tuple[int, ...], fields: dict[str, int], is_known: bool) -> None:  # noqa: FBT001
    reports = histories(new=WANTS, **{f"n{place}": line(hours=time) for place, time in enumerate(hours)})
    assert (needed(reports, **fields) != {}) is is_known


REPORTS = (line(1, 1, 168), line(0, 0, 168), line(16_000, 32_768, 168), "x", line(hours=0), line(10**8, 1))


@pytest.mark.parametrize("text", REPORTS)
def test_no_agent_makes_others_publish_more(text: str) -> None:
    """A compromised agent lowers no history: others publish as much as without its report, or less."""
    reports = histories(a=line(cpu=992, memory=1024), b=line(cpu=496, memory=512), new=WANTS)
    before = needed(reports)[CART]
    reports.put("evil", [text, text], CAPACITY)
    after = needed(reports)[CART]
    assert all(parse_quantity(after[name]) >= parse_quantity(before[name]) for name in ("cpu", "memory"))


@pytest.mark.parametrize("nodes", [2, 4])
def test_no_agent_makes_a_workload_known_alone(nodes: int) -> None:
    """However long it claims to have observed a workload, other nodes must have observed it, and their usage counts."""
    assert needed(histories(evil=line(1, 1, 999), new=WANTS), workload_history_nodes=nodes) == {}
    for hours in (2, 3):
        reports = histories(evil=line(1, 1, 999), new=WANTS)
        for place in range(1, nodes):
            reports.put(f"n{place}", [line(cpu=992, hours=hours)], CAPACITY)
        result = needed(reports, workload_history_nodes=nodes)
        assert result == ({CART: {"cpu": "992m", "memory": "1Gi"}} if hours > 2 else {})


@pytest.mark.parametrize(
    "text", ["x", f"{CART} -1 1 48 1 0", f"{CART} nan 1 48 1 0", line(cpu=16_001), line(memory=40_000)]
)
def test_absurd_usage_is_dropped_and_counted(text: str) -> None:
    reports = histories(a=line(cpu=992), b=line(cpu=992), new=WANTS)
    reports.put("c", [text], CAPACITY)
    assert reports.dropped == 1
    assert needed(reports) == {CART: {"cpu": "992m", "memory": "1Gi"}}


@pytest.mark.parametrize("lines", [None, "x", {}, 5])
def test_report_without_workloads_is_empty(lines: object) -> None:
    """A report without workloads replaces the earlier one."""
    reports = histories(a=line(), b=line(), new=WANTS)
    reports.put("a", lines, CAPACITY)
    assert (needed(reports), reports.dropped) == ({}, 0)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(1, 3), st.integers(0, 2)), max_size=20)
)
def test_maximum_follows_every_report(changes: list[tuple[str, int, int, int]]) -> None:
    """Whatever came before, the history is that of the present reports alone."""
    reports, present = histories(a=line(1, 1, 999), b=line(1, 1, 999), new=WANTS), {"a": line(1, 1), "b": line(1, 1)}
    for name, cpu, memory, hours in changes:
        present[name] = line(cpu, memory, 72 * hours)
        reports.put(name, [present[name]], CAPACITY)
        assert needed(reports) == needed(histories(**present, new=WANTS))


def test_small_rise_changes_no_spec() -> None:
    """Amounts are rounded up by at most a sixteenth, so that few rises change a NodeMetric."""
    reports = histories(a=line(cpu=1000), b=line(cpu=999), new=WANTS)
    before = needed(reports)
    reports.put("b", [line(cpu=1005, hours=50)], CAPACITY)
    assert needed(reports) == before == {CART: {"cpu": "1024m", "memory": "1Gi"}}


def metric_with(text: str, name: str) -> dict[str, Any]:
    """The NodeMetric of a node with one workload in its report."""
    metric = report(name=name)
    metric["metadata"]["uid"] = name
    metric["status"]["workloads"] = [text]
    return metric


def test_report_counts_once_its_node_is_known() -> None:
    """A NodeMetric may arrive before its Node; its usage is checked, and counts, when the capacity is known."""
    cluster = ClusterState()
    for name, text in {"a": line(cpu=992), "b": line(cpu=992), "n1": WANTS, "late": line(cpu=5000)}.items():
        if name != "late":
            cluster.put_node(node(name=name))
        cluster.put_node_metric(metric_with(text, name), NOW)

    def cpu() -> str:
        return cluster.workloads.needed("n1", DEFAULTS)[CART]["cpu"]

    assert cpu() == "992m"
    cluster.put_node(node(name="late", cpu="4"))
    assert (cpu(), cluster.workloads.dropped) == ("992m", 1)
    cluster.put_node(node(name="late", cpu="8"))
    assert cpu() == "5120m"
    cluster.drop_node("late", cluster.nodes["late"]["metadata"]["uid"])
    assert cpu() == "992m"


@pytest.mark.parametrize("capacity", [{}, {"cpu": "16"}, {"cpu": "16", "memory": "much"}])
def test_report_without_capacity_does_not_count(capacity: dict[str, str]) -> None:
    """Usage and evidence of a node are ignored while its capacity is unknown."""
    reports = histories(a=line(), new=WANTS)
    reports.put("b", [line()], capacity)
    assert needed(reports) == {}
    reports.put_capacity("b", CAPACITY)
    assert needed(reports) == {CART: {"cpu": "1024m", "memory": "1Gi"}}


def test_spec_has_history_of_cold_pods() -> None:
    """NodeMetrics as listed after a start have all reports; a deleted one takes its report along."""
    cluster = ClusterState()
    for name, text in {"a": line(), "b": line(), "n1": WANTS}.items():
        cluster.put_node(node(name=name))
        cluster.put_node_metric(metric_with(text, name), NOW)
    spec = manifest("n1", "uid-1", strategy(), workloads=cluster.workloads)["spec"]
    assert spec["workloadHistory"] == {CART: {"cpu": "1024m", "memory": "1Gi"}}
    assert "workloadHistory" not in manifest("a", "uid-a", strategy(), workloads=cluster.workloads)["spec"]
    cluster.drop_node_metric("b", "b")
    assert "workloadHistory" not in manifest("n1", "uid-1", strategy(), workloads=cluster.workloads)["spec"]
