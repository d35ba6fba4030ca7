from typing import Any

import pytest

from crds import names
from crds.priority import PriorityBand
from manager.inputs import Amounts, Measured, MidPod, NodeReport, PodInputs
from manager.inputs.amounts import UNKNOWN
from manager.inputs.node_metric import age_seconds
from manager.inputs.reading import parse_time
from tests.support.objects import NOW, Json, at, mid_pod, node, node_inputs, pod, report, resources

GIB = 1024**3
LARGEST = 2**63 - 1
STARTED = {"startTime": "2026-07-20T10:00:00Z"}


def test_pod_is_reduced_and_amounts_round_up() -> None:
    assert PodInputs.from_object(pod("web", {"cpu": "100u", "memory": "1.5"})) == PodInputs(
        "shop/web", "uid-web", "n1", PriorityBand.PROD, False, Amounts(1, 2), Amounts(), admitted=True
    )
    mid = PodInputs.from_object(mid_pod("m", "1500", "3Gi"))
    assert (mid.band, mid.above_mid, mid.holds_mid) == (PriorityBand.MID, False, True)
    assert mid.mid_requests == Amounts(1500, 3 * GIB)


@pytest.mark.parametrize(
    ("metadata", "mid"),
    [
        ({}, MidPod(7000, 0.0, terminating=False, workload="shop/Pod/m")),
        (
            {
                "creationTimestamp": at(-90),
                "deletionTimestamp": at(0),
                "labels": {names.LABEL_POD_TEMPLATE_HASH: "7f9"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web-7f9", "controller": True}],
            },
            MidPod(7000, NOW - 90, terminating=True, workload="shop/ReplicaSet/web"),
        ),
        (
            {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": False}]},
            MidPod(7000, 0.0, terminating=False, workload="shop/Pod/m"),
        ),
        (  # a pod that only says it is static: its node would not start it again
            {"annotations": {names.ANNOTATION_CONFIG_SOURCE: "file", names.ANNOTATION_CONFIG_MIRROR: "x"}},
            MidPod(7000, 0.0, terminating=False, workload="shop/Pod/m"),
        ),
    ],
)
def test_mid_pod_is_reduced_for_eviction(metadata: Json, mid: MidPod) -> None:
    made = mid_pod("m")
    made["metadata"].update(metadata)
    assert PodInputs.from_object(made).mid == mid


def test_unreadable_pods() -> None:
    """Amounts that are none count as not requested; a Mid pod without a priority has the highest of Mid."""
    assert PodInputs.from_object(pod("malformed", {"cpu": "lots"})).requests == Amounts()
    labelled = pod("label-only", {"cpu": "1"}, labels={names.LABEL_PRIORITY_CLASS: "koord-mid"})
    assert PodInputs.from_object(labelled).mid is None
    malformed = pod("malformed", {names.MID_CPU: "2000"}, priority=None)
    malformed["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "many"}
    result = PodInputs.from_object(malformed)
    assert (result.mid_requests, result.holds_mid, result.mid and result.mid.priority) == (Amounts(2000, 0), True, 7999)


def test_sums_stay_countable() -> None:
    """Requests below zero are none, and those beyond what Kubernetes counts are that: every sum can be written."""
    malformed = PodInputs.from_object(pod("malformed", {"cpu": "-3", names.MID_CPU: "9" * 400, names.MID_MEMORY: "-1"}))
    assert (malformed.requests, malformed.mid_requests) == (Amounts(), Amounts(LARGEST, 0))
    huge = {"cpu": "9E", "memory": "9E"}
    mids = {names.MID_CPU: "9E", names.MID_MEMORY: "9E", **huge}
    result = node_inputs(node(), report(), *(pod(name, huge) for name in "abcd"), *(pod(name, mids) for name in "efgh"))
    assert (result.requests_above_mid, result.mid_requests) == (Amounts(LARGEST, LARGEST), Amounts(LARGEST, LARGEST))


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        ({}, False),
        ({"phase": "Pending"}, False),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}, False),
        ({"phase": "Pending", **STARTED}, True),  # its image is pulled
        ({"phase": "Pending", "containerStatuses": [{"name": "c"}]}, True),
        ({"phase": "Running"}, True),
        ({"phase": "Unknown", **STARTED}, True),  # its node is lost
        ({"phase": "Failed", **STARTED, "reason": "OutOfkubernetes.io/mid-cpu"}, False),
    ],
)
def test_only_admitted_mid_pods_hold_their_requests(status: Json, counts: bool) -> None:  # noqa: FBT001 - a row
    """A pod that only names the node, as any user's pod may, raises nothing: no kubelet has admitted it."""
    result = node_inputs(node(), report(), {**mid_pod("m"), "status": status}, mid_pod("unbound", on=""))
    assert result.mid_requests == (Amounts(3000, 2 * GIB) if counts else Amounts())


