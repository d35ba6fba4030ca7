"""Cost of the choice of victims."""

import time
from collections.abc import Iterator
from itertools import count
from typing import Final

from scheduler_plugins.preemption.fit import FitModel
from scheduler_plugins.preemption.selection.context import PreemptionContext
from scheduler_plugins.preemption.selection.decide import Decision, Undecided, decide
from scheduler_plugins.preemption.selection.victims import Candidate, select_victims
from scheduler_plugins.quota.pod import QuotaPod
from tools.bench import quota_objects as made
from tools.bench.costs import fresh, timed
from tools.bench.quota_admission import CALLS, LENDER, NODES, NOW, QUICK_CALLS, QUICK_NODES, Work
from tools.bench.rows import Row

SMALL, LARGE, OWN = 1, 3, 20
"""GPUs of a pod that one victim suffices for, that several have to go for, and that is over its own min."""
SECONDS: Final = 5.0  # what takes longer is done just often enough for a median


def _pending(identity: str, gpus: int) -> QuotaPod:
    return QuotaPod.from_json(fresh(made.pod(identity, LENDER, gpus, "", NOW)))


def measure(*, quick: bool = False) -> Iterator[Row]:
    """Measure the choice with each number of nodes."""
    sizes, calls = (QUICK_NODES, QUICK_CALLS) if quick else (NODES, CALLS)
    for nodes in sizes:
        yield from _measure(Work(nodes), calls)


def _measure(work: Work, calls: int) -> Iterator[Row]:
    """Victims on one node, and the decision over all of them."""
    cluster, size = work.cluster, f"{len(work.names):,} nodes"
    result: dict[str, Decision | Undecided] = {}

    def decided(pod: QuotaPod) -> None:
        result[pod.name] = decide(pod, cluster, NOW, FitModel(pod, cluster, cluster.nominations(NOW)).misfit)

    turn = count()
    pod = _pending("on-one-node", LARGE)
    situation, misfit = PreemptionContext.of(pod, cluster, NOW), FitModel(pod, cluster, ()).misfit

    def selected() -> None:
        node = work.names[next(turn) % len(work.names)]
        kind = select_victims(situation, node, misfit)
        if not isinstance(kind, Candidate) or len(kind.victims) != LARGE:
            raise AssertionError(f"{LARGE} victims were to be chosen on {node}: {kind}")

    yield Row(f"victims on a node of {made.PODS_PER_NODE} pods, {size}", str(timed(selected, calls)))
    for what, gpus in (
        ("one victim", SMALL),
        ("three victims on one node", LARGE),
        ("over its own min, no victims", OWN),
    ):
        pending = _pending(what, gpus)
        began = time.thread_time()
        decided(pending)
        often = max(min(calls, int(SECONDS / max(time.thread_time() - began, 1e-9))), 3)
        measured = timed(lambda pending=pending: decided(pending), often)  # type: ignore[misc]
        _check(what, result[what])
        yield Row(f"decision, {what}, {size}, {len(cluster.pods):,} pods", str(measured))


def _check(what: str, decision: Decision | Undecided) -> None:
    """Raise unless a decision is what its line says.

    Raises:
        AssertionError: it is not.
    """
    victims = len(decision.victims) if isinstance(decision, Decision) else 0
    if victims != {"one victim": SMALL, "three victims on one node": LARGE}.get(what, 0):
        raise AssertionError(f"{what}: {decision}")
