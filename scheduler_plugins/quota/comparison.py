"""When usage is over a bound. Equal is not over. As upstream's CapacityScheduling compares."""

from collections.abc import Iterator

from scheduler_plugins.quota.amounts import CORE, UNLIMITED, Amounts, is_scalar


def over_max_with(used: Amounts, maximum: Amounts, request: Amounts) -> list[str]:
    """The resources of which usage and a request together are over the maximum.

    Core resources are looked at whether requested or not, scalars only where the request names them.
    """
    return list(_over(used, request, maximum, missing_scalar=UNLIMITED))


def over_min_with(used: Amounts, minimum: Amounts, request: Amounts) -> list[str]:
    """The resources of which usage and a request together are over what is guaranteed; scalars as above."""
    return list(_over(used, request, minimum, missing_scalar=0))


def over_min(used: Amounts, minimum: Amounts) -> list[str]:
    """The resources of which usage is over what is guaranteed; of the scalars, those in use are looked at."""
    return [name for name in (*CORE, *_scalars(used)) if used.get(name, 0) > minimum.get(name, 0)]


def aggregated_over_min_with(used: Amounts, minimum: Amounts, request: Amounts) -> list[str]:
    """The resources of which all usage and a request are over all that is guaranteed.

    Every scalar in use anywhere is looked at, whether requested or not: this is the ceiling of all quotas together.

    Args:
        used: in use, over all quotas.
        minimum: guaranteed, over all quotas.
        request: what is asked for beside it.
    """
    names = dict.fromkeys((*CORE, *_scalars(used), *_scalars(request)))
    return [name for name in names if used.get(name, 0) + request.get(name, 0) > minimum.get(name, 0)]


def _over(used: Amounts, request: Amounts, bound: Amounts, missing_scalar: int) -> Iterator[str]:
    for name in CORE:
        if used.get(name, 0) + request.get(name, 0) > bound.get(name, 0):
            yield name
    for name in _scalars(request):
        if used.get(name, 0) + request[name] > bound.get(name, missing_scalar):
            yield name


def _scalars(amounts: Amounts) -> Iterator[str]:
    return (name for name in amounts if is_scalar(name))
