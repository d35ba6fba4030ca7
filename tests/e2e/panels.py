"""Queries of the dashboards' panels on a cluster after the demo, and the panels without data there."""

from collections.abc import Iterator, Mapping
from typing import Final

from tests.monitoring import dashboards

NOTHING_TO_SHOW: Final[Mapping[str, str]] = {
    "headroom_agent_failures_total": "no step of an agent fails",
    "headroom_agent_prediction_": "predictions are evaluated five minutes and a day after they were made",
    "headroom_agent_last_checkpoint_timestamp_seconds": "the first checkpoint is saved after the story",
    "headroom_manager_mid_degraded": "whether a node publishes nothing depends on the end of the story",
    "headroom_manager_mid_evictions_": "no pod is evicted",
    "headroom_manager_hot_node": "hotNodes is off",
    "headroom_manager_shadow_": "no node is in shadow mode",
    "headroom_manager_webhook_reviews_total": "the manager runs as a process, which API servers do not ask",
    "headroom_scheduler_plugin_errors_total": "no plugin fails",
    'outcome=~"error|bad_request"': "no request fails",
    "headroom_scheduler_wake_patches_total": "whether a pod is woken depends on the load",
    "headroom_scheduler_waited_seconds": "no pod that was refused has found a node",
    "headroom_scheduler_provider_": "no plugin has a provider",
    "headroom_scheduler_reclaim_decisions_total": "no pod reclaims borrowed resources",
    "headroom_scheduler_reclaim_evictions_total": "no pod reclaims borrowed resources",
    "headroom_scheduler_reclaim_bound_seconds": "no pod reclaims borrowed resources",
    "headroom_scheduler_reclaim_decision_seconds": "no pod reclaims borrowed resources",
    'headroom_scheduler_quota_used{quota_namespace=~".*", resource="cpu"}) - ': "no namespace borrows",
    'headroom_scheduler_quota_used{quota_namespace=~".*", resource="memory"}) - ': "no namespace borrows",
}
"""Parts of queries that may be answered by nothing, each with its reason."""


_SHORTER: Final[Mapping[str, str]] = {"$__rate_interval": "30s", "[1d:5m]": "[10m:1s]"}
"""The story lasts a minute or two."""


def queries(node: str) -> Iterator[tuple[str, str]]:
    """Every panel's title and query, as Grafana sends it for a chosen node, and for all."""
    for name, dashboard in dashboards.DASHBOARDS.items():
        chosen = {"$node": node if name == "node" else ".*", "$quota_namespace": ".*", **_SHORTER}
        for panel, target in dashboards.queries(dashboard):
            expression = target["expr"]
            for written, meant in chosen.items():
                expression = expression.replace(written, meant)
            yield f"{name}: {panel['title']}", expression


def must_show(query: str) -> bool:
    """Return whether nothing excuses an empty answer."""
    return not any(part in query for part in NOTHING_TO_SHOW)
