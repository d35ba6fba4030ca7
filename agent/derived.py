"""One tick's samples to more samples: what runs outside pods. Only ever from values of the same tick."""

from collections.abc import Iterable, Sequence

from agent.samples import CPU, INPUT_MISSING, MEMORY, NODE, SYS, VANISHED, CollectionResult, Missing, Sample


def system_usage(node: float | None, pods: Iterable[float | None]) -> float | None:
    """What the node uses beyond its pods: max(node - sum of pods, 0); None when any of them is unknown.

    node 3.0 cores, pods 1.0 and 0.5: 1.5 cores.
    """
    known = list(pods)
    if node is None or any(value is None for value in known):
        return None
    return max(node - sum(value for value in known if value is not None), 0.0)


def system(collected: CollectionResult, now: float) -> CollectionResult:
    """System CPU and memory of a tick.

    Returns at most two samples; a resource of which the node or any pod is missing is missing too, and so are both when
    it is not known which pods there are. A pod that vanished since the last tick used CPU that cannot be told from the
    system's, and holds no memory any more.
    """
    derived = CollectionResult()
    for metric in (CPU, MEMORY):
        samples = [sample for sample in collected.samples if sample.metric == metric]
        value = (
            system_usage(_node(samples), _pods(samples, collected.missing, metric)) if collected.pods_listed else None
        )
        if value is None:
            derived.missing.append(Missing(metric, SYS, INPUT_MISSING))
        else:
            derived.samples.append(Sample(metric, SYS, now, value))
    return derived


def _node(samples: Sequence[Sample]) -> float | None:
    return next((sample.value for sample in samples if sample.entity == NODE), None)


def _pods(samples: Sequence[Sample], missing: Sequence[Missing], metric: str) -> list[float | None]:
    values: list[float | None] = [sample.value for sample in samples if sample.entity not in (NODE, SYS)]
    return values + [None for one in missing if one.metric == metric and one.entity != NODE and not _is_nothing(one)]


def _is_nothing(one: Missing) -> bool:
    """Whether what is missing is no amount at all."""
    return one.metric == MEMORY and one.reason == VANISHED
