"""The proven shortage: unknown values count in favour of running pods."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.names import CONDITION_COLLECTING, CONDITION_PREDICTION_READY
from manager.calculators.mid import calculate
from manager.inputs import Amounts, NodeInputs, Resource
from manager.mid.eviction.selection import beyond_requests
from manager.mid.eviction.shortage import (
    Shortage,
    ShortageTimer,
    Tombstone,
    Tombstones,
    shortage,
    unknown_inputs,
    unproven_deficit,
)
from tests.manager.mid.eviction.evicting_node import inputs_of, mid, short
from tests.support.objects import Json, node_inputs, pod, report, resources

MEMORY = 10 << 30
USAGE = {"shop/hungry": Amounts(3000)}


def seen(inputs: NodeInputs, *ended: Json, terminating: Iterable[Json] = ()) -> Shortage | None:
    tombstones = [Tombstone(pod, beyond_requests(pod, USAGE)) for pod in inputs_of(*ended)]
    return shortage(inputs, calculate(inputs), tombstones, inputs_of(*terminating))


def condition(name: str, status: str) -> Json:
    return {"type": name, "status": status, "reason": "R", "message": "m"}


def without(*classes: str, **more: Any) -> Json:  # noqa: ANN401 - of report
    metric = report(usage=("13", "24Gi"), reclaimable=("9", "20Gi"), **more)
    parts = metric["status"]["prediction"]["classes"]
    metric["status"]["prediction"]["classes"] = [part for part in parts if part["name"] not in classes]
    return metric


def test_deficit_is_short() -> None:
    """4 cores may be published, 6 are requested: 2 are short, of which a terminating pod gives 1.5 back."""
    result = seen(node_inputs(None, report(), mid("a", 6000)), terminating=[mid("b", 1500)])
    assert result == Shortage(Amounts(6000), Amounts(4000, MEMORY), Amounts(1500))
    assert (result.deficit, result.short, result.resources) == (short(2000), short(500), (Resource.CPU,))
    assert result.only(short(0, 1)) == Shortage(Amounts(), Amounts(4000, MEMORY), Amounts(1500))
    assert seen(node_inputs(None, report(), mid("a", 4000))) == Shortage(Amounts(4000), Amounts(4000, MEMORY))


@pytest.mark.parametrize(
    ("metric", "fields"),
    [
        (None, {}),
        (report(age=5000), {}),
        (report(prediction_age=5000), {}),
        (report(age=61), {"degradeTimeMinutes": 1}),
        (report(), {"enable": False}),
        (report(), {"mode": "shadow"}),
        (report(conditions=[condition(CONDITION_COLLECTING, "False")]), {}),
    ],
)
def test_only_a_fresh_report_of_an_enabled_node_proves_a_shortage(metric: Json | None, fields: Json) -> None:
    assert seen(node_inputs(None, metric, mid("a", 90_000), **fields)) is None


NOT_READY = [condition(CONDITION_PREDICTION_READY, "False")]
UNREADY = "the prediction is not ready (condition PredictionReady)"
NO_NODE, NO_SYSTEM = "the usage of the node is not reported", "the usage of the system is not reported"
NO_RECLAIMABLE = "what can be reclaimed of Prod pods is not reported"


@pytest.mark.parametrize(
    ("metric", "requested", "deficit", "proven", "unknown"),
    [
        (report(reclaimable=None), 9000, 9000, 0, (NO_RECLAIMABLE,)),
        # an agent that has lost its history: what fits into the idle node stays
        (report(reclaimable=("0", "0"), conditions=NOT_READY), 9000, 9000, 0, (UNREADY,)),
        # a node that is really full proves it without a prediction: Prod and system use 14 of 16 cores, so 2 are left
        (report(usage=("16", "24Gi"), reclaimable=None), 9000, 9000, 7000, (NO_RECLAIMABLE,)),
        (report(usage=(None, "24Gi")), 3000, 3000, 0, (NO_NODE,)),
        (without("mid"), 8000, 5000, 0, ()),  # Mid pods without reported usage use their requests
        (without("node"), 8000, 8000, 0, (NO_NODE,)),
        (without("sys"), 8000, 8000, 0, (NO_SYSTEM,)),
        (without("node", "sys", "mid"), 8000, 8000, 0, (NO_NODE,)),
        (report(), 6000, 2000, 2000, ()),
    ],
)
def test_unknown_inputs_evict_no_pod(
    metric: Json, requested: int, deficit: int, proven: int, unknown: tuple[str, ...]
) -> None:
    """The formula's deficit is proven only as far as it does not follow from unknown values."""
    inputs = node_inputs(None, metric, mid("a", requested))
    result, matches = calculate(inputs), seen(inputs)
    assert matches is not None
    assert (result.deficit.cpu, matches.deficit, unknown_inputs(inputs)) == (deficit, short(proven), unknown)
    assert unproven_deficit(inputs, result, matches).cpu == (deficit - proven if unknown else 0)


