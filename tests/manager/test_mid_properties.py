"""Properties of the Mid formula for every node, with any numbers."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.calculators.mid import calculate
from manager.inputs import Amounts, NodeInputs, Resource
from tests.support.objects import Json, mid_pod, node, node_inputs, pod, report, resources

SMALL, PERCENT = st.integers(0, 64), st.integers(0, 100)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
CASES = st.fixed_dictionaries(
    {
        **dict.fromkeys(
            ("allocatable", "kubelet", "usage", "system", "reclaimable", "mid_usage", "prod", "mid"), SMALL
        ),
        "policy": st.sampled_from(["reclaimable", "design", "designMixed"]),
        "mode": st.sampled_from(["", "static"]),
        "unallocated": PERCENT,
        "threshold": PERCENT,
        "static": PERCENT,
        "shrink": st.sampled_from(["floor", "exact"]),
    }
)
"""Numbers of a node: cores everywhere, a gibibyte for each."""


def _both(cores: int) -> tuple[str, str]:
    return str(cores), f"{cores}Gi"


def _report(case: Json, **ages: Any) -> Json:  # noqa: ANN401 - arguments of report
    usage, system, reclaimable, mid = (_both(case[entry]) for entry in ("usage", "system", "reclaimable", "mid_usage"))
    return report(usage=usage, system=system, reclaimable=reclaimable, mid=mid, **ages)


def _inputs(case: Json, metric: Json | None) -> NodeInputs:
    here, whole, prod = (
        resources(*_both(cores))["resources"]
        for cores in (case["allocatable"], case["allocatable"] + case["kubelet"], case["prod"])
    )
    return node_inputs(
        node(**here, capacity=whole),
        metric,
        pod("prod", prod),
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


def _calculated(case: Json) -> Amounts:
    return calculate(_inputs(case, _report(case))).calculated


def _formula(case: Mapping[str, Any], unit: int) -> Any:  # noqa: ANN401 - an int
    allocatable, prod, system = (case[name] * unit for name in ("allocatable", "prod", "system"))
    reclaimable, threshold = case["reclaimable"] * unit, allocatable * case["threshold"] // 100
    if case["mode"] == "static":
        return min(allocatable * case["static"] // 100, threshold)
    if case["policy"] == "design":
        return min(reclaimable, threshold)
    if case["policy"] == "designMixed":
        return min(min(reclaimable, threshold) + max(allocatable - prod, 0), allocatable)
    usable = allocatable + case["kubelet"] * unit - max(system, case["kubelet"] * unit)
    mid_amount = min(case["mid_usage"], case["mid"]) * unit
    unused = max(usable - (case["usage"] * unit - system - mid_amount), 0)
    return min(reclaimable + max(usable - prod, 0) * case["unallocated"] // 100, unused, threshold)


@given(CASES)
def test_formula_of_the_documentation(case: Json) -> None:
    result = calculate(_inputs(case, _report(case)))
    for resource, unit in ((Resource.CPU, 1000), (Resource.MEMORY, 2**30)):
        expected, mid = _formula(case, unit), case["mid"] * unit
        assert result.calculated[resource] == expected
        floor = min(mid, (case["allocatable"] + case["kubelet"]) * unit) if case["shrink"] == "floor" else 0
        assert (result.desired or Amounts())[resource] == max(expected, floor)
        assert result.deficit[resource] == max(mid - expected, 0)


@given(
    CASES,
    st.sampled_from(["usage", "prod", "mid_usage", "reclaimable", "unallocated", "threshold"]),
    st.integers(1, 16),
)
def test_more_load_never_publishes_more(case: Json, what: str, more: int) -> None:
    load = what in {"usage", "prod", "mid_usage"}
    changed = {**case, what: case[what] + more if load else min(case[what] + more, 100)}
    if what == "mid_usage":
        changed["usage"] = case["usage"] + more  # it is part of the node's usage
    less, enough = (changed, case) if load else (case, changed)
    assert all(_calculated(less)[resource] <= _calculated(enough)[resource] for resource in Resource)


@given(CASES, *[st.integers(-300, 300)] * 3)
def test_extreme_percentages_stay_in_bounds(case: Json, threshold: int, unallocated: int, static: int) -> None:
    """Percentages beyond validation still publish at least zero and at most the capacity."""
    result = _calculated({**case, "threshold": threshold, "unallocated": unallocated, "static": static})
    assert 0 <= result.cpu <= case["allocatable"] * 1000
    assert 0 <= result.memory <= case["allocatable"] * 2**30


AGES = st.sampled_from([0, 600, 901])


@given(CASES, st.data(), AGES, AGES)
def test_gap_in_report_never_publishes_more(case: Json, data: st.DataObject, age: int, prediction_age: int) -> None:
    """A report with missing amounts or parts never raises the published amount, nor does a smaller NodeMetric."""
    if data.draw(st.booleans()):  # measurements decide
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
    before = calculate(_inputs(case, metric)).calculated
    for rest in (less, None):
        after = calculate(_inputs(case, rest)).calculated
        assert after.cpu <= before.cpu
        assert after.memory <= before.memory


@pytest.mark.parametrize(
    "gap", [("prediction", "classes", 0), ("prediction", "classes", 1, "usage", "memory"), ("nodeMetric", "nodeUsage")]
)
@pytest.mark.parametrize(("full", "cpu"), [(("3", "1"), 16 - 4 - 5), (("12", "6"), 16 - 4 - 8)])
def test_one_usage_does_not_stand_in_for_another(gap: tuple[Any, ...], full: tuple[str, str], cpu: int) -> None:
    """Of 16 cores the classes use 9, the system 4 of them; a missing usage must not raise unused."""
    metric = report(usage=_both(9), system=_both(4), reclaimable=_both(20), mid=("0", "0"))
    usage, system = (resources(*_both(int(entry))) for entry in full)
    metric["status"]["nodeMetric"] = {"nodeUsage": usage, "systemUsage": system}
    machine = node(cpu="16", memory="16Gi")
    assert calculate(node_inputs(machine, metric, midUnallocatedPercent=100)).calculated.cpu == cpu * 1000
    _remove(metric["status"], gap)
    assert not calculate(node_inputs(machine, metric, midUnallocatedPercent=100)).calculated


def _paths(data: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*path, key)
        yield from _paths(value, (*path, key))


def _remove(data: Any, path: tuple[Any, ...]) -> None:  # noqa: ANN401
    """Remove a part; of a list an empty item stays, so that the other places keep their index."""
    *above, last = path
    for key in above:
        data = data.get(key) if isinstance(data, dict) else data[key]
        if data is None:
            return
    if isinstance(data, list):
        data[last] = {}
    else:
        data.pop(last, None)
