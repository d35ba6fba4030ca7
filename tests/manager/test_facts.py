"""Facts from objects: pods, annotations, ages."""

from typing import Any

import pytest

from crds import names
from crds.priority import PriorityBand
from manager.calculators.mid import calculate
from manager.inputs import Amounts, Measured, NodeReport, PodInputs, from_objects
from manager.inputs.amounts import UNKNOWN
from manager.inputs.node_metric import age_seconds
from manager.inputs.reading import parse_time
from tests.support.objects import NOW, mid_pod, node, node_inputs, pod, report, strategy


def test_pod_is_reduced() -> None:
    """What is kept of a pod is its key, band, requests and what it requested; amounts round up."""
    web = PodInputs.from_object(pod("web", {"cpu": "100u", "memory": "1.5"}))
    assert (web.key, web.node, web.band, web.above_mid) == ("shop/web", "n1", PriorityBand.PROD, True)
    assert web.requests == Amounts(1, 2)
    mid = PodInputs.from_object(mid_pod("m", "1500", "3Gi"))
    assert (mid.band, mid.above_mid, mid.holds_mid) == (PriorityBand.MID, False, True)
    assert mid.mid_requests == Amounts(1500, 3 * 1024**3)


def test_reduced_pods_and_objects_agree() -> None:
    """Facts are the same from pods as JSON and from pods already reduced."""
    pods = [pod("a", {"cpu": "2"}), mid_pod("b")]
    from_json = from_objects(node(), report(), pods, strategy(), NOW)
    reduced = from_objects(node(), NodeReport.from_object(report()), map(PodInputs.from_object, pods), strategy(), NOW)
    assert from_json == reduced


def test_report_before_first_status() -> None:
    """A NodeMetric that nobody has reported to is no report."""
    assert NodeReport.from_object({"metadata": {"name": "n1"}}) is None
    assert NodeReport.from_object({"status": {}}) is None


def test_report_from_our_agent() -> None:
    """With status.prediction, usage of class mid is read and usage per pod is not kept."""
    read = NodeReport.from_object(report(podsMetric=[{"namespace": "shop", "name": "a"}]))
    assert read is not None
    assert read.own_agent
    assert read.mid_usage == Measured(2000, 1024**3)
    assert read.pod_usage == {}
    assert read.prediction_time == read.update_time == NOW - 10


@pytest.mark.parametrize(
    ("reported", "observed_at", "age"),
    [
        (None, NOW, None),
        (NOW - 30, None, 30),
        (NOW - 30, NOW - 10, 30),  # it took 20 s to arrive
        (NOW + 500, NOW - 10, 10),  # a clock that is ahead
        (NOW + 500, None, 0),
    ],
)
def test_age_of_report(reported: float | None, observed_at: float | None, age: float | None) -> None:
    """The age is the longer of the time since the report says it was sent and the time since we saw it."""
    assert age_seconds(reported, observed_at, NOW) == age


@pytest.mark.parametrize("empty", [{}, {"resource": {}}, {"resource": {"resources": {}}}, {"resource": None}])
@pytest.mark.parametrize("mid", [None, ("2", "1Gi")])
def test_unpredicted_is_unknown(empty: dict[str, Any], mid: tuple[str, str] | None) -> None:
    """What koordlet writes while it cannot predict is unknown, and publishes nothing."""
    metric = report(mid=mid)
    metric["status"]["prodReclaimableMetric"] = empty
    found = node_inputs(node(), metric)
    assert found.report is not None
    assert found.report.reclaimable == UNKNOWN
    assert calculate(found).calculated == Amounts()


@pytest.mark.parametrize("empty", [{}, {"resources": {}}, None])
@pytest.mark.parametrize("percent", [0, 100])
def test_empty_usage_is_unknown(empty: dict[str, Any] | None, percent: int) -> None:
    """A usage without amounts (koordlet without its page-cache collector) is no idle node: nothing is published."""
    metric = report(mid=None, nodeMetric={"nodeUsage": empty, "systemUsage": empty})
    found = node_inputs(node(), metric, midUnallocatedPercent=percent)
    assert calculate(found).calculated == Amounts()


@pytest.mark.parametrize("annotation", ["no", "[]", "null", '{"resources": 3}', "[" * 100000])
def test_unusable_reservation_is_ignored(annotation: str) -> None:
    """A reservation that cannot be read reserves nothing, and is said unless it is merely empty."""
    found = node_inputs(node(annotations={names.ANNOTATION_NODE_RESERVATION: annotation}), report())
    assert found.reservation == Amounts()


def test_annotation_makes_no_node_ready() -> None:
    """A Node that does not state what is allocatable yet publishes nothing, whatever an annotation says there is."""
    new = node(annotations={names.ANNOTATION_RAW_ALLOCATABLE: '{"cpu": "8", "memory": "8Gi"}'})
    del new["status"]["allocatable"]["cpu"]
    found = node_inputs(new, report())
    assert found.allocatable == Measured(None, 8 * 1024**3)
    assert calculate(found).degraded is not None


