"""A tick's samples to more samples: what runs outside pods. Only ever from values of the same tick."""

from collections.abc import Iterable

from agent.samples import CPU, INPUT_MISSING, MEMORY, NODE, SYS, VANISHED, CollectionResult


def system_usage(node: float | None, pods: Iterable[float | None]) -> float | None:
    """Return the usage beyond the pods: max(node - sum of pods, 0); None when any of them is unknown.

    node 3.0 cores, pods 1.0 and 0.5: 1.5 cores.
    """
    usages = list(pods)
    if node is None or any(value is None for value in usages):
        return None
    return max(node - sum(value for value in usages if value is not None), 0.0)


def system(collected: CollectionResult, now: float) -> CollectionResult:
    """Return the system's CPU and memory in a tick.

    A resource is missing when the node's value or any pod's is missing. Both are missing when the list of pods is
    incomplete. A pod that ended since the last tick has used CPU that counts to nothing, and holds no memory.
    """
    derived = CollectionResult()
    for metric in (CPU, MEMORY):
        values = [(sample.entity, sample.value) for sample in collected.samples if sample.metric == metric]
        node = next((value for entity, value in values if entity == NODE), None)
        pods: list[float | None] = [value for entity, value in values if entity not in (NODE, SYS)]
        for gap in collected.missing:
            is_nothing = metric == MEMORY and gap.reason == VANISHED
            if gap.metric == metric and gap.entity != NODE and not is_nothing:
                pods.append(None)
        value = system_usage(node, pods) if collected.pods_listed else None
        derived.add(metric, SYS, now, INPUT_MISSING if value is None else value)
    return derived
