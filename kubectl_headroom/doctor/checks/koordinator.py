"""A live Koordinator in the same cluster, and its parts that do the work of our components."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubectl_headroom.doctor import permissions as may
from kubectl_headroom.doctor.cluster import Cluster, Forbidden, UnknownKind
from kubectl_headroom.doctor.finding import Finding, Severity, about, info, named, ok, warning
from kubectl_headroom.doctor.objects import AGENT, MANAGER, name

_PAGE: Final = "migration.md"
_KOORDLET: Final = "koordlet"
_SAME_WORK: Final = {
    _KOORDLET: (AGENT, "writes the same NodeMetrics", "delete daemonset koordlet"),
    "koord-manager": (
        MANAGER,
        "writes the same NodeMetrics' specs and mid-cpu and mid-memory of the same Nodes",
        "scale deployment koord-manager --replicas=0",
    ),
}
"""Its workload -> ours that does the same, what both do, and what stops theirs."""
_OTHERS: Final = ("koord-scheduler", "koord-descheduler", "koord-device-daemon", "koord-yarn-operator")

Json = Mapping[str, Any]


def check(cluster: Cluster) -> Iterator[Finding]:
    """Koordinator's workloads and webhooks, by their names."""
    every = [*cluster.list(may.DAEMON_SETS), *cluster.list(may.DEPLOYMENTS)]
    namespaces = {
        name(workload): workload["metadata"].get("namespace")
        for workload in every
        if name(workload) in {*_SAME_WORK, *_OTHERS}
    }
    for theirs, (ours, work, stop) in _SAME_WORK.items():
        if theirs in namespaces:
            place = f"{namespaces[theirs]}/{theirs}"
            if cluster.workload(ours) is None:
                yield info(f"Koordinator's {place} {work} as our {ours} would.", docs=_PAGE)
            else:
                message = f"{place} is alive and {work} as our {ours}: the last writer wins. Run one of the two."
                yield warning(f"Koordinator's {message}", f"kubectl -n {namespaces[theirs]} {stop}", [place])
    components = sorted(f"{namespaces[component]}/{component}" for component in _OTHERS if component in namespaces)
    yield from about(Severity.INFO, components, "Koordinator's {names} runs beside Headroom, and may.", docs=_PAGE)
    for permission, webhook in zip((may.VALIDATING, may.MUTATING), may.KOORDINATOR_WEBHOOKS, strict=True):
        if (cluster.get(permission, webhook) or {}).get("webhooks"):
            message = f"{webhook} is registered: it evaluates pods, quotas and the same config by its own rules."
            yield info(f"Koordinator's webhook {message}", docs=_PAGE)
    writers = _other_writers(cluster)
    if writers and _KOORDLET not in namespaces:
        yield warning(
            f"NodeMetrics are written by {named(writers)} as well as by our agents. Stop one of the two.",
            "kubectl get nodemetrics -o yaml --show-managed-fields",
            writers,
        )
    if not namespaces and not writers:
        yield ok("No Koordinator runs in this cluster.")


def _other_writers(cluster: Cluster) -> list[str]:
    """Return the other writers of reports, by `managedFields`; none where that may not be read."""
    try:
        writers = {writer for metric in cluster.list(may.NODE_METRICS) for writer in metric.writers}
    except (Forbidden, UnknownKind):
        return []
    return sorted(writers - {AGENT}) if AGENT in writers else []
