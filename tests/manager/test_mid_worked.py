"""The Mid formula on nodes that are worth a thought, worked out by hand: cores and gibibytes, line by line."""

import pytest

from crds import names
from manager.calculators.base import Result
from manager.calculators.mid import calculate
from manager.inputs import Amounts, Resource
from tests.manager.made import Json, mid_pod, node, node_inputs, pod, report

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


def test_prod_uses_far_more_than_requested() -> None:
    """A node is nearly full although half of it looks free to the scheduler: what is unused decides.

    Prod requested 4 cores and uses 10; system 1; the node 11. Nothing is reclaimable: max(0, 4 - 12) = 0.
    reserved 1, usable 15, unallocated 15 - 4 = 11, unused 15 - (11 - 1) = 5: min(0 + 100 % of 11, 5, 16) = 5 cores.
    Memory: requested 8, used 40 + 2: usable 62, unallocated 54, unused 62 - 40 = 22: min(54, 22, 64) = 22 GiB.
    """
    busy = report(usage=("11", "42Gi"), system=("1", "2Gi"), reclaimable=("0", "0"), mid=("0", "0"))
    web = pod("web", {"cpu": "4", "memory": "8Gi"})
    result = calculate(node_inputs(node(), busy, web, midUnallocatedPercent=100))
    assert (_cores(result)["unallocated"], _cores(result)["unused"], _cores(result)["mid"]) == (11, 5, 5)
    assert (_gibibytes(result)["unallocated"], _gibibytes(result)["unused"], _gibibytes(result)["mid"]) == (54, 22, 22)
    assert calculate(node_inputs(node(), busy, web)).calculated == Amounts()


def test_system_above_its_reservation() -> None:
    """System pods and daemons that outgrow what the kubelet keeps for them take from everybody, once.

    16 cores, 15 of them allocatable; the system uses 3, Prod requested 8 and uses 5: the node 8.
    reserved max(3, 1) = 3, usable 13, unallocated 13 - 8 = 5, unused 13 - (8 - 3) = 8:
    min(2 + 50 % of 5, 8, 15) = 4.5 cores. With the system at half a core: reserved 1, usable 15, unallocated 7,
    unused 15 - (5.5 - 0.5) = 10: min(2 + 3.5, 10, 15) = 5.5.
    """
    the_node, web = node(cpu="15", capacity={"cpu": "16"}), pod("web", {"cpu": "8"})

    def with_system(cpu: str, usage: str) -> Result:
        metric = report(usage=(usage, "8Gi"), system=(cpu, "1Gi"), reclaimable=("2", "1Gi"), mid=("0", "0"))
        return calculate(node_inputs(the_node, metric, web, midUnallocatedPercent=50))

    above, below = _cores(with_system("3", "8")), _cores(with_system("500m", "5500m"))
    assert (above["reserved"], above["usable"], above["unallocated"], above["unused"]) == (3, 13, 5, 8)
    assert above["mid"] == 4.5
    assert (below["reserved"], below["usable"], below["unallocated"], below["unused"]) == (1, 15, 7, 10)
    assert below["mid"] == 5.5


def test_mid_uses_more_than_it_bought() -> None:
    """What Mid pods bought does not count against Mid, what they take beyond does.

    Mid pods bought 3 cores and use 5; system 1, Prod 6: the node 12. Reclaimable is 10.
    midOwn min(5, 3) = 3, unused 15 - (12 - 1 - 3) = 7: min(10, 7, 16) = 7 cores.
    When they use just their 3, the node uses 10: unused 15 - (10 - 1 - 3) = 9. The 2 beyond are missing.
    """
    prod, allocated = pod("web", {"cpu": "14"}), mid_pod("job", cpu="3000")
    greedy = report(usage=("12", "9Gi"), system=("1", "1Gi"), reclaimable=("10", "4Gi"), mid=("5", "2Gi"))
    modest = report(usage=("10", "9Gi"), system=("1", "1Gi"), reclaimable=("10", "4Gi"), mid=("3", "2Gi"))
    assert calculate(node_inputs(node(), greedy, prod, allocated)).calculated.cpu == 7000
    assert calculate(node_inputs(node(), modest, prod, allocated)).calculated.cpu == 9000


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
    Mid pod a bought 2 and uses 2.5, b bought 2 and uses 0.5: midOwn 2 + 0.5 = 2.5; web's 3 are no Mid usage.
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


def test_capacity_unlike_allocatable() -> None:
    """Every share is of what pods may have, and what the kubelet keeps is gone before.

    20 cores, 15 allocatable; Prod requested 3; the node uses 4, 1 of it the system.
    reserved max(1, 20 - 15) = 5, usable 15, unallocated 12, unused 15 - (4 - 1) = 12, threshold 50 % of 15 = 7.5:
    min(0 + 100 % of 12, 12, 7.5) = 7.5 cores. Of capacity it would be 10.
    """
    the_node = node(cpu="15", capacity={"cpu": "20"})
    metric = report(usage=("4", "8Gi"), system=("1", "1Gi"), reclaimable=("0", "0"), mid=("0", "0"))
    fields: Json = {"midUnallocatedPercent": 100, "midCPUThresholdPercent": 50}
    found = _cores(calculate(node_inputs(the_node, metric, pod("web", {"cpu": "3"}), **fields)))
    assert (found["reserved"], found["unallocated"], found["unused"], found["threshold"]) == (5, 12, 12, 7.5)
    assert found["mid"] == 7.5


