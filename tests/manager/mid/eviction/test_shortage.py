"""What is really short: whatever is not known speaks for the pods that run."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.names import CONDITION_COLLECTING, CONDITION_PREDICTION_READY
from manager.calculators.mid import calculate
from manager.inputs import Amounts, Resource
from manager.mid.eviction.shortage import Shortage, ShortageTimer, Tombstones, shortage, unknown_inputs
from tests.manager.mid.eviction.made_mid import MEBIBYTE, facts_of, mid, short
from tests.support.objects import Json, node, node_inputs, pod, report

GIBIBYTE = 1024 * MEBIBYTE


def seen(
    metric: Json | None,
    *pods: Json,
    tombstones: tuple[Json, ...] = (),
    going: Amounts | None = None,
    **fields: Any,  # noqa: ANN401 - the strategy
) -> Shortage | None:
    """What a report proves on a node of 16 cores and 64 GiB."""
    known = node_inputs(node(), metric, *pods, **fields)
    return shortage(known, calculate(known), facts_of(*tombstones), going or Amounts())


def condition(name: str, status: str) -> Json:
    """A condition of the agent."""
    return {"type": name, "status": status, "reason": "R", "message": "m"}


def test_deficit_is_short() -> None:
    """4 cores may be published, 6 are requested: 2 are short, of which a pod on its way out gives 1.5 back."""
    found = seen(report(), mid("a", 6000), going=Amounts(1500))
    assert found == Shortage(Amounts(6000), Amounts(4000, 10 * GIBIBYTE), Amounts(1500))
    assert (found.deficit, found.short, found.resources) == (short(2000), short(500), (Resource.CPU,))


def test_enough_is_not_short() -> None:
    """What fits is not short."""
    found = seen(report(), mid("a", 4000))
    assert found is not None
    assert not found.short


@pytest.mark.parametrize(
    ("metric", "fields"),
    [
        (None, {}),  # no report
        (report(age=5000), {}),  # too old
        (report(prediction_age=5000), {}),
        (report(age=5000), {"degradeTimeMinutes": 1}),
        (report(), {"enable": False}),
        (report(), {"mode": "shadow"}),
        (report(conditions=[condition(CONDITION_COLLECTING, "False")]), {}),
    ],
)
def test_nothing_proves_nothing(metric: Json | None, fields: Json) -> None:
    """Without a fresh report of an agent that measures, disabled or in shadow mode, nothing is proven."""
    assert seen(metric, mid("a", 90_000), **fields) is None


@pytest.mark.parametrize(
    "metric",
    [
        report(reclaimable=None),
        report(reclaimable=("0", "0"), conditions=[condition(CONDITION_PREDICTION_READY, "False")]),
    ],
)
def test_no_prediction_evicts_nobody(metric: Json) -> None:
    """An agent that has lost its history says that nothing is reclaimable: what fits into the idle node stays."""
    known = node_inputs(node(), metric, mid("a", 9000))
    assert calculate(known).deficit.cpu == 9000
    found = seen(metric, mid("a", 9000))
    assert found is not None
    assert not found.deficit


def test_measured_usage_proves_without_prediction() -> None:
    """Without a prediction a node that is really full still proves it: Prod and system use 14 of 16 cores."""
    metric = report(usage=("16", "24Gi"), reclaimable=None)  # 1 by the system, 2 by Mid
    found = seen(metric, mid("a", 9000))
    assert found is not None
    assert found.deficit == short(9000 - (16_000 - 1000 - (16_000 - 1000 - 2000)))


def test_unmeasured_node_evicts_nobody() -> None:
    """A report without the node's own usage publishes nothing more, but evicts nobody."""
    metric = report(usage=(None, "24Gi"))
    assert calculate(node_inputs(node(), metric, mid("a", 3000))).deficit.cpu == 3000
    found = seen(metric, mid("a", 3000))
    assert found is not None
    assert not found.deficit


def test_unmeasured_mid_usage_counts_as_own() -> None:
    """Where the usage of Mid pods is not reported, they count as using what they requested."""
    metric = report(usage=("13", "24Gi"), reclaimable=("9", "20Gi"))
    del metric["status"]["prediction"]["classes"][-1]
    found = seen(metric, mid("a", 8000))
    assert found is not None
    assert not found.deficit


@pytest.mark.parametrize("missing", [("node",), ("sys",), ("node", "sys", "mid")])
def test_unmeasured_classes_evict_nobody(missing: tuple[str, ...]) -> None:
    """A fast report without the usage of the node or the system publishes nothing more, but evicts nobody."""
    metric = report(usage=("13", "24Gi"), reclaimable=("9", "20Gi"))
    classes = metric["status"]["prediction"]["classes"]
    metric["status"]["prediction"]["classes"] = [each for each in classes if each["name"] not in missing]
    known = node_inputs(node(), metric, mid("a", 8000))
    assert calculate(known).deficit.cpu == 8000
    assert unknown_inputs(known)
    found = seen(metric, mid("a", 8000))
    assert found is not None
    assert not found.deficit


