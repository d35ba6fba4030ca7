"""The parts of a Node that the extender reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crds.quantity import QuantityError
from scheduler_plugins.snapshot.arrays import AnnotationReader
from scheduler_plugins.snapshot.estimate import estimate_node
from scheduler_plugins.snapshot.units import INT64_MAX, units


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The content of a Node on which decisions depend."""

    annotations: Mapping[str, str]
    allocatable: Mapping[str, int]
    own_allocatable: Mapping[str, int]  # all that 64 bits hold
    problems: Sequence[str]  # which annotations are ignored, and why

    @classmethod
    def of(cls, node: Mapping[str, Any], readers: Iterable[AnnotationReader]) -> "NodeFacts":
        """Read a Node. Raises QuantityError: an amount is not a quantity."""
        stated = (node.get("status") or {}).get("allocatable") or {}
        annotations = node["metadata"].get("annotations") or {}
        allocatable, problem = estimate_node(node)
        problems = [problem] if problem else []
        problems += [text for reader in readers for text in reader.annotation_problems(annotations)]
        try:
            return cls(annotations, _in_units(allocatable), _in_units(stated, INT64_MAX), problems)
        except QuantityError as error:
            raise QuantityError(f"status.allocatable: {error}") from None


def _in_units(amounts: Mapping[str, Any], *most: int) -> dict[str, int]:
    return {resource: units(resource, amount, *most) for resource, amount in amounts.items()}
