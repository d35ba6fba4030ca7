"""What a plugin may do: a frozen dataclass whose fields are its arguments takes part in what it implements."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self, runtime_checkable

from scheduler_plugins.framework.verdict import Verdict
from scheduler_plugins.snapshot.arrays import FloatArray, IntArray, Nodes
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.pod import PodRequest


class ProblemKind(StrEnum):
    """What is wrong with an argument, in Kubernetes' words."""

    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    NOT_FOUND = "FieldValueNotFound"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a plugin's arguments."""

    field: str
    """Its JSON name; parts of an object are joined by dots."""
    kind: ProblemKind
    """What is wrong."""
    message: str
    """What is wrong, with the value, and what is allowed."""


@runtime_checkable
class FilterPlugin(Protocol):
    """Refuses nodes."""

    def filter(self, pod: PodRequest, nodes: Nodes) -> Verdict:
        """Judge the nodes for a pod. Called once per attempt to schedule a pod, with the nodes that fit otherwise."""
        ...


@runtime_checkable
class ScorePlugin(Protocol):
    """Ranks nodes."""

    def score(self, pod: PodRequest, nodes: Nodes) -> IntArray | FloatArray:
        """Scores from 0 (worst) to 100, shape (N,). Called with the nodes that no filter refused."""
        ...


@runtime_checkable
class LoadAccounting(Protocol):
    """Says how load is counted. At most one plugin of a profile does."""

    def load_rules(self) -> LoadRules:
        """The rules; read once at start."""
        ...


@runtime_checkable
class Configurable(Protocol):
    """Has arguments with defaults that depend on one another, or with rules of their own."""

    def defaulted(self) -> Self:
        """A copy in which every argument that was not given has its default."""
        ...

    def problems(self) -> Sequence[Problem]:
        """Everything wrong with the arguments, in order. Called at start, after `defaulted`."""
        ...
