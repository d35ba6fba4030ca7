import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import derived
from agent.samples import CPU, INPUT_MISSING, MEMORY, NODE, SYS, VANISHED, CollectionResult, Missing, Sample

NOW = 1000.0
PODS = {(CPU, "a"): 1.0, (CPU, "b"): 0.5, (MEMORY, "a"): 4.0}


@pytest.mark.parametrize(
    ("pods", "missing", "listed", "system"),
    [
        (PODS, [], True, {CPU: 1.5, MEMORY: 6.0}),
        ({(MEMORY, "a"): 4.0}, [(CPU, "a", "why")], True, {MEMORY: 6.0}),
        # what a pod used that has vanished is unknown, and its memory is free
        ({}, [(CPU, "a", VANISHED), (MEMORY, "a", VANISHED)], True, {MEMORY: 10.0}),
        # without knowing the pods, or the node, there is nothing to subtract
        (PODS, [], False, {}),
        (PODS, [(CPU, NODE, "why"), (MEMORY, NODE, "why")], True, {}),
        # pressure and page cache are no part of it
        (PODS, [("psi_cpu_some", NODE, "why"), ("cpu_throttled", "a", "why")], True, {CPU: 1.5, MEMORY: 6.0}),
    ],
)
def test_system_is_the_rest_of_the_node_or_a_gap(
    pods: dict[tuple[str, str], float], missing: list[tuple[str, str, str]], *, listed: bool, system: dict[str, float]
) -> None:
    """A node of 3 cores and 10 bytes."""
    gaps = {metric for metric, entity, _ in missing if entity == NODE}
    node = {(CPU, NODE): 3.0, (MEMORY, NODE): 10.0}
    samples = [
        Sample(*one, NOW, value) for one, value in {**node, **pods}.items() if one[1] != NODE or one[0] not in gaps
    ]
    collected = CollectionResult(samples, [Missing(*gap) for gap in missing], pods_listed=listed)
    result = derived.system(collected, NOW)
    assert result.samples == [Sample(metric, SYS, NOW, value) for metric, value in system.items()]
    assert result.missing == [Missing(metric, SYS, INPUT_MISSING) for metric in (CPU, MEMORY) if metric not in system]


@given(st.floats(0, 1e6), st.lists(st.floats(0, 1e6)))
def test_system_is_never_negative(node: float, pods: list[float]) -> None:
    """Pods that were read a moment later may add up to more than the node: then the system used nothing."""
    usage = derived.system_usage(node, pods)
    assert usage is not None
    assert usage == max(node - sum(pods), 0)


def test_unknown_stays_unknown() -> None:
    assert derived.system_usage(None, [1.0]) is None
    assert derived.system_usage(1.0, [0.5, None]) is None
