"""The Mid formula, line by line with worked numbers, and what bends it."""

import pytest

from crds import names
from manager.calculators.base import Degraded, Result
from manager.calculators.mid import MidCalculator, calculate, deadline
from manager.inputs import Amounts, ObservedAt, Resource
from tests.support.objects import NOW, Json, mid_pod, node, node_inputs, pod, report

CPU, MEMORY = Resource.CPU, Resource.MEMORY
GIB = 1024**3
PROD_DB: Json = {"name": "db", "priority": "koord-prod", "usage": {"resources": {"cpu": "2", "memory": "4Gi"}}}
BATCH_YARN: Json = {"name": "yarn", "priority": "koord-batch", "usage": {"resources": {"cpu": "1", "memory": "2Gi"}}}


def _cores(result: Result) -> dict[str, float]:
    return {term.name: term.value / 1000 for term in result.terms if term.resource is CPU}


def _gibibytes(result: Result) -> dict[str, float]:
    return {term.name: term.value / GIB for term in result.terms if term.resource is MEMORY}


def _used(pods: dict[str, tuple[str, str]]) -> list[Json]:
    return [
        {"namespace": "shop", "name": name, "podUsage": {"resources": {"cpu": cpu, "memory": memory}}}
        for name, (cpu, memory) in pods.items()
    ]