def test_raw_allocatable_is_what_there_is() -> None:
    """On an amplified node the annotation says how much there really is; what it leaves out is as stated.

    The Node states 32 allocatable cores, twice its real 15 of 16. reserved max(1, 16 - 15) = 1, usable 15,
    unallocated 15 - 9 = 6, unused 15 - (6 - 1) = 10, threshold 15: min(2 + 100 % of 6, 10, 15) = 8 cores.
    Static mode sells 20 % of 15 = 3 cores, not of 32.
    """
    raw = {names.ANNOTATION_RAW_ALLOCATABLE: '{"cpu": "15"}'}
    amplified = node(cpu="32", memory="60Gi", capacity={"cpu": "16", "memory": "64Gi"}, annotations=raw)
    metric = report(usage=("6", "8Gi"), system=("1", "1Gi"), reclaimable=("2", "1Gi"), mid=("0", "0"))
    web = pod("web", {"cpu": "9"})
    result = calculate(node_inputs(amplified, metric, web, midUnallocatedPercent=100))
    found = _cores(result)
    assert (found["reserved"], found["unallocated"], found["unused"], found["threshold"]) == (1, 6, 10, 15)
    assert found["mid"] == 8
    assert _gibibytes(result)["threshold"] == 60
    static = calculate(node_inputs(amplified, metric, web, midReclaimMode="static", midStaticCPUReservedPercent=20))
    assert static.calculated.cpu == 3000


@pytest.mark.parametrize(
    ("annotation", "cpu", "memory"),
    [
        ('{"resources": {"cpu": "6", "memory": "8Gi"}, "reservedCPUs": "0-3"}', 4, 8),  # the list wins over 6 cores
        ('{"reservedCPUs": "0-3,8"}', 5, 4),  # memory: what the kubelet keeps
        ('{"resources": {"cpu": "6"}, "reservedCPUs": "zero"}', 1, 4),  # unusable as a whole
    ],
)
def test_reserved_cpus(annotation: str, cpu: int, memory: int) -> None:
    """CPUs that the annotation names are gone, whole; the largest of all reservations holds.

    16 cores and 64 GiB, 15 and 60 allocatable; the system uses 0.5 and 1. "0-3" is 4 CPUs: usable 16 - 4 = 12.
    """
    the_node = node(
        cpu="15",
        memory="60Gi",
        capacity={"cpu": "16", "memory": "64Gi"},
        annotations={names.ANNOTATION_NODE_RESERVATION: annotation},
    )
    result = calculate(node_inputs(the_node, report(system=("500m", "1Gi"))))
    assert (_cores(result)["reserved"], _cores(result)["usable"]) == (cpu, 16 - cpu)
    assert (_gibibytes(result)["reserved"], _gibibytes(result)["usable"]) == (memory, 64 - memory)


def test_usage_is_of_the_same_ticks() -> None:
    """Mid pods that began to use what they bought since the last full report are not counted as free.

    The full report says 6 cores for the node, 1 for the system. A fast report since says: node 9, system 1.5, of which
    Mid uses 3 of its 4. reserved 1.5, usable 14.5, unused 14.5 - (9 - 1.5 - 3) = 10. With the full report's 6 it would
    be 14.5 - (6 - 1.5 - 3) = 13: the 3 cores that Mid began to use would be sold again.
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


@pytest.mark.parametrize(
    ("policy", "cores"),
    [("design", 4), ("designMixed", 4 + 6), ("reclaimable", 4)],
)
def test_design_text_to_the_letter(policy: str, cores: float) -> None:
    """`design` is min(Reclaimable, allocatable * t), `designMixed` adds what Prod did not request: usage is no matter.

    15 of 16 cores allocatable, threshold 100 %, Reclaimable 4, Prod requested 9, the node uses 15 of 16:
    min(4, 15) = 4; min(4, 15) + (15 - 9) = 10. Ours has 15 - (15 - 1) = 1 left unused and sells that.
    """
    the_node = node(cpu="15", capacity={"cpu": "16"})
    web = pod("web", {"cpu": "9"})
    quiet = report(usage=("6", "9Gi"), reclaimable=("4", "4Gi"), mid=("0", "0"))
    full = report(usage=("15", "9Gi"), reclaimable=("4", "4Gi"), mid=("0", "0"))
    assert _cores(calculate(node_inputs(the_node, quiet, web, midPolicy=policy)))["mid"] == cores
    assert _cores(calculate(node_inputs(the_node, full, web, midPolicy=policy)))["mid"] == (
        1 if policy == "reclaimable" else cores
    )
