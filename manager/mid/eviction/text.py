"""The notes of events about evictions."""

from collections.abc import Mapping, Sequence
from typing import Final

from crds.quantity import short_bytes, short_milli_cores
from manager.inputs import Amounts, PodInputs, Resource
from manager.mid.eviction.selection import beyond_requests
from manager.mid.eviction.shortage import Shortage

MOST_NAMES: Final = 6  # at most so many pods are named in one event, which holds 1024 bytes


def amount(number: int, resource: Resource) -> str:
    """An amount: "2000m CPU", "1.5Gi memory"."""
    return f"{short_milli_cores(number)} CPU" if resource is Resource.CPU else f"{short_bytes(number)} memory"


def amounts(of: Amounts, *, which: Amounts | None = None) -> str:
    """The amounts of the resources that are not zero (in `which`): "2000m CPU and 512Mi memory"."""
    return " and ".join(amount(of[resource], resource) for resource in Resource if (which or of)[resource]) or "nothing"


def arithmetic(seen: Shortage, seconds: float) -> str:
    """Requested, may be published, terminating, short by; only of the resources that are short."""
    short, terminating = seen.short, ""
    if any(seen.terminating[resource] and short[resource] for resource in Resource):
        terminating = f", {amounts(seen.terminating, which=short)} of it terminating"
    if any(seen.released[resource] and short[resource] for resource in Resource):
        terminating += f", {amounts(seen.released, which=short)} used beyond requests by pods that end"
    return (
        f"Mid pods on the node requested {amounts(seen.requested, which=short)}{terminating}, "
        f"{amounts(seen.calculated, which=short)} may be published: short by {amounts(short)} for {round(seconds)} s"
    )


def pod(inputs: PodInputs, usage: Mapping[str, Amounts]) -> str:
    """A pod: "shop/report-7 (priority 7000, requested 64Mi memory, used 1240Mi memory beyond)"."""
    priority, beyond = inputs.mid.priority if inputs.mid else 0, beyond_requests(inputs, usage)
    used = f", used {amounts(beyond)} beyond" if beyond else ""
    return f"{inputs.key} (priority {priority}, requested {amounts(inputs.mid_requests)}{used})"


def dry_run(victims: Sequence[PodInputs], seen: Shortage, seconds: float) -> str:
    would = f"Would evict {len(victims)} pod{'s' * (len(victims) != 1)} (midEviction.mode is dry-run)"
    return f"{would}: {arithmetic(seen, seconds)}. First to go: {named(victims, seen.usage)}"


def none_evictable(spared: Sequence[tuple[PodInputs, str]], seen: Shortage, seconds: float) -> str:
    reasons = "; ".join(f"{each.key} {why}" for each, why in spared[:MOST_NAMES])
    return f"No Mid pod can be evicted now: {arithmetic(seen, seconds)}. {reasons}{_more(spared)}"


def unproven(deficit: Amounts, unknown: Sequence[str], first: Sequence[PodInputs], usage: Mapping[str, Amounts]) -> str:
    """The event when no pod is evicted for a lasting deficit; `first` would be if it were proven."""
    why = "; ".join(unknown)
    note = f"No Mid pod is evicted for a deficit of {amounts(deficit)}, because it follows from unknown inputs: {why}"
    return f"{note}. If it were proven, first to go: {named(first, usage)}" if first else note


def named(pods: Sequence[PodInputs], usage: Mapping[str, Amounts]) -> str:
    return ", ".join(pod(victim, usage) for victim in pods[:MOST_NAMES]) + _more(pods)


def evicted(victim: PodInputs, node: str, seen: Shortage, seconds: float) -> str:
    return f"Evicted Mid pod {pod(victim, seen.usage)} from node {node}: {arithmetic(seen, seconds)}"


def _more(listed: Sequence[object]) -> str:
    return f" and {len(listed) - MOST_NAMES} more" if len(listed) > MOST_NAMES else ""