@pytest.mark.parametrize("amount", ["-1", "-5Gi", "1e40", "banana", True, [1], {}])
def test_impossible_amount_is_unknown(amount: object) -> None:
    """A usage that cannot be is not known, and said so: as a zero it would say that the whole node is free."""
    metric = report()
    metric["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] = amount
    read = NodeReport.from_object(metric)
    assert read is not None
    assert read.node_usage.cpu is None
    assert read.node_usage.memory == 24 * 1024**3
    assert len(read.problems) == 1
    assert read.problems[0].startswith("nodeUsage.cpu: ")


def test_times_of_several_forms() -> None:
    """RFC 3339 with Z, an offset or fractions is read; without a zone it is UTC."""
    assert parse_time("2027-01-15T08:00:00Z") == NOW
    assert parse_time("2027-01-15T09:00:00+01:00") == NOW
    assert parse_time("2027-01-15T08:00:00.5") == NOW + 0.5


def test_bad_time_counts_as_never() -> None:
    """A report whose time cannot be read was never sent, and says so."""
    metric = report()
    metric["status"]["updateTime"] = "yesterday"
    found = node_inputs(node(), metric)
    assert found.report_age is None
    assert found.problems == ("status.updateTime: 'yesterday' is not a time; the report counts as never sent",)


@pytest.mark.parametrize(("amount", "shown"), [({"cpu": "1"}, "an object"), (["1"], "a list"), ("x" * 999, "'xxx")])
def test_odd_amounts_are_named_shortly(amount: object, shown: str) -> None:
    """What stands where an amount should is named in a line, however long or deeply nested it is."""
    metric = report()
    metric["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] = amount
    read = NodeReport.from_object(metric)
    assert read is not None
    assert read.problems[0].startswith(f"nodeUsage.cpu: {shown}")
    assert len(read.problems[0]) < 200


def test_odd_requests_are_numbers() -> None:
    """Requests below zero are none, and those beyond what Kubernetes counts are that: every sum can be written."""
    odd = PodInputs.from_object(pod("odd", {"cpu": "-3", names.MID_CPU: "9" * 400, names.MID_MEMORY: "-1"}))
    assert odd.requests == Amounts()
    assert odd.mid_requests == Amounts(2**63 - 1, 0)
    many = [pod(name, dict.fromkeys((names.MID_CPU, names.MID_MEMORY, "cpu", "memory"), "9E")) for name in "abcd"]
    found = node_inputs(node(), report(), *many)
    assert found.mid_requests == Amounts(2**63 - 1, 2**63 - 1)
    assert found.requests_above_mid == Amounts()
    requested = node_inputs(node(), report(), *(pod(name, {"cpu": "9E", "memory": "9E"}) for name in "abcd"))
    assert requested.requests_above_mid == Amounts(2**63 - 1, 2**63 - 1)
    assert calculate(found).desired == Amounts(16_000, 64 * 2**30)


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        ({}, False),
        ({"phase": "Pending"}, False),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}, False),
        ({"phase": "Pending", "startTime": "2026-07-20T10:00:00Z"}, True),  # its image is pulled
        ({"phase": "Pending", "containerStatuses": [{"name": "c"}]}, True),
        ({"phase": "Running"}, True),
        ({"phase": "Unknown", "startTime": "2026-07-20T10:00:00Z"}, True),  # its node is lost
        ({"phase": "Failed", "startTime": "2026-07-20T10:00:00Z", "reason": "OutOfkubernetes.io/mid-cpu"}, False),
    ],
)
def test_floor_counts_admitted_pods(status: dict[str, Any], counts: bool) -> None:  # noqa: FBT001
    """A pod that only names the node, as anybody who creates pods may, raises nothing: no kubelet has compared it."""
    greedy = {**mid_pod("greedy", cpu="1000000"), "status": status}
    unbound = mid_pod("unbound", on="")
    for shrink in ("floor", "exact"):
        now = node_inputs(
            node(), report(reclaimable=("1", "1Gi"), mid=("9", "9Gi")), greedy, unbound, midShrinkPolicy=shrink
        )
        without = node_inputs(node(), report(reclaimable=("1", "1Gi"), mid=("9", "9Gi")), midShrinkPolicy=shrink)
        assert (now.mid_requests.cpu, without.mid_requests.cpu) == (1_000_000 if counts else 0, 0)
        result, expected = calculate(now), calculate(without)
        assert result.desired is not None
        assert result.desired.cpu <= 16_000
        if not counts:
            assert (result.desired, result.deficit) == (expected.desired, expected.deficit)
        else:
            assert result.desired.cpu == (16_000 if shrink == "floor" else result.calculated.cpu)


def test_unreadable_limits_of_mid_pod() -> None:
    """A Mid pod without a priority of its own, and with limits that nobody can read, still holds what it requested."""
    odd = pod("odd", {names.MID_CPU: "2000"}, priority=None)
    odd["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "many"}
    found = PodInputs.from_object(odd)
    assert found.mid_requests == Amounts(2000, 0)
    assert found.holds_mid
    assert found.mid is not None
    assert found.mid.priority == 7999
