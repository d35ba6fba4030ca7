"""The Mid formula: each line with worked numbers, what degrades it, and what running Mid pods keep."""

from typing import Any

import pytest

from crds import names
from manager.calculators.base import Degraded, Term
from manager.calculators.mid import MidCalculator, calculate, deadline
from manager.inputs import Amounts, NodeInputs, ObservedAt, Resource
from tests.support.objects import NOW, Json, exclusive, mid_pod, node, node_inputs, pod, report, resources

CPU, MEMORY = Resource.CPU, Resource.MEMORY
GIB = 1024**3
WEB = pod("web", {"cpu": "9", "memory": "30Gi"})


def of(metric: Json | None, *pods: Json, **more: Any) -> NodeInputs:  # noqa: ANN401 - of node_inputs
    """Inputs of a node of 16 cores and 64 GiB."""
    return node_inputs(node(), metric, *pods, **more)


def classes(metric: Json, **usage: tuple[str, str]) -> Json:
    parts = [{"name": name, "usage": resources(*amounts)["resources"]} for name, amounts in usage.items()]
    metric["status"]["prediction"]["classes"] = parts
    return metric


def test_numbers_of_the_modules_example_come_out_term_by_term() -> None:
    result = calculate(
        node_inputs(
            node(cpu="15", memory="60Gi", capacity={"cpu": "16", "memory": "64Gi"}),
            report(usage=("6", "24Gi"), system=("1", "2Gi"), reclaimable=("4", "10Gi"), mid=("2", "1Gi")),
            WEB,
            mid_pod("batch", cpu="3000", memory="2Gi"),
            midUnallocatedPercent=50,
        )
    )
    cpu = {term.name: (term.value, tuple(term.inputs.values())) for term in result.terms if term.resource is CPU}
    assert cpu == {
        "reserved": (1000, (1000, 0, 16000, 15000, 0)),
        "usable": (15000, (16000, 1000)),
        "unallocated": (6000, (15000, 9000)),
        "midOwn": (2000, (2000, 3000)),
        "unused": (12000, (15000, 6000, 1000, 2000)),
        "reclaimable": (4000, ()),
        "threshold": (15000, (15000, 100)),
        "mid": (7000, (4000, 6000, 50, 12000, 15000)),
    }
    memory = {term.name: term.value // GIB for term in result.terms if term.resource is MEMORY}
    assert (memory["reserved"], memory["unused"], memory["mid"]) == (4, 60 - (24 - 2 - 1), 10 + 15)
    assert result.outcome == result.desired == Amounts(7000, 25 * GIB)
    assert (result.requested, result.deficit) == (Amounts(3000, 2 * GIB), Amounts())
    assert result.term("usable", CPU) == Term(
        "usable", CPU, "capacity - reserved", 15000, {"capacity": 16000, "reserved": 1000}
    )


def pinned(usage: str | None = "1", cpus: str = "0-7", reclaimable: str = "7") -> Json:
    """A node of 16 cores: pod A has 8 exclusive CPUs and uses 1, and pod B uses 6 of the shared pool."""
    return exclusive(report(usage=("7", "2Gi"), system=("0", "0"), reclaimable=(reclaimable, "10Gi")), usage, cpus)


@pytest.mark.parametrize(
    ("metric", "mid", "note"),
    [
        (pinned(), 2000, "limited by sharedIdle"),
        (pinned("1500m"), 2500, "limited by sharedIdle"),
        (pinned("8"), 7000, ""),  # sharedIdle is 8000
        (pinned("9", reclaimable="12"), 8000, "limited by sharedIdle"),  # more than there is: at most the pool
        (pinned(None), 1000, "limited by sharedIdle"),  # no usage counts as idle
        (pinned(cpus="0-15"), 0, "limited by sharedIdle"),
        (pinned(cpus="0-3,8"), 5000, "limited by sharedIdle"),
        (pinned(cpus=""), 7000, ""),
        (pinned(cpus="all"), 0, "limited by sharedIdle"),
        (pinned(reclaimable="1"), 1000, ""),
    ],
)
def test_mid_cpu_is_at_most_the_idle_part_of_the_shared_pool(metric: Json, mid: int, note: str) -> None:
    """Mid pods run in the shared pool: idle exclusive CPUs do not count. Memory is not affected."""
    result = calculate(of(metric))
    assert (result.calculated.cpu, result.term("mid", CPU).note) == (mid, note)
    assert result.calculated.memory == 10 * GIB


def test_shared_pool_is_explained() -> None:
    result = calculate(of(pinned()))
    inputs = {"unused": 9000, "usage of exclusive CPUs": 1000, "usable": 16000, "exclusive CPUs": 8000}
    assert result.term("sharedIdle", CPU).inputs == inputs
    assert "sharedIdle" not in {term.name for term in result.terms if term.resource is MEMORY}
    (problem,) = calculate(of(pinned(cpus="all"))).notes
    assert problem.startswith("status.prediction.exclusiveCPUs.cpus: 'all' is not a list of CPUs")
    assert problem.endswith("all CPUs count as exclusive")


def reserving(system: str, annotation: str, **more: Any) -> NodeInputs:  # noqa: ANN401 - of report
    """A node of 16 cores with 15 allocatable, on which something is reserved."""
    annotated = node(cpu="15", capacity={"cpu": "16"}, annotations={names.ANNOTATION_NODE_RESERVATION: annotation})
    return node_inputs(annotated, report(system=(system, "1Gi"), **more))


NOBODY_ABOVE = [
    pod("done", {"cpu": "7"}, phase="Succeeded"),
    pod("failed", {"cpu": "7"}, phase="Failed"),
    pod("mid", {"cpu": "3"}, priority=7000),
    pod("batch", {"cpu": "3"}, priority=5000),
    pod("free", {"cpu": "3"}, priority=3000),
    pod("elsewhere", {"cpu": "3"}, on="n2"),
    mid_pod("labelled", labels={names.LABEL_PRIORITY_CLASS: "koord-prod"}),  # Mid whatever its label says
]
ABOVE = [
    pod("run", {"cpu": "5"}),
    pod("wait", {"cpu": "2"}, phase="Pending"),
    pod("plain", {"cpu": "1"}, priority=None),
    pod("system", {"cpu": "1"}, priority=2_000_001_000),
]
# A full report says 6 cores for the node; a fast one since then 9, of which Mid uses 3 of its 4, and 1.5 the system.
FAST = classes(report(reclaimable=("12", "9Gi")), node=("9", "24Gi"), sys=("1500m", "2Gi"), mid=("3", "1Gi"))
# Classes never count the page cache; a full report that does is believed: 40 GiB are in use, not 24.
CACHE = classes(report(usage=("6", "40Gi"), reclaimable=("4", "60Gi")), node=("6", "24Gi"), sys=("1", "2Gi"))
BATCH = pod("spark", {"kubernetes.io/batch-cpu": "8000", "kubernetes.io/batch-memory": "24Gi"}, priority=5500)
FOREIGN = report(
    usage=("9500m", "20Gi"),
    reclaimable=("4", "4Gi"),
    mid=None,
    podsMetric=[
        {"namespace": "shop", "name": name, "podUsage": resources(cpu, "1Gi")}
        for name, cpu in (("a", "2500m"), ("b", "500m"), ("web", "3"), ("gone", "9"))
    ],
    hostApplicationMetric=[
        {"name": "db", "priority": "koord-prod", "usage": resources("2", "4Gi")},
        {"name": "yarn", "priority": "koord-batch", "usage": resources("1", "2Gi")},
    ],
)
IDLE = report(usage=("0", "0"), system=("0", "0"), reclaimable=("0", "0"), mid=("0", "0"))


@pytest.mark.parametrize(
    ("inputs", "cpu", "memory"),
    [
        (reserving("500m", ""), {"reserved": 1000, "usable": 15000}, {}),
        (reserving("3", ""), {"reserved": 3000}, {}),
        (reserving("1", '{"resources": {"cpu": "5"}}'), {"reserved": 5000}, {}),
        (reserving("1", '{"resources": {"cpu": "5"}, "reservedCPUs": "0-1,4"}'), {"reserved": 3000}, {}),
        (reserving("1", '{"reservedCPUs": "3-1"}'), {"reserved": 1000}, {}),
        (of(report(), *ABOVE, *NOBODY_ABOVE), {"unallocated": 15000 - 9000}, {}),
        (of(report(mid=("5", "1Gi")), mid_pod("m")), {"midOwn": 3000, "unused": 15000 - (6000 - 1000 - 3000)}, {}),
        (of(FAST, mid_pod("job", "4000")), {"reserved": 1500, "unused": 10000}, {}),
        (of(CACHE), {}, {"unused": 62 - (40 - 2), "mid": 24}),
        (
            node_inputs(
                node(),
                report(usage=("9", "34Gi"), reclaimable=("1", "4Gi"), mid=("0", "0")),
                pod("web", {"cpu": "8", "memory": "16Gi"}),
                BATCH,
                midUnallocatedPercent=100,
            ),
            {},
            {"unallocated": 46, "unused": 30, "mid": 30},
        ),
        (
            node_inputs(
                node(),
                FOREIGN,
                mid_pod("a", "2000"),
                mid_pod("b", "2000"),
                pod("web", {"cpu": "6"}),
                midUnallocatedPercent=20,
            ),
            {"reserved": 3000, "usable": 13000, "midOwn": 2500, "unused": 7000, "unallocated": 7000, "mid": 5400},
            {},
        ),
        (
            node_inputs(node(cpu="32", annotations={names.ANNOTATION_RAW_ALLOCATABLE: '{"cpu": "16"}'}), report()),
            {"threshold": 16000},
            {"threshold": 64},
        ),
    ],
)
def test_terms(inputs: NodeInputs, cpu: dict[str, int], memory: dict[str, int]) -> None:
    result = calculate(inputs)
    assert {name: result.term(name, CPU).value for name in cpu} == cpu
    assert {name: result.term(name, MEMORY).value / GIB for name in memory} == memory


NOT_REPORTED = "the NodeMetric reports no node usage of {}, so nothing counts as unused"
BUSY = report(usage=("15", "60Gi"), mid=("0", "0"))
FULL, HUGE = report(usage=("0", "0"), reclaimable=("9", "1")), pod("w", {"cpu": "99", "memory": "99Gi"})
NO_SYSTEM = "the NodeMetric reports no system usage of cpu and memory, so nothing counts as unallocated"
NO_PREDICTION = "the NodeMetric has no prediction, so nothing counts as reclaimable"
FULLY_REQUESTED = "0 because nothing is reclaimable or unallocated"
EMPTY = "0 because nothing is reclaimable and midUnallocatedPercent is 0"


@pytest.mark.parametrize(
    ("inputs", "amounts", "term", "note"),
    [
        (of(report()), Amounts(4000, 10 * GIB), "mid", ""),
        (of(BUSY, midUnallocatedPercent=100), Amounts(1000, 4 * GIB), "mid", "limited by unused"),
        (
            node_inputs(node(cpu="10", capacity={"cpu": "16"}), FULL, midCPUThresholdPercent=50),
            Amounts(5000, 1),
            "mid",
            "limited by threshold",
        ),
        (of(report(reclaimable=("0", "0"))), Amounts(), "mid", EMPTY),
        (of(report(reclaimable=("0", "0")), HUGE, midUnallocatedPercent=1), Amounts(), "mid", FULLY_REQUESTED),
        (of(report(usage=("6", None))), Amounts(), "unused", NOT_REPORTED.format("memory")),
        (of(report(usage=(None, "2Gi"))), Amounts(), "unused", NOT_REPORTED.format("cpu")),
        (of(report(usage=(None, None))), Amounts(), "unused", NOT_REPORTED.format("cpu and memory")),
        (
            of(classes(report(), node=("6", "24Gi"), mid=("2", "1Gi")), midUnallocatedPercent=100),
            Amounts(),
            "unallocated",
            NO_SYSTEM,
        ),
        (
            of(report(reclaimable=None, mid=None), midUnallocatedPercent=20),
            Amounts(3000, 62 * GIB * 20 // 100),
            "reclaimable",
            NO_PREDICTION,
        ),
        (  # 33 % of 7777 is 2566, not 2567
            node_inputs(node(cpu="7777m", memory="1000000001"), IDLE, midUnallocatedPercent=33),
            Amounts(2566, 330000000),
            "mid",
            "",
        ),
    ],
)
def test_mid_and_its_limits(inputs: NodeInputs, amounts: Amounts, term: str, note: str) -> None:
    result = calculate(inputs)
    assert (result.outcome, result.term(term, CPU).note) == (amounts, note)


STATIC: Json = {"midReclaimMode": "static", "midStaticCPUReservedPercent": 25, "midStaticMemoryReservedPercent": 50}


@pytest.mark.parametrize(
    ("policy", "percent", "cpu"),
    [
        ("design", 100, 4000),  # min(reclaimable, threshold)
        ("design", 10, 1600),
        ("designMixed", 100, 4000 + 7000),  # and the unrequested amount
        ("designMixed", 10, 1600 + 7000),
    ],
)
def test_policies_of_the_design_text(policy: str, percent: int, cpu: int) -> None:
    inputs = of(report(), WEB, midPolicy=policy, midCPUThresholdPercent=percent)
    assert calculate(inputs).calculated.cpu == cpu


AHEAD = report(age=-3600)


@pytest.mark.parametrize(
    ("inputs", "reason", "left"),
    [
        (of(report(age=900)), None, 0),
        (of(report(age=100, prediction_age=40)), None, 800),
        (of(report(age=100, prediction_age=300)), None, 600),
        (of(report(age=100, prediction_age=300), **STATIC), None, 800),
        (of(report(mid=None, age=100)), None, 800),
        (of(report(age=901, prediction_age=900)), "ReportExpired", None),
        (of(report(age=10, prediction_age=901)), "PredictionExpired", None),
        (of(AHEAD), None, 900),  # a clock that is ahead is evaluated by when we saw it
        (of(AHEAD, observed_at=ObservedAt(NOW - 1, NOW)), None, 899),
        (of(AHEAD, observed_at=ObservedAt(NOW - 901, NOW)), "ReportExpired", None),
        (of(None), "NoReport", None),
        (of({"metadata": {"name": "n1"}}), "NoReport", None),
        (node_inputs({"metadata": {"name": "n1"}, "status": {}}, report()), "NodeNotReady", None),
        (of(report(), enable=False), "ColocationDisabled", None),
    ],
)
def test_when_nothing_may_be_published(inputs: NodeInputs, reason: str | None, left: float | None) -> None:
    """Each reason not to publish is named, and the deadline is when the older of report and prediction expires."""
    result = calculate(inputs)
    assert (result.degraded.reason if result.degraded else None, deadline(inputs)) == (reason, left)
    assert (result.desired is None) is (reason is not None)
    assert result.expired is (reason in {"ReportExpired", "PredictionExpired"})
    assert result.notes == ((result.degraded.message,) if result.degraded else ())


def test_expired_report_shows_its_age() -> None:
    assert calculate(of(report(age=901))).outcome == Degraded(
        "ReportExpired",
        "the NodeMetric's report is 15m old, more than degradeTimeMinutes (15) allows: check the agent on this node",
    )


HELD = [mid_pod("a", "6000", "12Gi"), mid_pod("done", phase="Succeeded"), mid_pod("waits", on="")]


@pytest.mark.parametrize(
    ("inputs", "calculated", "desired", "deficit"),
    [
        (of(report(), *HELD), (4000, 10), (6000, 12), (2000, 2)),
        (of(report(), *HELD, midShrinkPolicy="exact"), (4000, 10), (4000, 10), (2000, 2)),
        (of(report(), mid_pod("a", "99000", "2Gi")), (4000, 10), (16000, 10), (95000, 0)),
        (of(report(age=70), mid_pod("a"), degradeTimeMinutes=1), (0, 0), (3000, 2), (3000, 2)),
        (of(report(), mid_pod("a"), enable=False), (0, 0), (3000, 2), (3000, 2)),
        (of(report(), mid_pod("a"), mode="shadow"), (4000, 10), (3000, 2), (0, 0)),
        (of(report(), mode="shadow"), (4000, 10), None, (0, 0)),
        (node_inputs({"metadata": {"name": "n1"}}, report(), mid_pod("a")), (0, 0), (3000, 2), (3000, 2)),
    ],
)
def test_running_mid_pods_keep_their_requests(
    inputs: NodeInputs, calculated: tuple[int, int], desired: tuple[int, int] | None, deficit: tuple[int, int]
) -> None:
    """Requests of admitted Mid pods stay on the Node, as far as it has them; the missing part is the deficit."""
    result = calculate(inputs)
    amounts = [entry and Amounts(entry[0], entry[1] * GIB) for entry in (calculated, desired, deficit)]
    assert [result.calculated, result.desired, result.deficit] == amounts
    assert ("mode is shadow: calculated, but not published" in result.notes) is inputs.strategy.shadow


def test_unknown_term_is_an_error() -> None:
    with pytest.raises(KeyError, match="unused"):
        MidCalculator().calculate(of(report(), midPolicy="design")).term("unused", CPU)
