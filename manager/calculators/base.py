"""What a calculator is, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from manager.inputs import Amounts, NodeInputs, Resource


@dataclass(frozen=True, slots=True)
class Term:
    """One named line of a formula for one resource, with the numbers that went in: what `explain` prints."""

    name: str
    """Name of the term, as in the documentation."""
    resource: Resource
    """The resource it is about; it decides the unit."""
    formula: str
    """How the value follows from the inputs, in words."""
    value: int
    """The result. [milli-cores, bytes]"""
    inputs: Mapping[str, int] = field(default_factory=dict)
    """The numbers that went in, by the words of the formula. [milli-cores, bytes, percent]"""
    note: str = ""
    """What a person should know about it, such as why it is zero."""


EXPIRED: Final = frozenset({"ReportExpired", "PredictionExpired"})
"""Reasons of a node whose agent has fallen silent."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """Nothing may be sold, for a reason that is not arithmetic."""

    reason: str
    """One CamelCase word for programs."""
    message: str
    """A sentence for people, with the way out."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a calculator found out about one node."""

    outcome: Amounts | Degraded
    """What may be sold, or why nothing may."""
    requested: Amounts
    """What running pods of the tier have bought."""
    desired: Amounts | None
    """What the Node should offer; `None` takes the resources away."""
    deficit: Amounts
    """By how much running pods have bought more than may be sold."""
    terms: tuple[Term, ...] = ()
    """Every line of the formula, in order."""
    notes: tuple[str, ...] = ()
    """What else a person should know."""

    @property
    def calculated(self) -> Amounts:
        """What may be sold; zero when degraded."""
        return self.outcome if isinstance(self.outcome, Amounts) else Amounts()

    @property
    def degraded(self) -> Degraded | None:
        """Why nothing may be sold, unless arithmetic says how much."""
        return self.outcome if isinstance(self.outcome, Degraded) else None

    @property
    def expired(self) -> bool:
        """Whether nothing may be sold because reports are too old."""
        return self.degraded is not None and self.degraded.reason in EXPIRED

    def term(self, name: str, resource: Resource) -> Term:
        """One line of the formula.

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
    cluster; it must not block, remember or raise on any facts.
    """

    def calculate(self, inputs: NodeInputs) -> Result:
        """What the node may sell."""
        ...