@pytest.mark.parametrize("own_agent", [True, False])
def test_pod_that_left_calls_for_no_other(*, own_agent: bool) -> None:
    """Two pods with 2 cores, one too many; when one has left, the usage that is still reported is not Prod's."""
    before = [mid("a", 2000), mid("b", 2000)]
    metric = report(usage=("14", "24Gi"), reclaimable=("9", "20Gi"), mid=("4", "1Gi") if own_agent else None)
    if not own_agent:
        usage = resources("2", "512Mi")
        metric["status"]["podsMetric"] = [{"namespace": "shop", "name": name, "podUsage": usage} for name in "ab"]
    whole = seen(node_inputs(None, metric, *before, pod("prod", {"cpu": "4"})))
    assert whole is not None
    assert whole.calculated.cpu == 16_000 - 1000 - (14_000 - 1000 - 4000)
    assert calculate(node_inputs(None, metric, before[1])).calculated.cpu == whole.calculated.cpu - 2000
    after = seen(node_inputs(None, metric, before[1], midUnallocatedPercent=0), before[0])
    assert after is not None
    assert not after.deficit


def test_pods_that_left_are_forgotten_in_time() -> None:
    (a, b), tombstones = inputs_of(mid("a"), mid("b")), Tombstones()
    tombstones.update({a.uid: a, b.uid: b}, {a.key: Amounts(1500)}, 100.0)
    tombstones.update({b.uid: b}, {}, 200.0)
    gone = [Tombstone(a, Amounts(500), 200.0)]
    assert [tombstones.still_reported(when, 300.0) for when in (210.0, 499.0, 500.0, 210.0)] == [gone, gone, [], []]


def test_usage_beyond_requests_ends_with_its_pod() -> None:
    """A pod that uses 2 cores beyond its request releases them as it terminates, and after its end until reported."""
    hungry, other = mid("hungry", 1000), mid("other", 6000)
    metric = report(podsMetric=[{"namespace": "shop", "name": "hungry", "podUsage": resources("3", "0")}])
    terminating = seen(node_inputs(None, metric, hungry, other), terminating=[hungry])
    ended = seen(node_inputs(None, metric, other), hungry)
    for result in (terminating, ended):
        assert result is not None
        assert (result.released, result.short) == (Amounts(2000), Amounts())


def test_resources_have_a_time_of_their_own() -> None:
    timer, both = ShortageTimer(), short(7, 1)
    timer.update(short(5), 0.0)
    timer.update(both, 250.0)
    due = [timer.due(both, 300, confirmed_at=260.0, now=now) for now in (299.0, 300.0, 550.0)]
    assert due == [Amounts(), short(7), both]
    assert [timer.next_due(300, now) for now in (299.0, 300.0, 550.0)] == [1.0, 250.0, None]
    timer.update(short(0, 1), 560.0)
    timer.update(both, 570.0)
    assert timer.due(both, 300, confirmed_at=565.0, now=571.0) == short(0, 1)


@pytest.mark.parametrize(("confirmed_at", "due"), [(99.0, 0), (100.0, 0), (101.0, 5)])
def test_later_report_must_confirm_the_shortage(confirmed_at: float, due: int) -> None:
    timer = ShortageTimer()
    timer.update(short(5), 100.0)
    assert timer.due(short(5), 0, confirmed_at=confirmed_at, now=900.0) == short(due)


_CPU = st.integers(0, 20).map(str)
_CONDITIONS = st.builds(
    condition,
    st.sampled_from([CONDITION_COLLECTING, CONDITION_PREDICTION_READY]),
    st.sampled_from(["True", "False", "Unknown"]),
)


@given(
    usage=st.none() | _CPU,
    reclaimable=st.none() | st.tuples(_CPU, st.just("10Gi")),
    mid_usage=st.none() | _CPU,
    allocated=st.lists(st.integers(0, 6000), max_size=4),
    left=st.lists(st.integers(0, 6000), max_size=2),
    conditions=st.lists(_CONDITIONS, max_size=2),
    policy=st.sampled_from(["reclaimable", "design", "designMixed"]),
)
def test_never_more_than_the_formula(
    usage: str | None,
    reclaimable: tuple[str, str] | None,
    mid_usage: str | None,
    allocated: list[int],
    left: list[int],
    conditions: list[Json],
    policy: str,
) -> None:
    mid_class = None if mid_usage is None else (mid_usage, "1Gi")
    metric = report(usage=(usage, "24Gi"), reclaimable=reclaimable, mid=mid_class, conditions=conditions)
    inputs = node_inputs(None, metric, *(mid(f"m{n}", cpu) for n, cpu in enumerate(allocated)), midPolicy=policy)
    result, matches = calculate(inputs), seen(inputs, *(mid(f"d{n}", cpu) for n, cpu in enumerate(left)))
    if matches is not None:
        assert all(matches.deficit[resource] <= result.deficit[resource] for resource in Resource)
        assert matches.requested == result.requested