def test_report_from_our_agent() -> None:
    """With status.prediction, usage of class mid is read, and per pod the usage of Mid pods alone is kept."""
    pods = [{"namespace": "shop", "name": name, "podUsage": resources("2", "1Gi")} for name in "ab"]
    read = NodeReport.from_object(report(podsMetric=pods), {"shop/b"})
    assert read == NodeReport(
        update_time=NOW - 10,
        prediction_time=NOW - 10,
        own_agent=True,
        node_usage=Measured(6000, 24 * GIB),
        system_usage=Measured(1000, 2 * GIB),
        mid_usage=Measured(2000, GIB),
        pod_usage={"shop/b": Amounts(2000, GIB)},
        reclaimable=Measured(4000, 10 * GIB),
    )
    assert NodeReport.from_object({"metadata": {"name": "n1"}}) is NodeReport.from_object({"status": {}}) is None


@pytest.mark.parametrize("empty", [{}, {"resource": {}}, {"resource": {"resources": {}}}, {"resource": None}])
@pytest.mark.parametrize("mid", [None, ("2", "1Gi")])
def test_unpredicted_is_unknown(empty: Json, mid: tuple[str, str] | None) -> None:
    metric = report(mid=mid)
    metric["status"]["prodReclaimableMetric"] = empty
    read = NodeReport.from_object(metric)
    assert read is not None
    assert read.reclaimable == UNKNOWN


@pytest.mark.parametrize("empty", [{}, {"resources": {}}, None])
def test_empty_usage_is_unknown(empty: Json | None) -> None:
    """A usage without amounts (koordlet without its page-cache collector) is no idle node."""
    read = NodeReport.from_object(report(mid=None, nodeMetric={"nodeUsage": empty, "systemUsage": empty}))
    assert read is not None
    assert (read.node_usage, read.system_usage) == (UNKNOWN, UNKNOWN)


MALFORMED = "is not a quantity; the amount counts as not reported"


@pytest.mark.parametrize(
    ("amount", "problem"),
    [
        ("-1", "'-1' cannot be an amount; it counts as not reported"),
        ("1e40", "'1e40' cannot be an amount; it counts as not reported"),
        ("banana", f"'banana' {MALFORMED}"),
        (True, f"True {MALFORMED}"),
        ([1], f"a list {MALFORMED}"),
        ({"cpu": "1"}, f"an object {MALFORMED}"),
        ("x" * 999, f"'{'x' * 79}… {MALFORMED}"),
    ],
)
def test_impossible_amount_is_unknown_and_named(amount: object, problem: str) -> None:
    """Zero would mean that the whole node is free; the line is short for any value."""
    metric = report()
    metric["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] = amount
    read = NodeReport.from_object(metric)
    assert read is not None
    assert (read.node_usage, read.problems) == (Measured(None, 24 * GIB), (f"nodeUsage.cpu: {problem}",))


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
def test_age_is_the_longer_of_sent_and_seen(
    reported: float | None, observed_at: float | None, age: float | None
) -> None:
    assert age_seconds(reported, observed_at, NOW) == age


def test_times() -> None:
    """RFC 3339 with Z, an offset or fractions; without a zone it is UTC; what cannot be read was never sent."""
    texts = ("2027-01-15T08:00:00Z", "2027-01-15T09:00:00+01:00", "2027-01-15T08:00:00.5")
    assert [parse_time(text) - NOW for text in texts] == [0, 0, 0.5]
    metric = report()
    metric["status"]["updateTime"] = "yesterday"
    result = node_inputs(node(), metric)
    problem = "status.updateTime: 'yesterday' is not a time; the report counts as never sent"
    assert (result.report_age, result.problems) == (None, (problem,))


@pytest.mark.parametrize("annotation", ["no", "[]", "null", '{"resources": 3}', "[" * 10_000, "[" * 100_000])
def test_unusable_reservation_reserves_nothing(annotation: str) -> None:
    result: Any = node_inputs(node(annotations={names.ANNOTATION_NODE_RESERVATION: annotation}), report())
    assert result.reservation == Amounts()


def test_annotation_makes_no_node_ready() -> None:
    new = node(annotations={names.ANNOTATION_RAW_ALLOCATABLE: '{"cpu": "8", "memory": "8Gi"}'})
    del new["status"]["allocatable"]["cpu"]
    assert node_inputs(new, report()).allocatable == Measured(None, 8 * GIB)