@pytest.mark.parametrize("own_agent", [True, False])
def test_departed_pod_calls_for_no_other(*, own_agent: bool) -> None:
    """Two pods with 2 cores, one too many; when one has left, the usage that is still reported is not Prod's."""
    before = [mid("a", 2000), mid("b", 2000)]
    metric = report(usage=("14", "24Gi"), reclaimable=("9", "20Gi"), mid=("4", "1Gi") if own_agent else None)
    if not own_agent:
        usage = {"resources": {"cpu": "2", "memory": "512Mi"}}
        metric["status"]["podsMetric"] = [{"namespace": "shop", "name": name, "podUsage": usage} for name in "ab"]
    whole = seen(metric, *before, pod("prod", {"cpu": "4"}))
    assert whole is not None
    assert whole.calculated.cpu == 16_000 - 1000 - (14_000 - 1000 - 4000)
    naive = calculate(node_inputs(node(), metric, before[1])).calculated.cpu
    assert naive == whole.calculated.cpu - 2000
    after = seen(metric, before[1], tombstones=(before[0],), midUnallocatedPercent=0)
    assert after is not None
    assert not after.deficit


def test_departed_pods_are_forgotten_in_time() -> None:
    """A pod that left is remembered until a report speaks of a time that begins later."""
    (a, b), departures = facts_of(mid("a"), mid("b")), Tombstones()
    departures.update({a.uid: a, b.uid: b}, 100.0)
    departures.update({b.uid: b}, 200.0)
    assert departures.still_reported(210.0, 300.0) == [a]
    assert departures.still_reported(499.0, 300.0) == [a]
    assert departures.still_reported(500.0, 300.0) == []
    assert departures.still_reported(210.0, 300.0) == []


def test_each_resource_has_its_own_time() -> None:
    """Memory that has just become short evicts nobody because CPU has been short for long."""
    clock = ShortageTimer()
    clock.update(short(5), 0.0)
    clock.update(short(7, 1), 250.0)
    assert clock.due(short(7, 1), 300, confirmed_at=260.0, now=299.0) == Amounts()
    assert clock.next_due(300, 299.0) == 1.0
    assert clock.due(short(7, 1), 300, confirmed_at=260.0, now=300.0) == short(7)
    assert clock.next_due(300, 300.0) == 250.0
    assert clock.due(short(7, 1), 300, confirmed_at=260.0, now=550.0) == short(7, 1)
    clock.update(short(0, 1), 560.0)
    clock.update(short(7, 1), 570.0)
    assert clock.due(short(7, 1), 300, confirmed_at=565.0, now=571.0) == short(0, 1)


def test_one_report_evicts_nobody() -> None:
    """A report from before the shortage was seen has to be confirmed by a later one, however long it lasts."""
    clock = ShortageTimer()
    clock.update(short(5), 100.0)
    assert clock.due(short(5), 0, confirmed_at=99.0, now=900.0) == Amounts()
    assert clock.due(short(5), 0, confirmed_at=101.0, now=900.0) == short(5)


_CPU = st.integers(0, 20).map(str)
_CONDITIONS = st.lists(
    st.builds(
        condition,
        st.sampled_from([CONDITION_COLLECTING, CONDITION_PREDICTION_READY]),
        st.sampled_from(["True", "False", "Unknown"]),
    ),
    max_size=2,
)


@given(
    usage=st.none() | _CPU,
    reclaimable=st.none() | st.tuples(_CPU, st.just("10Gi")),
    mid_usage=st.none() | _CPU,
    allocated=st.lists(st.integers(0, 6000), max_size=4),
    tombstones=st.lists(st.integers(0, 6000), max_size=2),
    conditions=_CONDITIONS,
    policy=st.sampled_from(["reclaimable", "design", "designMixed"]),
)
def test_never_more_than_formula_says(
    usage: str | None,
    reclaimable: tuple[str, str] | None,
    mid_usage: str | None,
    allocated: list[int],
    tombstones: list[int],
    conditions: list[Json],
    policy: str,
) -> None:
    """Whatever is known or not, what is proven never exceeds the deficit of the formula."""
    metric = report(
        usage=(usage, "24Gi"),
        reclaimable=reclaimable,
        mid=None if mid_usage is None else (mid_usage, "1Gi"),
        conditions=conditions,
    )
    pods = [mid(f"m{number}", cpu) for number, cpu in enumerate(allocated)]
    left = tuple(mid(f"d{number}", cpu) for number, cpu in enumerate(tombstones))
    known = node_inputs(node(), metric, *pods, midPolicy=policy)
    result = calculate(known)
    found = shortage(known, result, facts_of(*left), Amounts())
    if found is not None:
        assert all(found.deficit[each] <= result.deficit[each] for each in Resource)
        assert found.requested == result.requested
