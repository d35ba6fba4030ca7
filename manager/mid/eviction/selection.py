"""Which Mid pods would be evicted: those with the most usage beyond requests first, and as few as end the shortage."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from manager.inputs import Amounts, PodInputs, Resource, total
from manager.inputs.amounts import NOTHING
from manager.inputs.pod import MidPod

_NOISE: Final = Amounts(10, 16 << 20)  # usage up to this much beyond a request counts as none [milli-cores, bytes]


@dataclass(frozen=True, slots=True)
class Selection:
    """The victims in order of eviction, the pods that were next in order and why they stay, and what stays short."""

    victims: tuple[PodInputs, ...] = ()
    spared: tuple[tuple[PodInputs, str], ...] = ()
    short: Amounts = NOTHING


def beyond_requests(pod: PodInputs, usage: Mapping[str, Amounts]) -> Amounts:
    """Return the usage of a Mid pod beyond its Mid requests; zero where its usage is not reported.

    Args:
        pod: the pod.
        usage: usage of pods by "namespace/name". [milli-cores, bytes]
    """
    beyond = subtract(usage.get(pod.key, NOTHING), pod.mid_requests)
    return Amounts(*(beyond[resource] if beyond[resource] > _NOISE[resource] else 0 for resource in Resource))


def select_victims(
    pods: Iterable[PodInputs],
    short: Amounts,
    spare: Callable[[PodInputs], str],
    usage: Mapping[str, Amounts] | None = None,
) -> Selection:
    """Return the victims that end a shortage. A pod that holds and uses none of the missing resource is no victim.

    The order is: most usage beyond requests of the resources that are short, lowest `koordinator.sh/eviction-priority`,
    lowest priority, fewest evictions, youngest. An eviction frees the request and the usage beyond it. A victim within
    its requests stays if later ones make it unnecessary.

    Short of 1000 MiB, with pods of equal priority that request 64 MiB and use 1331, request 64 and use less, and
    request 3072 and use 1: the first is evicted alone. Without its usage the third would be.

    Args:
        pods: pods of one node. Those without Mid requests, and terminating ones, never count.
        short: the shortage beyond the resources that terminating pods free. [milli-cores, bytes]
        spare: returns why a pod stays although it is next; empty when it may be evicted.
        usage: usage of pods by "namespace/name"; a pod without one counts as within its requests.
    """
    candidates = [
        _Candidate(pod, pod.mid, beyond_requests(pod, usage or {}))
        for pod in pods
        if pod.mid is not None and not pod.mid.terminating and pod.holds_mid
    ]
    victims, spared, left = list[_Candidate](), list[tuple[PodInputs, str]](), short
    while relieving := [candidate for candidate in candidates if candidate.coverage(left)]:
        first = min(relieving, key=lambda candidate: candidate.rank(short, left))
        candidates.remove(first)
        if why := first.mid.kept or spare(first.pod):
            spared.append((first.pod, why))
        else:
            victims.append(first)
            left = subtract(left, first.freed)
    for victim in tuple(reversed(victims)):
        if victim.beyond:
            continue  # it causes the shortage
        needed = [candidate for candidate in victims if candidate is not victim]
        if subtract(short, total(candidate.freed for candidate in needed)) == left:
            victims = needed
    return Selection(tuple(victim.pod for victim in victims), tuple(spared), left)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A pod that may be evicted, and its usage beyond its requests. [milli-cores, bytes]"""

    pod: PodInputs
    mid: MidPod
    beyond: Amounts

    @property
    def freed(self) -> Amounts:
        return self.pod.mid_requests + self.beyond

    def coverage(self, left: Amounts) -> float:
        """Return the share of a shortage that the eviction ends, summed over the resources; 0 if none."""
        return sum(min(self.freed[resource], left[resource]) / left[resource] for resource in _short(left))

    def rank(self, short: Amounts, left: Amounts) -> tuple[float, int, int, float, float, str]:
        """Return the place in the order; the lowest is evicted first."""
        beyond = sum(self.beyond[resource] / short[resource] for resource in _short(left))
        mid = self.mid
        return -beyond, mid.eviction_priority, mid.priority, -self.coverage(left), -mid.created, self.pod.key


def _short(amounts: Amounts) -> list[Resource]:
    return [resource for resource in Resource if amounts[resource] > 0]


def subtract(amounts: Amounts, other: Amounts) -> Amounts:
    """Subtract amounts from others, never below zero."""
    return Amounts(*(max(amounts[resource] - other[resource], 0) for resource in Resource))
