"""The agents: one on each node, ready, and reporting."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headroom.cluster.node_selection import required_nodes, tolerates
from kubectl_headroom import manager_state
from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, Severity, about, count, error, named, ok
from kubectl_headroom.doctor.installation import degrade_seconds, missing_component
from kubectl_headroom.doctor.node_metric import NodeMetricSummary
from kubectl_headroom.doctor.objects import (
    AGENT,
    COMPONENT,
    MANAGER,
    Pod,
    is_linux,
    is_ready,
    just_started,
    labels,
    name,
    pod_template,
)
from kubectl_headroom.doctor.permissions import NODE_METRICS, NODES

_FIRST_REPORT_SECONDS: Final = 150.0
_LATE_REPORTS: Final = 3

Json = Mapping[str, Any]


class Labelled(NamedTuple):
    """A node as selectors read it."""

    name: str
    labels: Mapping[str, str]


def check(cluster: Cluster) -> Iterator[Finding]:
    """Return which nodes have no agent, none that works, or none that reports."""
    daemon_set = cluster.workload(AGENT)
    if daemon_set is None:
        yield missing_component(cluster, AGENT, "nothing is measured, unless another agent does it")
        return
    excluded = manager_state.exclusion(cluster.workload(MANAGER))
    every_node = cluster.list(NODES)
    nodes = [node for node in every_node if is_linux(node) and not excluded.excludes(labels(node))]
    wanted = [node for node in nodes if _is_scheduled_to(daemon_set, node)]
    yield from _left_out(cluster, sorted({name(node) for node in nodes} - {name(node) for node in wanted}), wanted)
    reports = {metric.node: metric for metric in cluster.list(NODE_METRICS)}
    reported = {node for node, report in reports.items() if report.age(cluster.now()) is not None}
    silent = {name(node) for node in every_node} - {name(node) for node in wanted} - reported
    message = "{count} without a report of an agent, where LoadAwareScheduling checks nothing and scores 0: {names}."
    yield from about(Severity.INFO, sorted(silent), message, docs="scheduler.md")
    pods = {pod.node: pod for pod in cluster.pods(AGENT) if pod.node}
    problems = list(_pods(cluster, wanted, pods))
    yield from problems
    limit = degrade_seconds(cluster)
    names = [name(node) for node in wanted if name(node) in pods]
    late = list(_reports(cluster, {node: (pods[node], reports.get(node)) for node in names}, limit))
    yield from late
    if not problems and not late:
        yield ok(f"{count(len(wanted), 'node')}: each has an agent that is ready and reports.")


def _left_out(cluster: Cluster, names: Sequence[str], wanted: Sequence[Json]) -> Iterator[Finding]:
    """Report nodes without the DaemonSet: that is intended, unless it is all of them."""
    message = (
        "agent.nodeSelector, agent.affinity or a taint keeps agents away from {count}, which publish nothing: {names}."
    )
    if wanted:
        yield from about(Severity.INFO, names, message, docs="install.md")
    else:
        path = "{.spec.template.spec.nodeSelector}"
        fix = f"kubectl -n {cluster.namespace} get daemonset {AGENT} -o jsonpath='{path}'"
        yield from about(Severity.WARNING, names, f"No node is measured: {message}", fix, "install.md")


def _is_scheduled_to(daemon_set: Json, node: Json) -> bool:
    """Return whether the DaemonSet places a pod there, by its node selector, affinity and tolerations."""
    spec = pod_template(daemon_set).get("spec") or {}
    required = required_nodes(spec)
    if required is not None and not required(Labelled(name(node), labels(node))):
        return False
    tolerations: Sequence[Json] = spec.get("tolerations") or ()
    taints = [taint for taint in (node.get("spec") or {}).get("taints") or () if _repels(taint)]
    return all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def _repels(taint: Json) -> bool:
    """Return whether a taint keeps pods away; every DaemonSet tolerates those of nodes with problems."""
    by_kubernetes = str(taint.get("key")).startswith("node.kubernetes.io/")
    return taint.get("effect") in {"NoSchedule", "NoExecute"} and not by_kubernetes


def _pods(cluster: Cluster, wanted: Sequence[Json], pods: Mapping[str, Pod]) -> Iterator[Finding]:
    """Nodes without an agent, and agents that are not ready."""
    kubectl = f"kubectl -n {cluster.namespace}"
    alive = sorted(name(node) for node in wanted if is_ready(node))
    yield from about(
        Severity.WARNING,
        sorted(name(node) for node in wanted if not is_ready(node)),
        "{count} not ready by Kubernetes' own judgement, so nothing is measured there: {names}.",
        "kubectl describe node {first}",
    )
    without = [node for node in alive if node not in pods]
    fix = f"{kubectl} describe daemonset {AGENT}"
    yield from about(Severity.ERROR, without, "{count} without an agent: {names}.", fix)
    waiting = {node: pods[node] for node in alive if node in pods and not pods[node].ready}
    young = [node for node, pod in waiting.items() if not pod.why and just_started([pod], cluster.now())]
    yield from about(Severity.INFO, young, "{count} just starting: {names}.", noun="agent")
    stuck = {node: pod for node, pod in waiting.items() if node not in young}
    for why in dict.fromkeys(pod.why for pod in stuck.values()):
        nodes = [node for node, pod in stuck.items() if pod.why == why]
        pod = stuck[nodes[0]]
        has_run = any(state.restarts for state in pod.states)
        fix = f"logs {pod.name} --all-containers --prefix" if has_run else f"describe pod {pod.name}"
        probe = "its readiness probe fails"
        message = f"{count(len(nodes), 'agent')} not ready ({why or probe}): {named(nodes)}."
        yield error(message, f"{kubectl} {fix}", nodes)


def _reports(
    cluster: Cluster, agents: Mapping[str, tuple[Pod, NodeMetricSummary | None]], limit: float
) -> Iterator[Finding]:
    """Agents that have not reported for too long; a report as old as the limit withdraws Mid resources. [s]"""
    now = cluster.now()
    missing: list[str] = []
    first: list[str] = []
    never: list[str] = []
    stale: dict[str, float] = {}
    late: dict[str, float] = {}
    for node, (pod, report) in agents.items():
        age = None if report is None else report.age(now)
        just_begun = pod.age(now) < _FIRST_REPORT_SECONDS
        if report is None or age is None:
            (first if just_begun else missing if report is None else never).append(node)
        elif age > limit:
            stale[node] = age
        elif age > _LATE_REPORTS * report.interval and not just_begun:
            late[node] = age
    manager_logs = f"kubectl -n {cluster.namespace} logs -l {COMPONENT}={MANAGER} --tail=-1 --prefix"
    yield from about(
        Severity.ERROR, missing, "{count} without a NodeMetric, which the manager makes: {names}.", manager_logs
    )
    yield from about(Severity.INFO, first, "{count} yet to report for the first time: {names}.")
    if never:
        message = "{count} never reported: {names}."
        yield from about(Severity.ERROR, never, message, _logs(cluster, agents[never[0]][0]), noun="agent")
    for severity, ages, consequence in (
        (Severity.ERROR, stale, "so old that nothing is published there"),
        (Severity.WARNING, late, "late, not yet too old"),
    ):
        if ages:
            nodes = list(ages)
            texts = named([f"{node} ({age:.0f} s ago)" for node, age in ages.items()])
            message = f"Reports of {count(len(ages), 'node')} are {consequence}: {texts}."
            yield Finding(severity, message, _logs(cluster, agents[nodes[0]][0]), nodes)


def _logs(cluster: Cluster, pod: Pod) -> str:
    return f"kubectl -n {cluster.namespace} logs {pod.name} -c agent"
