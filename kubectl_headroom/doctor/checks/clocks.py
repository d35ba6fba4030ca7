"""The clocks of the nodes, by the agents' reports."""

from collections.abc import Iterator
from typing import Final

from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, Severity, count, info, named, ok
from kubectl_headroom.doctor.installation import degrade_seconds
from kubectl_headroom.doctor.permissions import NODE_METRICS

_TOLERATED_SECONDS: Final = 30.0


def check(cluster: Cluster) -> Iterator[Finding]:
    """Report nodes with wrong clocks: each report has the node's time, and the API server records its own."""
    reports = [metric for metric in cluster.list(NODE_METRICS) if metric.updated is not None]
    offsets = {
        report.node: report.ahead for report in sorted(reports, key=lambda one: one.node) if report.ahead is not None
    }
    limit = degrade_seconds(cluster)
    behind = {node: -ahead for node, ahead in offsets.items() if -ahead > _TOLERATED_SECONDS}
    fast = {node: ahead for node, ahead in offsets.items() if ahead > _TOLERATED_SECONDS}
    for severity, seconds, consequence in (
        (
            Severity.ERROR,
            {node: by for node, by in behind.items() if by > limit},
            "so far behind that reports count as too old and nothing is published there",
        ),
        (
            Severity.WARNING,
            {node: by for node, by in behind.items() if by <= limit},
            "behind, so their reports seem older than they are",
        ),
        (Severity.WARNING, fast, "ahead, so their reports seem newer than they are"),
    ):
        if seconds:
            texts = named([f"{node} ({by:.0f} s)" for node, by in seconds.items()])
            message = f"The clocks of {count(len(seconds), 'node')} are {consequence}: {texts}."
            yield Finding(severity, message, "sudo timedatectl set-ntp true  # on the node", list(seconds))
    if not offsets:
        yield info("No node has reported yet, so nothing is known of their clocks.")
    elif not behind and not fast:
        yield ok(f"The clocks of {count(len(offsets), 'node')} agree with the API server's within 30 s.")
