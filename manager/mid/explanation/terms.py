"""The formula as people read it: each line with its numbers put in, and where every number comes from."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from manager.calculators.base import Term
from manager.inputs import NodeInputs, Resource
from manager.inputs.reading import Reader, get_objects
from manager.mid.explanation import amounts


class Origin(StrEnum):
    """Where an input comes from."""

    NODE = "Node"
    PODS = "pods on the node"
    REPORT = "NodeMetric report"
    PREDICTION = "NodeMetric prediction"
    STRATEGY = "strategy"
    UNKNOWN = ""


_INPUTS: Final = {
    Origin.NODE: ("capacity", "allocatable", "annotation reservation"),
    Origin.PODS: ("requests of pods above Mid", "requests of Mid pods"),
    Origin.REPORT: ("system usage", "node usage", "Prod host applications"),
    Origin.PREDICTION: (
        *("usage of Mid pods", "Reclaimable", "exclusive CPUs", "usage of exclusive CPUs"),
        *("requests of Prod pods", "peak of Prod pods", "system extra", "slack"),
    ),
    Origin.STRATEGY: ("midUnallocatedPercent", "threshold percent", "static percent"),
}
ORIGINS: Final[Mapping[str, Origin]] = {name: origin for origin, names in _INPUTS.items() for name in names}
"""Input of a term -> where it comes from; inputs that are terms themselves are not listed."""

TITLES: Final[Mapping[Resource, str]] = {Resource.CPU: "CPU", Resource.MEMORY: "Memory"}
"""The resources' names in text."""

_PERCENT: Final = re.compile("percent", re.IGNORECASE)
_MIB: Final = 2**20


def amount(resource: Resource, number: int) -> str:
    """A number of the formula in one unit per resource, so that sums can be checked by eye: milli-cores and MiB."""
    if resource is Resource.CPU:
        return amounts.cpu(number)
    return f"{number // _MIB}Mi" if number % _MIB == 0 else f"{number / _MIB:.1f}Mi"


def shown(resource: Resource, name: str, number: int) -> str:
    return f"{number}%" if _PERCENT.search(name) else amount(resource, number)


def with_numbers(term: Term) -> str:
    """The formula with its numbers: "capacity - reserved" -> "capacity 16000m - reserved 1000m"."""
    if not term.inputs:
        return term.formula
    pattern = "|".join(re.escape(name) for name in sorted(term.inputs, key=len, reverse=True))
    return re.sub(
        rf"(?<!\w)(?:{pattern})(?!\w)",
        lambda match: f"{match[0]} {shown(term.resource, match[0], term.inputs[match[0]])}",
        term.formula,
    )


class Input(NamedTuple):
    """A number that was measured, stated or configured, not calculated."""

    name: str
    values: Mapping[Resource, int]  # its value per resource [milli-cores, bytes, percent]
    origin: Origin
    age_seconds: float | None  # how old it is; None for one that was read just now [s]


_CLASS_OF: Final[Mapping[str, str]] = {"system usage": "sys", "node usage": "node"}
"""Inputs that our agent reports twice: in full, and with each prediction as the usage of a class."""


def inputs(terms: Sequence[Term], facts: NodeInputs, status: Mapping[str, Any] | None = None) -> list[Input]:
    """Everything that went into the terms and is not itself a term, in the order of its first use.

    The NodeMetric's status shows which of two rules gave a number.
    """
    calculated = {term.name for term in terms}
    result: dict[str, dict[Resource, int]] = {}
    for term in terms:
        for name, number in term.inputs.items():
            if name not in calculated:
                result.setdefault(name, {})[term.resource] = number
    ages = {Origin.REPORT: facts.report_age, Origin.PREDICTION: facts.prediction_age}
    origins = {name: _origin(name, values, status or {}) for name, values in result.items()}
    return [Input(name, values, origins[name], ages.get(origins[name])) for name, values in result.items()]


def _origin(name: str, values: Mapping[Resource, int], status: Mapping[str, Any]) -> Origin:
    for cls_ in get_objects(status, "prediction", "classes") if name in _CLASS_OF else ():
        if cls_.get("name") == _CLASS_OF[name]:
            stated = Reader().measured(cls_.get("usage"), name)
            if all(stated[resource] == number for resource, number in values.items()):
                return Origin.PREDICTION
    return ORIGINS.get(name, Origin.UNKNOWN)
