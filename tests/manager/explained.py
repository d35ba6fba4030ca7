"""After every reconciliation of a node in these tests, `explain` of the same objects must agree.

`tests/manager/conftest.py` puts this beside the manager's own reactions, so every scenario is one of explain's too.
"""

from dataclasses import dataclass, field

from headroom.kube import paths
from manager import node_metric
from manager.context import Context, Run
from manager.inputs import NodeReport, ObservedAt
from manager.mid.explanation.explanation import ConfigState, Explanation, ObservedNode, explain
from manager.mid.explanation.next_action import Action
from manager.reconcile.steps import ReconcileResult
from manager.write_rate_limiter import WriteRateLimiter
from tests.support.api import FakeApi
from tests.support.objects import Json


@dataclass(frozen=True, slots=True)
class Explained:
    """A reaction that compares the manager's result with explain's, where the API server is in memory."""

    compared: list[str] = field(default_factory=list)
    """Names of the nodes that were compared, once per look."""

    async def execute(self, run: Run, reconcile: ReconcileResult) -> None:
        """Compare every number, and what explain says is still to be written."""
        cached = run.context.cluster.node_metrics.get(reconcile.name)
        if reconcile.inputs.report != (cached.report if cached else None):  # something was reported since
            return
        explanation = explanation_of(run, reconcile.name)
        if explanation is None:
            return
        self.compared.append(reconcile.name)
        assert explanation.strategy == reconcile.effective
        assert explanation.facts == reconcile.inputs
        assert explanation.result == reconcile.result
        memory = run.context.node_state(reconcile.name)
        budget, timing, now = memory.state_of(WriteRateLimiter), run.context.settings.timing, run.context.steady()
        for step in explanation.steps:
            if step.action is Action.WRITE:  # it has just been written, unless too much was
                assert (
                    budget.wait({step.resource: step.desired}, timing.write_burst, timing.write_refill_seconds, now) > 0
                )
            elif step.action is Action.NOTHING:
                assert step.published == step.desired

    def forget(self, context: Context, name: str) -> None:
        """There is nothing to take back."""


def explanation_of(run: Run, name: str) -> Explanation | None:
    """Explain's result for the objects in the API server; None where the manager has not seen the newest."""
    context, api = run.context, run.api
    cluster = context.cluster
    if not isinstance(api, FakeApi) or name not in cluster.nodes:
        return None
    node, metric = api.objects.get(paths.node(name)), api.objects.get(node_metric.path(name))
    cached = cluster.node_metrics.get(name)
    read = NodeReport.from_object(metric) if metric else None
    if node is None or _version(node) != cluster.nodes[name]["metadata"]["resourceVersion"]:
        return None
    if read != (cached.report if cached else None):
        return None
    ahead = context.wall() - context.steady()
    written_at = context.node_state(name).publish_state.written_at
    observed = ObservedNode(
        node,
        metric,
        list(cluster.pods_on(name)),
        context.wall(),
        observed_at=cached.observed_at.shifted(ahead) if cached else ObservedAt(),
        written_at=None if written_at is None else written_at + ahead,
        exclusion=context.settings.exclude_nodes,
    )
    return explain(observed, ConfigState("the ConfigMap", None, context.in_force))


def _version(obj: Json) -> str:
    return str(obj["metadata"].get("resourceVersion", ""))
