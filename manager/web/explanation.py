"""The explanation of a node's Mid resources, from the manager's state and the present NodeMetric."""

from manager.context import Context
from manager.inputs import ObservedAt
from manager.mid.explanation.explanation import ConfigState, Explanation, ObservedNode, explain
from manager.reconcile.steps.shadow import ShadowState
from manager.web.api_reader import ApiReader, NotRead


def of_node(context: Context, reader: ApiReader, name: str) -> tuple[Explanation, str] | None:
    """Explain a node, as the command does; None where there is none of that name.

    The second is why the explanation lacks the NodeMetric; empty where it does not.
    """
    cluster = context.cluster
    node = cluster.nodes.get(name)
    if node is None:
        return None
    problem, metric = "", None
    try:
        metric = reader.node_metric(name)
    except NotRead as error:
        problem = str(error)
    known, memory = cluster.node_metrics.get(name), context.node_states.get(name)
    now = context.wall()
    ahead = now - context.steady()
    written_at = memory.publish_state.written_at if memory else None
    simulation = memory.state_of(ShadowState).simulation if memory else None
    observed = ObservedNode(
        node,
        metric,
        list(cluster.pods_on(name)),
        now,
        observed_at=known.observed_at.shifted(ahead) if known else ObservedAt(),
        written_at=None if written_at is None else written_at + ahead,
        exclusion=context.settings.exclude_nodes,
        shadow=simulation.to_status(now) if simulation else None,
    )
    state, settings = context.in_force, context.settings
    config = ConfigState(
        f"ConfigMap {settings.namespace}/{settings.config_name}", now - state.since if state.since else None, state
    )
    return explain(observed, config), problem
