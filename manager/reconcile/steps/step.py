"""The interface of a post-reconcile step, and its input."""

from dataclasses import dataclass, field
from typing import Protocol

from manager.calculators.base import Result
from manager.config.merge import EffectiveStrategy
from manager.context import Context, Run
from manager.inputs import NodeInputs
from manager.mid.pod_limits import PodLimits


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of one reconciliation of a node: its strategy, the inputs of the formula, its result, its Mid pods."""

    name: str
    effective: EffectiveStrategy
    inputs: NodeInputs
    result: Result
    published_before: bool  # whether the Node had any Mid resource before this reconciliation
    pod_limits: PodLimits = field(default_factory=PodLimits)


class PostReconcileStep(Protocol):
    """Acts on the result of a reconciliation. A frozen dataclass without state.

    Its state of a node is a class of its own, kept under `context.node_state(name).state_of(TheClass)`; its metrics are
    kept under `context.metrics.of(TheMetrics)`.
    """

    async def execute(self, run: Run, reconciled: ReconcileResult) -> float | None:
        """Act, on the leader only.

        Returns:
            In how many seconds to reconcile again even if nothing changes; `None` for no such need. [s]
        """
        ...

    def forget(self, context: Context, name: str) -> None: ...
