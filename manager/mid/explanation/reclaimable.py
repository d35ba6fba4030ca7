"""The bounds of Reclaimable as terms, from the inputs that our agent reports with it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from manager.calculators.base import Term
from manager.inputs import Resource
from manager.inputs.reading import Reader, get_path

_UNUSED: Final = "max(requests of Prod pods - peak of Prod pods - max(system extra - slack, 0), 0)"
_FREE: Final = "max(allocatable - peak of Prod pods - system extra, 0)"
_RECLAIMABLE: Final = "min(unusedRequests, freeAtPeak)"


def with_bounds(terms: Sequence[Term], allocatable: Mapping[Resource, int], status: Mapping[str, Any]) -> list[Term]:
    """Return the terms with both bounds before Reclaimable; unchanged where the report has no inputs of it.

    Args:
        terms: of the formula.
        allocatable: of the Node. [milli-cores, bytes]
        status: of the NodeMetric.
    """
    result = list[Term]()
    for term in terms:
        bounds = _bounds(term, allocatable, status) if term.name == "reclaimable" and not term.note else ()
        result += bounds
        if bounds:
            values = {bound.name: bound.value for bound in bounds}
            term = replace(term, formula=_RECLAIMABLE, inputs=values)  # noqa: PLW2901 - the same term, explained
        result.append(term)
    return result


def _bounds(term: Term, allocatable: Mapping[Resource, int], status: Mapping[str, Any]) -> tuple[Term, ...]:
    """Return the two bounds; none where an input is not reported, or where they do not give the reported amount."""
    read, resource, own = Reader(), term.resource, get_path(status, "prediction", "reclaimable")
    requested, peak, extra, slack = (
        read.measured(get_path(own, name), name)[resource] for name in ("requested", "prodPeak", "systemExtra", "slack")
    )
    if requested is None or peak is None or extra is None or slack is None:
        return ()
    both = {"peak of Prod pods": peak, "system extra": extra}
    of_requests = {"requests of Prod pods": requested, **both, "slack": slack}
    unused = Term("unusedRequests", resource, _UNUSED, max(requested - peak - max(extra - slack, 0), 0), of_requests)
    of_node = {"allocatable": allocatable[resource], **both}
    free = Term("freeAtPeak", resource, _FREE, max(allocatable[resource] - peak - extra, 0), of_node)
    return (unused, free) if min(unused.value, free.value) == term.value else ()
