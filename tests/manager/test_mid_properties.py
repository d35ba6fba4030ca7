"""What holds for every node, however odd its numbers."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.calculators.base import Result
from manager.calculators.mid import calculate, deadline
from manager.inputs import Amounts, NodeReport, PodInputs, Resource, from_objects
from tests.support.objects import NOW, Json, mid_pod, node, node_inputs, pod, report, resources, strategy

SMALL = st.integers(0, 64)
PERCENT = st.integers(0, 100)
_GIVEN = frozenset({"allocatable", "capacity", "usage", "system", "reclaimable", "mid_usage", "prod"})

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


_WHOLE: Final[Json] = {}


def _report(case: Json, **ages: Any) -> Json:  # noqa: ANN401 - arguments of report
    usage, system, mid = _both(case["usage"]), _both(case["system"]), _both(case["mid_usage"])
    return report(usage=usage, system=system, reclaimable=_both(case["reclaimable"]), mid=mid, **ages)


def _facts(case: Json, metric: Json | None = _WHOLE) -> Any:  # noqa: ANN401
    cpu, memory = _both(case["capacity"])
    return node_inputs(
        node(cpu=str(case["allocatable"]), memory=f"{case['allocatable']}Gi", capacity={"cpu": cpu, "memory": memory}),
        _report(case) if metric is _WHOLE else metric,
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
    """Under `floor` the Node never offers less than running Mid pods request as far as it has that, and no more."""
    found = _facts({**case, "shrink": "floor"})
    result = calculate(found)
    for resource in Resource:
        desired = result.desired[resource] if result.desired else 0
        capacity = found.capacity[resource] or 0
        assert desired >= min(result.requested[resource], capacity)
        assert desired == max(result.calculated[resource], min(result.requested[resource], capacity))
        assert result.deficit[resource] == max(result.requested[resource] - result.calculated[resource], 0)


@given(_cases(), st.sampled_from(["usage", "prod", "mid_usage"]), st.integers(1, 16))
def test_more_load_never_sells_more(case: Json, what: str, more: int) -> None:
    """Mid falls or stays when the node uses more or Prod requests more; Mid's use of what it requested is neutral."""
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
    NodeReport.from_object({"status": status})


def test_unreadable_pod_requests_nothing() -> None:
    """A pod with an amount that is no quantity counts as requesting nothing."""
    assert PodInputs.from_object(pod("odd", {"cpu": "lots"})).requests == Amounts()


@given(_cases(), st.sampled_from(["report", "prediction"]), st.integers(0, 2000), st.integers(0, 2000))
def test_stale_data_never_sells_more(case: Json, what: str, age: int, older: int) -> None:
    """The older a report or prediction, the less is published, and nothing from an age of more than 15 minutes on."""
    changed = "prediction" if what == "prediction" and case["mode"] != "static" else "report"
    before, after = (_at_age(case, changed, seconds) for seconds in (age, age + older))
    for resource in Resource:
        assert after.calculated[resource] <= before.calculated[resource]
    if age > 900:
        before_facts = _facts(case)
        assert not before.calculated
        assert before.degraded is not None
        floor = Amounts(*(min(before.requested[each], before_facts.capacity[each] or 0) for each in Resource))
        assert before.desired is None or before.desired == floor


def _at_age(case: Json, what: str, age: int) -> Result:
    found = _facts(case)
    return calculate(replace(found, **{f"{what}_age": float(age)}))


AGES = st.sampled_from([0, 600, 901])


@given(_cases(), st.data(), AGES, AGES)
def test_gap_in_report_never_sells_more(case: Json, data: st.DataObject, age: int, prediction_age: int) -> None:
    """Whatever is taken out of a report, amounts or whole parts, no more is published; a NodeMetric less, neither."""
    if data.draw(st.booleans()):  # what is measured decides
        case = {**case, "policy": "reclaimable", "mode": "", "threshold": 100}
        case["reclaimable"] = 64 * data.draw(st.integers(0, 1))
    metric = _report(case, age=age, prediction_age=prediction_age)
    usage, system = resources(*_both(data.draw(SMALL))), resources(*_both(data.draw(SMALL)))
    metric["status"]["nodeMetric"] = {"nodeUsage": usage, "systemUsage": system}  # of a minute before
    # Without `prediction` it would be the report of another agent.
    paths = [path for path in _paths(metric["status"], ()) if path != ("prediction",)]
    less = copy.deepcopy(metric)
    for path in data.draw(st.sets(st.sampled_from(paths), min_size=1, max_size=6)):
        _remove(less["status"], path)
    before = calculate(_facts(case, metric)).calculated
    for rest in (less, None):
        after = calculate(_facts(case, rest)).calculated
        assert after.cpu <= before.cpu
        assert after.memory <= before.memory


@pytest.mark.parametrize(
    "gap", [("prediction", "classes", 0), ("prediction", "classes", 1, "usage", "memory"), ("nodeMetric", "nodeUsage")]
)
@pytest.mark.parametrize("full", [("3", "1"), ("12", "6")])
def test_one_usage_does_not_stand_in_for_another(gap: tuple[Any, ...], full: tuple[str, str]) -> None:
    """Node and system count as measured when the fast report says so and a full one was sent; else nothing is unused.

    Of 16 cores 9 are in use, 4 of them by the system: 16 - 4 - 5 = 7 are unused, or 16 - 4 - 8 where the last full
    report has 12. A usage less must not make it more.
    """
    both = [(each, f"{each}Gi") for each in ("9", "4", "20")]
    metric = report(usage=both[0], system=both[1], reclaimable=both[2], mid=("0", "0"))
    usage, system = (resources(each, f"{each}Gi") for each in full)
    metric["status"]["nodeMetric"] = {"nodeUsage": usage, "systemUsage": system}
    machine = node(cpu="16", memory="16Gi")
    before = calculate(node_inputs(machine, metric, midUnallocatedPercent=100)).calculated
    assert before.cpu == (7000 if full[0] == "3" else 4000)
    _remove(metric["status"], gap)
    assert not calculate(node_inputs(machine, metric, midUnallocatedPercent=100)).calculated


def _paths(data: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    """Where something stands in a status."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*path, key)
        yield from _paths(value, (*path, key))


def _remove(data: Any, path: tuple[Any, ...]) -> None:  # noqa: ANN401
    """Take out what stands there; of a list something empty stays, so that the other places stay what they are."""
    *above, last = path
    for key in above:
        data = data.get(key) if isinstance(data, dict) else data[key]
        if data is None:
            return
    if isinstance(data, list):
        data[last] = {}
    else:
        data.pop(last, None)


@given(_cases(), st.integers(-300, 300), st.integers(-300, 300), st.integers(-300, 300))
def test_odd_percentages_stay_in_bounds(case: Json, threshold: int, unallocated: int, static: int) -> None:
    """Percentages that no validation lets through still publish neither less than nothing nor more than there is."""
    result = calculate(_facts({**case, "threshold": threshold, "unallocated": unallocated, "static": static}))
    for resource in Resource:
        assert 0 <= result.calculated[resource] <= case["allocatable"] * (1000 if resource is Resource.CPU else 2**30)