def test_every_line_of_formula() -> None:
    """The numbers of the module's example come out, term by term."""
    result = calculate(
        node_inputs(
            node(cpu="15", memory="60Gi", capacity={"cpu": "16", "memory": "64Gi"}),
            report(usage=("6", "24Gi"), system=("1", "2Gi"), reclaimable=("4", "10Gi"), mid=("2", "1Gi")),
            pod("web", {"cpu": "9", "memory": "30Gi"}),
            mid_pod("batch", cpu="3000", memory="2Gi"),
            midUnallocatedPercent=50,
        )
    )
    cpu = {term.name: term.value for term in result.terms if term.resource is CPU}
    assert cpu == {
        "reserved": 1000,
        "usable": 15000,
        "unallocated": 6000,
        "midOwn": 2000,
        "unused": 15000 - (6000 - 1000 - 2000),
        "reclaimable": 4000,
        "threshold": 15000,
        "mid": 7000,  # min(4000 + 3000, 12000, 15000)
    }
    memory = {term.name: term.value // GIB for term in result.terms if term.resource is MEMORY}
    assert memory["reserved"] == 4  # kubelet reserves more than the system uses
    assert memory["unused"] == 60 - (24 - 2 - 1)
    assert memory["mid"] == 10 + 15  # 50 % of 60 - 30
    assert result.outcome == Amounts(7000, 25 * GIB)
    assert result.desired == Amounts(7000, 25 * GIB)
    assert result.deficit == Amounts()


@pytest.mark.parametrize(
    ("system", "annotation", "reserved"),
    [
        ("500m", "", 1000),  # capacity - allocatable
        ("3", "", 3000),  # system usage
        ("500m", '{"resources": {"cpu": "5"}}', 5000),  # annotation reservation
        ("500m", '{"resources": {"cpu": "5"}, "reservedCPUs": "0-1,4"}', 3000),  # named CPUs override the number
        ("500m", '{"reservedCPUs": "3-1"}', 1000),  # unusable: no reservation
    ],
)
def test_reserved_is_the_largest(system: str, annotation: str, reserved: int) -> None:
    """Reserved is the largest of system usage, kubelet's reservation and the annotation."""
    the_node = node(cpu="15", capacity={"cpu": "16"}, annotations={names.ANNOTATION_NODE_RESERVATION: annotation})
    result = calculate(node_inputs(the_node, report(system=(system, "1Gi"))))
    assert result.term("reserved", CPU).value == reserved
    assert result.term("usable", CPU).value == 16000 - reserved


def test_only_pods_above_mid_allocate() -> None:
    """Prod pods and pods without a band are subtracted; Mid, Batch, Free and ended ones are not."""
    pods = [
        pod("run", {"cpu": "5"}),
        pod("wait", {"cpu": "2"}, phase="Pending"),
        pod("plain", {"cpu": "1"}, priority=None),
        pod("system", {"cpu": "1"}, priority=2_000_001_000),
        pod("done", {"cpu": "7"}, phase="Succeeded"),
        pod("failed", {"cpu": "7"}, phase="Failed"),
        pod("mid", {"cpu": "3"}, priority=7000),
        pod("batch", {"cpu": "3"}, priority=5000),
        pod("free", {"cpu": "3"}, priority=3000),
        pod("elsewhere", {"cpu": "3"}, on="n2"),
        mid_pod("bought", labels={names.LABEL_PRIORITY_CLASS: "koord-prod"}),  # Mid whatever its label says
    ]
    result = calculate(node_inputs(node(), report(), *pods))
    assert result.term("unallocated", CPU).value == 15000 - 9000


def test_mid_own_stops_at_requests() -> None:
    """What Mid pods use beyond what they requested counts against Mid."""
    greedy = calculate(node_inputs(node(), report(mid=("5", "1Gi")), mid_pod("m", cpu="3000")))
    assert greedy.term("midOwn", CPU).value == 3000
    modest = calculate(node_inputs(node(), report(mid=("2", "1Gi")), mid_pod("m", cpu="3000")))
    assert modest.term("unused", CPU).value == greedy.term("unused", CPU).value - 1000


def test_unused_bounds_the_sum() -> None:
    """A busy node publishes no more than it has left, whatever is reclaimable or unallocated."""
    result = calculate(node_inputs(node(), report(usage=("15", "60Gi"), mid=("0", "0")), midUnallocatedPercent=100))
    assert result.outcome == Amounts(15000 - 14000, 62 * GIB - 58 * GIB)
    assert result.term("mid", CPU).note == "limited by unused"


@pytest.mark.parametrize("usage", [("6", None), (None, "24Gi"), (None, None)])
def test_missing_usage_sells_nothing(usage: tuple[str | None, str | None]) -> None:
    """Mid needs both resources measured: without either, nothing counts as unused."""
    result = calculate(node_inputs(node(), report(usage=usage)))
    assert result.outcome == Amounts(0, 0)
    assert "reports no node usage" in result.term("unused", CPU).note


def test_no_prediction_still_sells_unallocated() -> None:
    """Without a prediction Reclaimable is 0, and the unallocated share still counts."""
    result = calculate(node_inputs(node(), report(reclaimable=None, mid=None), midUnallocatedPercent=20))
    assert result.outcome == Amounts(3000, 62 * GIB * 20 // 100)
    assert "no prediction" in result.term("reclaimable", CPU).note


def test_idle_node_sells_nothing_by_default() -> None:
    """With midUnallocatedPercent 0 and nothing reclaimable, Mid is 0 and says why."""
    result = calculate(node_inputs(node(), report(reclaimable=("0", "0"))))
    assert result.outcome == Amounts(0, 0)
    assert result.term("mid", CPU).note == "0 because nothing is reclaimable and midUnallocatedPercent is 0"


def test_percentages_truncate() -> None:
    """33 % of 7777 is 2566, not 2567."""
    the_node = node(cpu="7777m", memory="1000000001")
    quiet = report(usage=("0", "0"), system=("0", "0"), reclaimable=("0", "0"), mid=("0", "0"))
    assert calculate(node_inputs(the_node, quiet, midUnallocatedPercent=33)).outcome == Amounts(2566, 330000000)


def test_threshold_is_of_allocatable() -> None:
    """The cap is a share of allocatable, not of capacity."""
    the_node = node(cpu="10", capacity={"cpu": "16"})
    result = calculate(
        node_inputs(the_node, report(usage=("0", "0"), reclaimable=("9", "1Gi")), midCPUThresholdPercent=50)
    )
    assert result.calculated.cpu == 5000
    assert result.term("mid", CPU).note == "limited by threshold"


def test_raw_allocatable_wins() -> None:
    """Where resources are amplified, the annotation says what there really is; a missing resource is as stated."""
    amplified = node(cpu="32", annotations={names.ANNOTATION_RAW_ALLOCATABLE: '{"cpu": "16"}'})
    result = calculate(node_inputs(amplified, report()))
    assert result.term("threshold", CPU).value == 16000
    assert result.term("threshold", MEMORY).value == 64 * GIB


@pytest.mark.parametrize(
    ("policy", "cpu"),
    [
        ("design", 4000),  # min(Reclaimable, threshold)
        ("designMixed", 4000 + 7000),  # ... + allocatable - requests of Prod
        ("reclaimable", 4000),
    ],
)
def test_policies_of_design_text(policy: str, cpu: int) -> None:
    """The design text's two formulas are followed to the letter."""
    result = calculate(node_inputs(node(), report(), pod("web", {"cpu": "9", "memory": "30Gi"}), midPolicy=policy))
    assert result.calculated.cpu == cpu


def test_design_mixed_stays_allocatable() -> None:
    """Mixed Mid never exceeds what the node can give."""
    result = calculate(node_inputs(node(), report(reclaimable=("12", "60Gi")), midPolicy="designMixed"))
    assert result.outcome == Amounts(16000, 64 * GIB)


def test_static_mode_sells_a_share() -> None:
    """Static mode ignores usage and takes its share of allocatable, below the threshold."""
    the_node = node(cpu="14", memory="30Gi", capacity={"cpu": "16", "memory": "32Gi"})
    fields: Json = {"midReclaimMode": "static", "midStaticCPUReservedPercent": 25, "midStaticMemoryReservedPercent": 50}
    busy = report(usage=("15", "31Gi"))
    assert calculate(node_inputs(the_node, busy, **fields)).outcome == Amounts(3500, 15 * GIB)
    assert calculate(node_inputs(the_node, busy, **fields, midCPUThresholdPercent=10)).calculated.cpu == 1400


@pytest.mark.parametrize(
    ("age", "prediction_age", "reason"),
    [
        (900, 900, None),  # exactly as old as allowed
        (901, 10, "ReportExpired"),
        (10, 901, "PredictionExpired"),
        (-3600, -3600, None),  # a clock that is ahead is judged by when we saw it
    ],
)
def test_old_reports_degrade(age: float, prediction_age: float, reason: str | None) -> None:
    """A report or prediction older than degradeTimeMinutes counts as absent."""
    result = calculate(node_inputs(node(), report(age=age, prediction_age=prediction_age)))
    assert (result.degraded.reason if result.degraded else None) == reason
    assert (result.desired is None) == (reason is not None)


def test_reports_age_by_our_clock() -> None:
    """A report from the future ages from the moment we received it."""
    ahead = report(age=-3600)
    fresh, stale = ObservedAt(NOW, NOW), ObservedAt(NOW - 901, NOW - 901)
    assert calculate(node_inputs(node(), ahead, observed_at=fresh)).degraded is None
    degraded = calculate(node_inputs(node(), ahead, observed_at=stale)).degraded
    assert degraded is not None
    assert degraded.reason == "ReportExpired"


def test_static_needs_no_prediction() -> None:
    """In static mode only the report must be fresh."""
    result = calculate(node_inputs(node(), report(prediction_age=5000), midReclaimMode="static"))
    assert result.degraded is None


@pytest.mark.parametrize(
    ("metric", "the_node", "fields", "reason"),
    [
        (None, node(), {}, "NoReport"),
        ({"metadata": {"name": "n1"}}, node(), {}, "NoReport"),
        (report(), {"metadata": {"name": "n1"}, "status": {}}, {}, "NodeNotReady"),
        (report(), node(), {"enable": False}, "ColocationDisabled"),
    ],
)
def test_reasons_to_sell_nothing(metric: Json | None, the_node: Json, fields: Json, reason: str) -> None:
    """Each state in which nothing may be published has its own reason and a sentence."""
    result = calculate(node_inputs(the_node, metric, **fields))
    assert isinstance(result.outcome, Degraded)
    assert result.outcome.reason == reason
    assert result.notes[0] == result.outcome.message
    assert result.desired is None


def test_running_mid_pods_keep_their_floor() -> None:
    """What bound Mid pods request stays on the Node, and what is missing is the deficit."""
    pods = [mid_pod("a", cpu="6000", memory="12Gi"), mid_pod("done", phase="Succeeded"), mid_pod("waits", on="")]
    result = calculate(node_inputs(node(), report(), *pods))
    assert result.calculated == Amounts(4000, 10 * GIB)
    assert result.desired == Amounts(6000, 12 * GIB)
    assert result.deficit == Amounts(2000, 2 * GIB)
    exact = calculate(node_inputs(node(), report(), *pods, midShrinkPolicy="exact"))
    assert exact.desired == Amounts(4000, 10 * GIB)


@pytest.mark.parametrize("fields", [{"enable": False}, {"mode": "shadow"}, {"degradeTimeMinutes": 1}])
def test_floor_holds_when_nothing_is_sold(fields: Json) -> None:
    """Degraded, disabled or in shadow: the resources go when no Mid pod runs, and not before."""
    old = report(age=70)
    assert calculate(node_inputs(node(), old, **fields)).desired is None
    assert calculate(node_inputs(node(), old, mid_pod("a"), **fields)).desired == Amounts(3000, 2 * GIB)


def test_shadow_still_calculates() -> None:
    """In shadow mode the number is there for everybody to see, and nothing is published."""
    result = calculate(node_inputs(node(), report(), mode="shadow"))
    assert result.calculated == Amounts(4000, 10 * GIB)
    assert result.desired is None


def test_deadline_is_when_it_degrades() -> None:
    """The deadline is the time left until the older of report and prediction expires."""
    assert deadline(node_inputs(node(), report(age=100, prediction_age=40))) == 800
    assert deadline(node_inputs(node(), report(age=100, prediction_age=300))) == 600
    assert deadline(node_inputs(node(), report(age=1000))) is None


def test_foreign_report_has_one_age() -> None:
    """An agent without status.prediction is judged by its report alone."""
    assert calculate(node_inputs(node(), report(mid=None, age=100))).degraded is None


def test_unreadable_report_is_said() -> None:
    """Amounts that are no quantities count as not reported, and a note names them."""
    odd = report(usage=("lots", "24Gi"), mid=None)
    result = calculate(node_inputs(node(), odd))
    assert result.outcome == Amounts(0, 0)
    assert result.notes == ("nodeUsage.cpu: 'lots' is not a quantity; the amount counts as not reported",)


def test_unknown_term_is_an_error() -> None:
    """Asking for a term that the policy does not have raises."""
    with pytest.raises(KeyError, match="unused"):
        MidCalculator().calculate(node_inputs(node(), report(), midPolicy="design")).term("unused", CPU)


def test_usage_is_of_the_same_ticks() -> None:
    """Mid pods that began to use what they requested since the last full report are not counted as free.

    The full report says 6 cores for the node, 1 for the system. A fast report since says: node 9, system 1.5, of which
    Mid uses 3 of its 4. reserved 1.5, usable 14.5, unused 14.5 - (9 - 1.5 - 3) = 10. With the full report's 6 it would
    be 14.5 - (6 - 1.5 - 3) = 13: the 3 cores that Mid began to use would be published again.
    """
    metric = report(usage=("6", "24Gi"), system=("1", "2Gi"), reclaimable=("12", "9Gi"))
    classes = {"node": ("9", "24Gi"), "sys": ("1500m", "2Gi"), "mid": ("3", "1Gi"), "prod": ("4500m", "9Gi")}
    metric["status"]["prediction"]["classes"] = [
        {"name": name, "usage": {"cpu": cpu, "memory": memory}} for name, (cpu, memory) in classes.items()
    ]
    found = _cores(calculate(node_inputs(node(), metric, mid_pod("job", cpu="4000"))))
    assert (found["reserved"], found["midOwn"], found["unused"], found["mid"]) == (1.5, 3, 10, 10)


def test_page_cache_counts_where_it_is_asked_for() -> None:
    """Classes never count the page cache; a full report that does is believed: 40 GiB are in use, not 24."""
    metric = report(usage=("6", "40Gi"), system=("1", "2Gi"), reclaimable=("4", "60Gi"), mid=("0", "0"))
    metric["status"]["prediction"]["classes"].append({"name": "node", "usage": {"cpu": "6", "memory": "24Gi"}})
    assert _gibibytes(calculate(node_inputs(node(), metric)))["mid"] == 62 - (40 - 2)


def test_batch_memory_is_in_use() -> None:
    """Batch pods request nothing native, so that their memory looks unallocated; but it is in use.

    Prod requested 16 GiB and uses 12, Batch uses 20, the system 2: the node 34 of 64.
    usable 62, unallocated 62 - 16 = 46, unused 62 - (34 - 2) = 30: min(4 + 100 % of 46, 30, 64) = 30 GiB.
    """
    batch = pod("spark", {"kubernetes.io/batch-cpu": "8000", "kubernetes.io/batch-memory": "24Gi"}, priority=5500)
    metric = report(usage=("9", "34Gi"), system=("1", "2Gi"), reclaimable=("1", "4Gi"), mid=("0", "0"))
    web = pod("web", {"cpu": "8", "memory": "16Gi"})
    found = _gibibytes(calculate(node_inputs(node(), metric, web, batch, midUnallocatedPercent=100)))
    assert (found["unallocated"], found["unused"], found["mid"]) == (46, 30, 30)


def test_report_of_another_agent() -> None:
    """Koordinator's agent: usage per pod, host applications, no classes.

    Its system usage of 1 core excludes the host database's 2, which are Prod's: reserved 1 + 2 = 3, usable 13.
    Mid pod a requested 2 and uses 2.5, b requested 2 and uses 0.5: midOwn 2 + 0.5 = 2.5; web's 3 are no Mid usage.
    The node uses 9.5: unused 13 - (9.5 - 1 - 2.5) = 7. Reclaimable 4, web requested 6, unallocated 13 - 6 = 7:
    min(4 + 20 % of 7, 7, 16) = 5.4 cores. The Batch host application reserves nothing; it is in the node's usage.
    """
    metric = report(
        usage=("9500m", "20Gi"),
        system=("1", "2Gi"),
        reclaimable=("4", "4Gi"),
        mid=None,
        podsMetric=_used({"a": ("2500m", "1Gi"), "b": ("500m", "1Gi"), "web": ("3", "4Gi"), "gone": ("9", "9Gi")}),
        hostApplicationMetric=[PROD_DB, BATCH_YARN],
    )
    pods = [mid_pod("a", cpu="2000"), mid_pod("b", cpu="2000"), pod("web", {"cpu": "6"})]
    found = _cores(calculate(node_inputs(node(), metric, *pods, midUnallocatedPercent=20)))
    assert (found["reserved"], found["usable"], found["midOwn"], found["unused"]) == (3, 13, 2.5, 7)
    assert (found["reclaimable"], found["unallocated"], found["mid"]) == (4, 7, 5.4)
