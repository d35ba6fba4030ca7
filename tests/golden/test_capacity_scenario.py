"""Further scenarios of CapacityScheduling, with what upstream's own integration test expects of them."""

from typing import Any, Final

from tests.golden.adapters.capacity_scenario import scenario

LOW, MIDDLE, HIGH = 0, 100, 1000
NODES: Final = ("one", "two")
"""Each has 100 bytes of memory."""


def _pod(name: str, namespace: str, memory: int, priority: int, node: str = "") -> dict[str, Any]:
    requests = {"memory": f"{memory}", "cpu": f"{memory // 5}m"}
    spec: dict[str, Any] = {"priority": priority, "containers": [{"name": "c", "resources": {"requests": requests}}]}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _play(existing: list[dict[str, Any]], coming: list[dict[str, Any]]) -> dict[str, Any]:
    """Two quotas of 100 to 200 bytes on two nodes."""
    amounts = {"pods": "32", "memory": "100", "cpu": "100"}
    bounds = {"min": {"memory": "100", "cpu": "100m"}, "max": {"memory": "200", "cpu": "200m"}}
    return scenario(
        {
            "nodes": [{"metadata": {"name": name}, "status": {"allocatable": amounts}} for name in NODES],
            "elasticQuotas": [{"metadata": {"name": "q", "namespace": name}, "spec": bounds} for name in ("a", "b")],
            "existingPods": existing,
            "addPods": coming,
        }
    )


def test_borrowed_goes_back() -> None:
    """A namespace within its min gets back from another what that borrowed, the least important pod first."""
    existing = [_pod("1", "a", 50, MIDDLE, "one"), _pod("2", "a", 50, MIDDLE, "one"), _pod("3", "a", 50, LOW, "two")]
    coming = [_pod("4", "b", 50, MIDDLE), _pod("5", "b", 50, MIDDLE), _pod("6", "b", 50, LOW)]
    found = _play(existing, coming)
    assert found == {"mustBeBound": ["a/1", "a/2", "b/4", "b/5"], "evicted": ["a/3"], "pending": ["b/6"]}


def test_nodes_are_not_combined() -> None:
    """A pod that would need victims on two nodes waits, and nobody is evicted for it."""
    existing = [
        _pod("1", "a", 50, LOW, "one"),
        _pod("2", "a", 50, LOW, "two"),
        _pod("3", "b", 50, MIDDLE, "one"),
        _pod("4", "b", 50, MIDDLE, "two"),
    ]
    found = _play(existing, [_pod("5", "a", 100, HIGH), _pod("6", "b", 100, HIGH)])
    assert found == {"mustBeBound": ["a/1", "a/2", "b/3", "b/4"], "evicted": [], "pending": ["a/5", "b/6"]}


def test_freed_room_wakes() -> None:
    """A pod that waits for room is tried again when another's coming frees some."""
    existing = [_pod("1", "a", 100, LOW, "one"), _pod("2", "b", 100, HIGH, "two")]
    coming = [_pod("3", "a", 40, LOW), _pod("4", "a", 60, HIGH)]
    assert _play(existing, coming[:1])["pending"] == ["a/3"]
    assert _play(existing, coming) == {"mustBeBound": ["b/2", "a/3", "a/4"], "evicted": ["a/1"], "pending": []}
