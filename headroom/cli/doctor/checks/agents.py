"""The agents: one on each node, ready, and reporting."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headroom.cli import manager_state
from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, count, error, info, named, ok, warning
from headroom.cli.doctor.installed import absent, degrade_seconds, pods, workload
from headroom.cli.doctor.node_metric import Report, report
from headroom.cli.doctor.objects import AGENT, MANAGER, PART, Pod, is_linux, is_ready, just_started, labels, name
from headroom.cli.doctor.rights import NODE_METRICS, NODES

_PAGE: Final = "troubleshooting.md"
_FIRST_REPORT_SECONDS: Final = 150.0
_LATE_REPORTS: Final = 3

Json = Mapping[str, Any]


async def check(site: Site) -> AsyncIterator[Finding]:
    """Which nodes have no agent, none that works, or none that reports."""
    agents = await workload(site, AGENT)
    if agents is None:
        yield await absent(site, AGENT, "nothing is measured, unless another agent does it")
        return
    excluded = manager_state.exclusion(await workload(site, MANAGER))
    wanted = [node for node in await site.every(NODES) if is_linux(node) and not excluded.excludes(labels(node))]
    chosen = [node for node in wanted if _is_chosen(agents, node)]
    if len(chosen) < len(wanted):
        left = sorted({name(node) for node in wanted} - {name(node) for node in chosen})
        told = (
            f"agent.nodeSelector or a taint keeps agents away from {count(len(left), 'node')}, which publish nothing: "
            f"{named(left)}."
        )
        if chosen:
            yield info(told, docs="install.md", objects=left)
        else:
            fix = (
                f"kubectl -n {site.namespace} get daemonset {AGENT} -o jsonpath='{{.spec.template.spec.nodeSelector}}'"
            )
            yield warning(f"No node is measured: {told}", fix, "install.md", left)
    running = {pod.node: pod for pod in await pods(site, AGENT) if pod.node}
    trouble = list(_pods(site, chosen, running))
    for found in trouble:
        yield found
    limit = await degrade_seconds(site)
    reports: Mapping[str, Report] = {each.node: each for each in await site.every(NODE_METRICS, report)}
    names = [name(node) for node in chosen if name(node) in running]
    working = [_Agent(node, running[node], reports.get(node)) for node in names]
    late = list(_reports(site, working, limit))
    for found in late:
        yield found
    if not trouble and not late:
        yield ok(f"{count(len(chosen), 'node')}: each has an agent that is ready and reports.")


def _is_chosen(agents: Json, node: Json) -> bool:
    """Whether the DaemonSet wants a pod there, by its node selector and tolerations."""
    spec = ((agents.get("spec") or {}).get("template") or {}).get("spec") or {}
    asked: Mapping[str, str] = spec.get("nodeSelector") or {}
    if any(labels(node).get(key) != value for key, value in asked.items()):
        return False
    tolerations: Sequence[Json] = spec.get("tolerations") or ()
    taints = [each for each in (node.get("spec") or {}).get("taints") or () if _repels(each)]
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def _repels(taint: Json) -> bool:
    """Whether a taint keeps pods away; those of nodes in trouble are tolerated by every DaemonSet."""
    return taint.get("effect") in {"NoSchedule", "NoExecute"} and not str(taint.get("key")).startswith(
        "node.kubernetes.io/"
    )


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return (toleration.get("key"), toleration.get("value") or "") == (taint.get("key"), taint.get("value") or "")


def _pods(site: Site, chosen: Sequence[Json], running: Mapping[str, Pod]) -> Iterator[Finding]:
    """Nodes without an agent, and agents that are not ready."""
    alive = [node for node in chosen if is_ready(node)]
    dead = sorted(name(node) for node in chosen if not is_ready(node))
    if dead:
        yield warning(
            f"{count(len(dead), 'node')} not ready by Kubernetes' own judgement, so nothing is measured there: "
            f"{named(dead)}.",
            f"kubectl describe node {dead[0]}",
            _PAGE,
            dead,
        )
    without = sorted(name(node) for node in alive if name(node) not in running)
    if without:
        yield error(
            f"{count(len(without), 'node')} without an agent: {named(without)}.",
            f"kubectl -n {site.namespace} describe daemonset {AGENT}",
            _PAGE,
            without,
        )
    stuck = sorted((name(node), running[name(node)]) for node in alive if name(node) in running)
    waiting = {node: pod for node, pod in stuck if not pod.ready}
    young = sorted(node for node, pod in waiting.items() if not pod.why and just_started([pod], site.now()))
    if young:
        yield info(f"{count(len(young), 'agent')} just starting: {named(young)}.", objects=young)
    for why in dict.fromkeys(pod.why for node, pod in waiting.items() if node not in young):
        nodes = [node for node, pod in waiting.items() if node not in young and pod.why == why]
        yield error(
            f"{count(len(nodes), 'agent')} not ready ({why or 'its readiness probe fails'}): {named(nodes)}.",
            _look(site.namespace, waiting[nodes[0]]),
            _PAGE,
            nodes,
        )


@dataclass(frozen=True, slots=True)
class _Agent:
    """An agent, and what it has reported."""

    node: str
    pod: Pod
    report: Report | None


def _reports(site: Site, agents: Sequence[_Agent], limit: float) -> Iterator[Finding]:
    """Agents that have not reported for too long.

    Args:
        site: the cluster.
        agents: those that have a pod.
        limit: a report this old withdraws Mid resources. [s]
    """
    now = site.now()
    first: list[_Agent] = []
    none: list[_Agent] = []
    never: list[_Agent] = []
    stale: list[tuple[_Agent, float]] = []
    late: list[tuple[_Agent, float]] = []
    for each in agents:
        age = None if each.report is None else each.report.age(now)
        fresh = each.pod.started_ago(now) < _FIRST_REPORT_SECONDS
        if each.report is None and not fresh:
            none.append(each)
        elif each.report is None:
            first.append(each)
        elif age is None:
            (first if fresh else never).append(each)
        elif age is not None and age > limit:
            stale.append((each, age))
        elif age is not None and age > _LATE_REPORTS * each.report.interval and not fresh:
            late.append((each, age))
    yield from _of_first(site.namespace, none, first)
    if never:
        nodes = [each.node for each in never]
        logs = _logs(site.namespace, never[0].pod)
        yield error(f"{count(len(nodes), 'agent')} never reported: {named(nodes)}.", logs, _PAGE, nodes)
    for tell, those, then in (
        (error, stale, "so old that nothing is published there"),
        (warning, late, "late, not yet too old"),
    ):
        if those:
            told = [f"{each.node} ({age:.0f} s ago)" for each, age in those]
            nodes = [each.node for each, _ in those]
            yield tell(
                f"Reports of {count(len(those), 'node')} are {then}: {named(told)}.",
                _logs(site.namespace, those[0][0].pod),
                _PAGE,
                nodes,
            )


def _of_first(namespace: str, none: Sequence[_Agent], first: Sequence[_Agent]) -> Iterator[Finding]:
    """Nodes at their beginning: no NodeMetric yet, or none that was written to."""
    if none:
        nodes = [each.node for each in none]
        yield error(
            f"{count(len(nodes), 'node')} without a NodeMetric, which the manager makes: {named(nodes)}.",
            f"kubectl -n {namespace} logs -l {PART}={MANAGER} --tail=-1 --prefix",
            _PAGE,
            nodes,
        )
    if first:
        nodes = [each.node for each in first]
        yield info(f"{count(len(nodes), 'node')} yet to report for the first time: {named(nodes)}.", objects=nodes)


def _look(namespace: str, pod: Pod) -> str:
    """The command that shows why a pod is not ready: its log where something of it has run, else what kubelet says."""
    has_run = any(each.restarts for each in pod.states)
    verb = f"logs {pod.name} --all-containers --prefix" if has_run else f"describe pod {pod.name}"
    return f"kubectl -n {namespace} {verb}"


def _logs(namespace: str, pod: Pod) -> str:
    return f"kubectl -n {namespace} logs {pod.name} -c agent"
