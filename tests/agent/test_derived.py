"""System usage: what the node uses beyond its pods, in the same tick."""

from hypothesis import given
from hypothesis import strategies as st

from agent import derived
from agent.samples import CPU, MEMORY, NODE, SYS, VANISHED, CollectionResult, Missing, Sample

NOW = 1000.0


def _harvest(*samples: tuple[str, str, float], missing: tuple[tuple[str, str], ...] = ()) -> CollectionResult:
    return CollectionResult(
        [Sample(metric, entity, NOW, value) for metric, entity, value in samples],
        [Missing(metric, entity, "why") for metric, entity in missing],
        pods_listed=True,
    )


def test_system_is_the_rest() -> None:
    """Node 3 cores and 10 bytes, pods 1 + 0.5 cores and 4 bytes: 1.5 cores and 6 bytes."""
    collected = _harvest((CPU, NODE, 3.0), (CPU, "a", 1.0), (CPU, "b", 0.5), (MEMORY, NODE, 10.0), (MEMORY, "a", 4.0))
    found = derived.system(collected, NOW)
    assert found.samples == [Sample(CPU, SYS, NOW, 1.5), Sample(MEMORY, SYS, NOW, 6.0)]
    assert found.missing == []


def test_pod_without_cpu_leaves_a_gap_of_the_systems_cpu_alone() -> None:
    collected = _harvest((CPU, NODE, 3.0), (MEMORY, NODE, 10.0), (MEMORY, "a", 4.0), missing=((CPU, "a"),))
    found = derived.system(collected, NOW)
    assert [sample.metric for sample in found.samples] == [MEMORY]
    assert found.missing == [Missing(CPU, SYS, "input-missing")]


def test_vanished_pod_leaves_a_gap_of_cpu_and_its_memory_is_free() -> None:
    collected = _harvest((CPU, NODE, 3.0), (MEMORY, NODE, 10.0))
    collected.missing += [Missing(metric, "a", VANISHED) for metric in (CPU, MEMORY)]
    assert derived.system(collected, NOW).samples == [Sample(MEMORY, SYS, NOW, 10.0)]


def test_unknown_pods_leave_gaps_of_the_system() -> None:
    collected = _harvest((CPU, NODE, 3.0), (MEMORY, NODE, 10.0))
    collected.pods_listed = False
    found = derived.system(collected, NOW)
    assert found.samples == []
    assert [one.metric for one in found.missing] == [CPU, MEMORY]


def test_missing_node_leaves_gap() -> None:
    assert derived.system(_harvest((CPU, "a", 1.0), missing=((CPU, NODE),)), NOW).samples == []


def test_missing_pressure_or_page_cache_leaves_the_system_alone() -> None:
    collected = _harvest(
        (CPU, NODE, 3.0), (MEMORY, NODE, 1.0), missing=(("psi_cpu_some", NODE), ("cpu_throttled", "a"))
    )
    assert len(derived.system(collected, NOW).samples) == 2


@given(st.floats(0, 1e6), st.lists(st.floats(0, 1e6)))
def test_system_is_never_negative(node: float, pods: list[float]) -> None:
    """Pods that were read a moment later may add up to more than the node: then the system used nothing."""
    usage = derived.system_usage(node, pods)
    assert usage is not None
    assert usage == max(node - sum(pods), 0)


def test_unknown_stays_unknown() -> None:
    assert derived.system_usage(None, [1.0]) is None
    assert derived.system_usage(1.0, [0.5, None]) is None
