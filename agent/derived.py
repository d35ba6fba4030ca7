"""A tick's samples to more samples: what runs outside pods. Only ever from values of the same tick."""

from collections.abc import Iterable

from agent.samples import CPU, INPUT_MISSING, MEMORY, NODE, SYS, VANISHED, CollectionResult


def system_usage(node: float | None, pods: Iterable[float | None]) -> float | None:
    """Return the usage beyond the pods: max(node - sum of pods, 0); None when any of them is unknown.

    node 3.0 cores, pods 1.0 and 0.5: 1.5 cores.
    """
    known = list(pods)
    if node is None or any(value is None for value in known):
        return None
    return max(node - sum(value for value in known if value is not None), 0.0)


def system(collected: CollectionResult, now: float) -> CollectionResult:
    """System CPU and memory of a tick, of everything that was collected in it.

    A resource of which the node or any pod is missing is missing too, and so are both when it is not known which pods
    there are. A pod that vanished since the last tick used CPU that cannot be told from the system's, and holds no
    memory any more.
    """
    derived = CollectionResult()
    for metric in (CPU, MEMORY):
        values = [(sample.entity, sample.value) for sample in collected.samples if sample.metric == metric]
        node = next((value for entity, value in values if entity == NODE), None)
        pods: list[float | None] = [value for entity, value in values if entity not in (NODE, SYS)]
        for one in collected.missing:
            is_nothing = metric == MEMORY and one.reason == VANISHED
            if one.metric == metric and one.entity != NODE and not is_nothing:
                pods.append(None)
        value = system_usage(node, pods) if collected.pods_listed else None
        derived.add(metric, SYS, now, INPUT_MISSING if value is None else value)
    return derived
