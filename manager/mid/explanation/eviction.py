"""The effect of `midEviction` on a deficit: whether the report proves it, and the victims in order.

It chooses with the manager's own functions. The manager's memory is not visible from outside: for how long the
deficit has lasted, which pods have just left, and what its limits and its guard against loops spare for now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crds.colocation import ColocationStrategy
from manager.calculators.base import Result
from manager.inputs import Amounts, NodeInputs, PodInputs
from manager.mid.eviction.limits import EvictionSettings
from manager.mid.eviction.selection import Selection, select_victims
from manager.mid.eviction.shortage import shortage, unknown_inputs, unproven_deficit


@dataclass(frozen=True, slots=True)
class Eviction:
    """The consequences of a lasting deficit."""

    mode: str  # off, dry-run or on
    after_seconds: int  # how long it must last [s]
    proven: bool  # whether a fresh report proves it: unknown inputs count in favour of running pods
    short: Amounts  # the shortage beyond the resources of terminating pods
    selection: Selection  # the victims
    usage: Mapping[str, Amounts]  # usage of pods by "namespace/name"
    unknown_inputs: tuple[str, ...] = ()  # unknown inputs, which count in favour of running pods
    if_proven: tuple[PodInputs, ...] = ()  # the first victims if the part of the deficit that is not proven were


def of(facts: NodeInputs, result: Result, strategy: ColocationStrategy, pods: Sequence[PodInputs]) -> Eviction | None:
    """Return the eviction of a node; None where it has no deficit."""
    if not result.deficit:
        return None
    settings = EvictionSettings.of(strategy)
    here = [pod for pod in pods if pod.node == facts.name and pod.holds_mid]
    proof = shortage(facts, result, (), [pod for pod in here if pod.mid is not None and pod.mid.terminating])
    short = proof.short if proof else Amounts()
    unproven, usage = unproven_deficit(facts, result, proof), facts.report.pod_usage if facts.report else {}
    return Eviction(
        mode=settings.mode,
        after_seconds=settings.after_seconds,
        proven=proof is not None and bool(proof.deficit),
        short=short,
        selection=select_victims(here, short, lambda _: "", usage),
        usage=usage,
        unknown_inputs=unknown_inputs(facts) if unproven else (),
        if_proven=select_victims(here, unproven, lambda _: "", usage).victims,
    )
