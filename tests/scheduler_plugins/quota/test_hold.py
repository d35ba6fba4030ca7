"""The annotation of holds, which any user may write, and the pods that may not use held resources."""

import json
from typing import Any

import pytest

from crds import names
from scheduler_plugins.quota.available import crowded, holders_before
from scheduler_plugins.quota.hold import LONGEST_SECONDS, Hold
from scheduler_plugins.quota.pod import QuotaPod
from tests.scheduler_plugins.preemption.worlds import NOW, World
from tests.scheduler_plugins.quota.objects import pod


def _read(text: Any) -> Hold | None:  # noqa: ANN401 - any value
    vouching = {"type": names.CONDITION_RESERVED, "status": "True", "message": text}
    annotated = {"annotations": {names.ANNOTATION_RECLAIM_HOLD: text}}
    return Hold.of_pod({"metadata": annotated, "status": {"conditions": [vouching]}})


def test_as_written() -> None:
    hold = Hold("n1", NOW + 60, ("v1", "v2"), 3)
    assert _read(hold.as_text()) == hold
    relieving = Hold("n1", NOW + 60, ("v1",), 1, {"cpu": 600, "memory": 2**30})
    assert _read(relieving.as_text()) == relieving
    assert QuotaPod.from_json(pod("p", hold=hold)).hold == hold
    assert QuotaPod.from_json(pod("p")).hold is None


def test_nothing_without_status() -> None:
    """An annotation alone is no hold: any user who creates pods may write it. A mismatched condition is none either."""
    hold, other = Hold("n1", NOW + 60, ("v1",)), Hold("n2", NOW + 600, ("v1",))
    metadata = {"annotations": hold.annotations}
    for conditions in (None, [], [other.condition], [{**hold.condition, "type": "Ready"}], [{"type": "Ready"}]):
        assert Hold.of_pod({"metadata": metadata, "status": {"conditions": conditions}}) is None
    assert Hold.of_pod({"metadata": metadata, "status": {"conditions": [other.condition]}}) is None
    assert Hold.of_pod({"status": {"conditions": [hold.condition]}}) is None
    assert Hold.of_pod({"metadata": metadata, "status": {"conditions": [hold.condition]}}) == hold


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "7",
        '"n1"',
        "{}",
        "{",
        "9" * 5000,
        "[" * 100_000,
        " " * 100_000 + "{}",
        7,
        {"node": "n1"},
        '{"node": "n1", "until": NaN}',
        '{"node": "n1", "until": Infinity}',
        '{"node": "n1", "until": 1e400}',
        f'{{"node": "n1", "until": 1{"0" * 400}}}',
        json.dumps({"node": "n1", "until": "1"}),
        json.dumps({"node": "n1", "until": 1, "relief": [1]}),
        json.dumps({"node": "n1", "until": 1, "relief": {"cpu": -1}}),
        json.dumps({"node": "n1", "until": 1, "relief": {"cpu": 2**63}}),
        json.dumps({"node": "n1", "until": 1, "relief": {"cpu": 0.5}}),
        json.dumps({"node": "n1", "until": True}),
        json.dumps({"node": "", "until": 1}),
        json.dumps({"node": ["n1"], "until": 1}),
        json.dumps({"node": "n1"}),
        json.dumps({"until": 1}),
        json.dumps({"node": "n1", "until": 1, "victims": "abc"}),
        json.dumps({"node": "n1", "until": 1, "victims": {"a": 1}}),
        json.dumps({"node": "n1", "until": 1, "victims": [1]}),
        json.dumps({"node": "n1", "until": 1, "attempt": 0}),
        json.dumps({"node": "n1", "until": 1, "attempt": 1.5}),
        json.dumps({"node": "n1", "until": 1, "attempt": 10**30}),
        json.dumps({"node": "n1", "until": -1}),
    ],
    ids=lambda text: str(text)[:40],
)
def test_not_a_hold(text: Any) -> None:  # noqa: ANN401 - any value
    """A text that the controller does not write is no hold; the pod is read and charged all the same."""
    assert _read(text) is None
    item = pod("p", node="n1")
    item["metadata"]["annotations"] = {names.ANNOTATION_RECLAIM_HOLD: text}
    assert QuotaPod.from_json(item).charge == {"cpu": 1000, "pods": 1}


