"""What holds for every node, however odd its numbers."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from manager.calculators.mid import calculate, deadline
from manager.facts import Amounts, PodFacts, ReportFacts, Resource, from_objects
from tests.manager.made import NOW, Json, facts, mid_pod, node, pod, report, strategy

SMALL = st.integers(0, 64)
PERCENT = st.integers(0, 100)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def _cases(draw: st.DrawFn) -> Json:
    """Numbers of a node: cores everywhere, a gibibyte for each."""
    allocatable = draw(SMALL)
    return {
        "allocatable": allocatable,
        "capacity": allocatable + draw(SMALL),
        "usage": draw(SMALL),
        "system": draw(SMALL),
        "reclaimable": draw(SMALL),
        "mid_usage": draw(SMALL),
        "prod": draw(SMALL),
        "mid": draw(SMALL),
        "policy": draw(st.sampled_from(["reclaimable", "design", "designMixed"])),
        "mode": draw(st.sampled_from(["", "static"])),
        "unallocated": draw(PERCENT),
        "threshold": draw(PERCENT),
        "static": draw(PERCENT),
        "shrink": draw(st.sampled_from(["floor", "exact"])),
    }


def _both(cores: int) -> tuple[str, str]:
    return str(cores), f"{cores}Gi"


def _calculated(case: Json) -> Amounts:
    return calculate(_facts(case)).calculated


def _facts(case: Json) -> Any:  # noqa: ANN401
    cpu, memory = _both(case["capacity"])
    return facts(
        node(cpu=str(case["allocatable"]), memory=f"{case['allocatable']}Gi", capacity={"cpu": cpu, "memory": memory}),
        report(
            usage=_both(case["usage"]),
            system=_both(case["system"]),
            reclaimable=_both(case["reclaimable"]),
            mid=_both(case["mid_usage"]),
        ),
        pod("prod", {"cpu": str(case["prod"]), "memory": f"{case['prod']}Gi"}),
        mid_pod("mid", str(case["mid"] * 1000), f"{case['mid']}Gi"),
        midPolicy=case["policy"],
        midReclaimMode=case["mode"],
        midUnallocatedPercent=case["unallocated"],
        midCPUThresholdPercent=case["threshold"],
        midMemoryThresholdPercent=case["threshold"],
        midStaticCPUReservedPercent=case["static"],
        midStaticMemoryReservedPercent=case["static"],
        midShrinkPolicy=case["shrink"],
    )


@given(_cases())
def test_mid_stays_in_bounds(case: Json) -> None:
    """0 <= mid <= allocatable * threshold; mixed Mid, which adds to the capped part, stays below allocatable."""
    found = _facts(case)
    result = calculate(found)
    mixed = case["policy"] == "designMixed" and case["mode"] != "static"
    for resource in Resource:
        allocatable = found.allocatable[resource] or 0
        most = allocatable if mixed else allocatable * case["threshold"] // 100
        assert 0 <= result.calculated[resource] <= most
        assert isinstance(result.calculated[resource], int)


@given(_cases())
def test_floor_covers_what_runs(case: Json) -> None:
    """Under `floor` the Node never offers less than running Mid pods request, and the deficit is what is missing."""
    result = calculate(_facts({**case, "shrink": "floor"}))
    for resource in Resource:
        desired = result.desired[resource] if result.desired else 0
        assert desired >= result.requested[resource]
        assert desired == result.calculated[resource] + result.deficit[resource]


@given(_cases(), st.sampled_from(["usage", "prod", "mid_usage"]), st.integers(1, 16))
def test_more_load_never_sells_more(case: Json, what: str, more: int) -> None:
    """Mid falls or stays when the node uses more or Prod requests more; Mid's own use of what it bought is neutral."""
    loaded = {**case, what: case[what] + more}
    if what == "mid_usage":
        loaded["usage"] = case["usage"] + more  # it is part of the node's usage
    before, after = _calculated(case), _calculated(loaded)
    assert after.cpu <= before.cpu
    assert after.memory <= before.memory


@given(_cases(), st.sampled_from(["reclaimable", "unallocated", "threshold", "static"]), st.integers(1, 16))
def test_more_room_never_sells_less(case: Json, what: str, more: int) -> None:
    """Mid rises or stays with what is reclaimable and with each percentage."""
    roomier = {**case, what: min(case[what] + more, 100)}
    before, after = _calculated(case), _calculated(roomier)
    assert after.cpu >= before.cpu
    assert after.memory >= before.memory


@given(JSON, JSON, JSON)
def test_any_json_is_survived(status: Any, capacity: Any, requests: Any) -> None:  # noqa: ANN401
    """Whatever somebody wrote into a NodeMetric, a Node or its annotations, there is an answer and no exception."""
    odd_node = {
        "metadata": {"name": "n1", "annotations": {"node.koordinator.sh/reservation": str(capacity)}},
        "status": {"capacity": capacity, "allocatable": {"cpu": "4", "memory": requests}},
    }
    odd_metric = {
        "status": {
            "updateTime": status,
            "nodeMetric": status,
            "podsMetric": [status],
            "hostApplicationMetric": status,
            "prediction": {"time": status, "classes": [capacity]},
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": status, "memory": requests}}},
        }
    }
    found = from_objects(odd_node, odd_metric, [], strategy(), NOW)
    result = calculate(found)
    deadline(found)
    assert all(result.calculated[resource] >= 0 for resource in Resource)


@given(JSON)
def test_any_status_is_survived(status: Any) -> None:  # noqa: ANN401
    """A status of any shape is read or refused, never a crash."""
    ReportFacts.from_object({"status": status})


def test_unreadable_pod_requests_nothing() -> None:
    """A pod with an amount that is no quantity counts as requesting nothing."""
    assert PodFacts.from_object(pod("odd", {"cpu": "lots"})).requests == Amounts()
