"""Which Mid pods would be evicted: lowest priority first, then youngest first, as few as that order allows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from manager.inputs import Amounts, PodInputs, Resource
from manager.inputs.amounts import NOTHING


@dataclass(frozen=True, slots=True)
class Selection:
    """The victims in order of eviction, the pods that were next in order and why they stay, and what stays short."""

    victims: tuple[PodInputs, ...] = ()
    spared: tuple[tuple[PodInputs, str], ...] = ()
    short: Amounts = NOTHING


def eviction_order(pods: Iterable[PodInputs]) -> list[PodInputs]:
    """Mid pods in the order of eviction: priority 7000 before 7500, then 5 minutes old before an hour."""
    candidates = [(pod.mid.priority, -pod.mid.created, pod.key, pod) for pod in pods if pod.mid is not None]
    return [pod for *_, pod in sorted(candidates, key=lambda entry: entry[:3])]


def select_victims(pods: Iterable[PodInputs], short: Amounts, spare: Callable[[PodInputs], str]) -> Selection:
    """Return the first pods in order that end a shortage. A pod that holds none of the missing resource is skipped.

    Short of 3000m CPU, pods in order with 2000m, 1 GiB without CPU, 2000m, 4000m: the first and the third are evicted.

    Args:
        pods: pods of one node. Those without Mid requests, and terminating ones, never count.
        short: the shortage beyond the resources that terminating pods free. [milli-cores, bytes]
        spare: returns why a pod stays although it is next; empty when it may be evicted.
    """
    victims, spared = list[PodInputs](), list[tuple[PodInputs, str]]()
    for pod in eviction_order(pods):
        if not short:
            break
        if pod.mid is None or pod.mid.terminating or not pod.holds_mid or not relieves(pod, short):
            continue
        if why := pod.mid.kept or spare(pod):
            spared.append((pod, why))
        else:
            victims.append(pod)
            short = subtract(short, pod.mid_requests)
    return Selection(tuple(victims), tuple(spared), short)


def relieves(pod: PodInputs, short: Amounts) -> bool:
    return any(short[resource] > 0 and pod.mid_requests[resource] > 0 for resource in Resource)


def subtract(amounts: Amounts, other: Amounts) -> Amounts:
    """Subtract amounts from others, never below zero."""
    return Amounts(*(max(amounts[resource] - other[resource], 0) for resource in Resource))