def test_lasts_until_it_expires() -> None:
    """A hold lasts until its time, and at most for the controller's longest hold: no hold is permanent."""
    hold = Hold("n1", NOW + LONGEST_SECONDS)
    assert [hold.lasts(NOW + seconds) for seconds in (-1, 0, LONGEST_SECONDS - 1, LONGEST_SECONDS)] == [
        False,
        True,
        True,
        False,
    ]


HOLD = Hold("gpu", NOW + 60, ("a/gone",))


@pytest.mark.parametrize(
    ("namespace", "priority", "lender", "rejected"),
    [
        *((namespace, 0, (10, 10), True) for namespace in ("a", "b", "c", "free")),  # of no higher priority
        # The replacement of an evicted borrower does not reclaim the resources, whatever its priority.
        ("a", 100, (10, 10), True),
        # Pods of higher priority in a namespace that borrows nothing go first, as with kube-scheduler's nominations.
        *((namespace, 100, (10, 10), False) for namespace in ("b", "c", "free")),
        ("a", 100, (2, 10), False),  # resources beyond the holder's own min are not guaranteed
    ],
)
def test_held_from_other_pods(namespace: str, priority: int, lender: tuple[int, int], *, rejected: bool) -> None:
    """Two free GPUs are held for a pod of priority 0 of a namespace that uses two; another pod requests both."""
    world = World({"gpu": 10}, {"a": (4, 8), "b": lender, "c": (4, 8)})
    for number in range(3):
        world.run(f"a/a{number}", "gpu", 2)
    world.run("b/b1", "gpu", 2)
    world.wait("b/holder", 2, hold=HOLD)
    pod = world.wait(f"{namespace}/new", 2, priority)
    assert bool(crowded(pod, world.cluster, holders_before(pod, world.cluster, NOW))) is rejected


def test_unstated_resources_are_not_held() -> None:
    """A device that the node does not state is outside of the model; a hold refuses pods for cpu."""
    world = World({"cpu": 0}, {"a": (4, 8), "b": (4, 8)})
    world.wait("b/holder", 2, cpu="600", hold=Hold("cpu", NOW + 60))
    for cpu, rejected in (("400", set()), ("401", {"cpu"})):
        pod = world.wait("a/new", 2, cpu=cpu)
        assert crowded(pod, world.cluster, holders_before(pod, world.cluster, NOW)) == rejected


def test_holder_in_flight() -> None:
    world = World({"gpu": 10}, {"a": (1, 8), "b": (2, 8)})
    world.run("a/a1", "gpu", 8)
    holder = world.wait("b/holder", 2, hold=HOLD)
    world.cluster.ledger.admit(holder)
    pod = world.wait("a/new", 2, 100)

    assert crowded(pod, world.cluster, holders_before(pod, world.cluster, NOW)) == {"gpu"}


@pytest.mark.parametrize(("least", "evicts"), [(10, False), (2, True)])
def test_decisions_respect_holds(least: int, *, evicts: bool) -> None:
    world = World({"gpu": 10}, {"a": (4, 8), "b": (least, 10), "c": (8, 8)})
    world.run("a/a1", "gpu", 2, priority=200)
    world.run("a/low", "gpu", 4)
    world.run("b/b1", "gpu", 2)
    world.wait("b/holder", 2, hold=HOLD)
    pod = world.wait("a/new", 6, 100)

    if evicts:
        assert world.victims(pod) == {"a/low"}
    else:
        assert "Insufficient" in world.why_not(pod)
