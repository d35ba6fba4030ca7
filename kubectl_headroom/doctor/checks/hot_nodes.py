"""The taint of hot nodes: whether the manager may set it, and whether one was left behind."""

from collections.abc import Iterator

from crds.names import TAINT_HOT
from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, count, error, named, ok, warning
from kubectl_headroom.doctor.installation import upgrade
from kubectl_headroom.doctor.objects import name
from kubectl_headroom.doctor.permissions import NODE_METRICS, NODES
from manager.api import hot_effects

_FORBIDDEN = "Forbidden"
_TAINTED = "Tainted"


def check(cluster: Cluster) -> Iterator[Finding]:
    """Report hot nodes without the taint for want of the right, and taints that no condition explains."""
    reasons = {metric.node: metric.hot_reason for metric in cluster.list(NODE_METRICS)}
    tainted = [name(node) for node in cluster.list(NODES) if hot_effects(node)]
    refused = [node for node, reason in reasons.items() if reason == _FORBIDDEN]
    left = [node for node in tainted if reasons.get(node) != _TAINTED]
    if refused:
        message = f"The manager may not taint {count(len(refused), 'hot node')}: {named(refused)}."
        yield error(message, upgrade(cluster, "manager.hotNodes.enabled=true"), refused)
    if left:
        message = f"{count(len(left), 'Node')} with an unexplained taint {TAINT_HOT}: {named(left)}."
        yield warning(message, f"kubectl taint nodes {' '.join(left)} {TAINT_HOT}-", left)
    if not (refused or left):
        hot = sum(reason == _TAINTED for reason in reasons.values())
        yield ok(f"Nodes with the taint {TAINT_HOT}: {hot}.")
