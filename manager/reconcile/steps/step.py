"""What a reaction is, and what it is told."""

from dataclasses import dataclass
from typing import Protocol

from manager.calculators.base import Result
from manager.config.merge import EffectiveStrategy
from manager.context import Context, Run
from manager.inputs import NodeInputs


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """What one look at a node found."""

    name: str
    """Name of the node."""
    view: EffectiveStrategy
    """Its strategy, and where each value comes from."""
    facts: NodeInputs
    """What the formula read."""
    result: Result
    """What the formula says."""
    offered_before: bool
    """Whether the Node offered any Mid resource before this look."""


class PostReconcileStep(Protocol):
    """Does something about what a look found. A frozen dataclass without state.

    What it remembers of a node is a class of its own, kept under `context.memory(name).part(TheClass)`; its metrics are
    kept under `context.telemetry.part(TheMetrics)`.
    """

    async def react(self, run: Run, look: ReconcileResult) -> float | None:
        """React, on the leader only.

        Returns:
            In how many seconds to look again even if nothing happens; `None` for no such need. [s]

        Raises:
            ApiError: the API server refuses; the look is repeated with back-off.
            ApiUnavailable: it is away.
        """
        ...

    def forget(self, context: Context, name: str) -> None:
        """Show nothing more about a node that is gone, or that another replica looks after."""
        ...
