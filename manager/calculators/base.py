"""The interface of a calculator, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from manager.inputs import Amounts, NodeInputs, Resource


@dataclass(frozen=True, slots=True)
class Term:
    """A named line of a formula for one resource, with its inputs: what `explain` prints."""

    name: str  # name of the term, as in the documentation
    resource: Resource  # the resource; it determines the unit
    formula: str  # how the value follows from the inputs, in words
    value: int  # the result [milli-cores, bytes]
    inputs: Mapping[str, int] = field(default_factory=dict)
    """The inputs by their names in the formula. [milli-cores, bytes, percent]"""
    note: str = ""  # what a person should know about it, such as why it is zero


EXPIRED: Final = frozenset({"ReportExpired", "PredictionExpired"})  # reasons after an agent stopped reporting


@dataclass(frozen=True, slots=True)
class Degraded:
    """Nothing may be published, for a reason that is not arithmetic."""

    reason: str  # one CamelCase word for programs
    message: str  # a sentence for people, with the remedy


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a calculator for one node."""

    outcome: Amounts | Degraded  # the calculated amounts, or why nothing may be published
    requested: Amounts
    desired: Amounts | None  # the amounts that the Node should have; `None` removes the resources
    deficit: Amounts  # by how much the requests of running pods exceed the calculated amounts
    terms: tuple[Term, ...] = ()
    notes: tuple[str, ...] = ()  # what else a person should know

    @property
    def calculated(self) -> Amounts:
        """The calculated amounts; zero when degraded."""
        return self.outcome if isinstance(self.outcome, Amounts) else Amounts()

    @property
    def degraded(self) -> Degraded | None:
        """Return why nothing may be published; `None` when the formula decides."""
        return self.outcome if isinstance(self.outcome, Degraded) else None

    @property
    def expired(self) -> bool:
        """Return whether nothing may be published because reports have expired."""
        return self.degraded is not None and self.degraded.reason in EXPIRED

    def term(self, name: str, resource: Resource) -> Term:
        """A line of the formula.

        Raises:
            KeyError: there is none of that name.
        """
        for term in self.terms:
            if term.name == name and term.resource is resource:
                return term
        raise KeyError(name)


class Calculator(Protocol):
    """Calculates one tier's resources. A frozen dataclass: its fields are its configuration.

    `calculate` is called whenever something about a node changes and on its deadlines, many times a second in a large
    cluster; it must not block, keep state or raise on any inputs.
    """

    def calculate(self, inputs: NodeInputs) -> Result: ...
