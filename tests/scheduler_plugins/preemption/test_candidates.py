"""How many nodes are tried for a pod: as many candidates as kube-scheduler's DryRunPreemption wants."""

from collections.abc import Set as AbstractSet

import pytest

from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.selection.decide import Decision, candidates_needed, decide
from scheduler_plugins.quota.pod import QuotaPod
from tests.scheduler_plugins.preemption.worlds import COUNT, NOW, World


def _borrowed(nodes: int) -> World:
    """A borrows one GPU on each node, all of them from B; the last node's pod has the lowest priority."""
    world = World({f"n{index:03}": 1 for index in range(nodes)}, {"a": (0, nodes), "b": (nodes, nodes)})
    for index in range(nodes):
        world.run(f"a/p{index:03}", f"n{index:03}", 1, priority=nodes - index, labels={"app": f"p{index:03}"})
    return world


def _waiting(world: World, name: str = "b1") -> QuotaPod:
    return world.wait(f"b/{name}", 1)


def _tried(world: World, pod: QuotaPod, **options: object) -> tuple[list[str], Decision]:
    """The nodes that were tried with pods taken away, in order, and the decision."""
    fit, tried = FitModel(pod, world.cluster, ()), dict[str, None]()

    def misfit(node: str, without: AbstractSet[str]) -> str | None:
        if without:
            tried[node] = None
        return fit.misfit(node, without)

    decision = decide(pod, world.cluster, NOW, misfit, **options)  # type: ignore[arg-type]
    assert isinstance(decision, Decision)
    return list(tried), decision


@pytest.mark.parametrize(
    ("nodes", "needed"), [(0, 0), (1, 1), (99, 99), (100, 100), (999, 100), (1010, 101), (5000, 500)]
)
def test_number_of_candidates(nodes: int, needed: int) -> None:
    """A tenth of the nodes, rounded down, but at least 100, and never more than there are."""
    assert candidates_needed(nodes) == needed


def test_search_ends_with_enough_candidates() -> None:
    """Of 300 nodes 100 are tried, from an offset on and round the end; of these the one that loses least is taken."""
    world = _borrowed(300)
    tried, decision = _tried(world, _waiting(world))
    first = int(tried[0][1:])
    assert tried == [f"n{(first + step) % 300:03}" for step in range(100)]
    assert decision.node == max(tried)


def test_same_pod_same_candidates() -> None:
    world = _borrowed(300)
    pod = _waiting(world)
    assert _tried(world, pod) == _tried(world, pod)
    begins = {_tried(world, _waiting(world, f"other-{index}"))[0][0] for index in range(5)}
    assert len(begins) > 1


def test_nodes_that_do_not_help_do_not_count() -> None:
    world = _borrowed(300)
    for index in range(300):
        if index != 123:
            world.cluster.delete_pod(f"a/p{index:03}")
            world.run(f"free/f{index:03}", f"n{index:03}", 1)
    for pod in (_waiting(world, f"b{index}") for index in range(3)):
        assert _tried(world, pod)[1].node == "n123"


def test_violations_are_no_end() -> None:
    """Where all candidates so far violate a budget, further nodes are tried, as kube-scheduler does."""
    world = _borrowed(300)
    free = "n150"
    for index in range(300):
        if index != 150:
            world.protect("a", f"p{index:03}", name=f"budget-{index}")
    tried, decision = _tried(world, _waiting(world), **COUNT)
    assert (decision.node, decision.violations) == (free, 0)
    assert len(tried) == 100 or tried[-1] == free


def test_held_budgets_make_no_candidates() -> None:
    world = _borrowed(300)
    for index in range(300):
        if index != 7:
            world.protect("a", f"p{index:03}", name=f"budget-{index}")
    assert _tried(world, _waiting(world))[1].node == "n007"
