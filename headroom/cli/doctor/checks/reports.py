"""What the agents' reports say of the nodes' clocks and machines."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

from crds.names import CONDITION_PREDICTION_READY
from headroom import kube
from headroom.cli.doctor.cluster import Cluster
from headroom.cli.doctor.finding import Finding, Severity, about, count, info, named, ok
from headroom.cli.doctor.installation import degrade_seconds
from headroom.cli.doctor.node_metric import NodeMetricSummary
from headroom.cli.doctor.objects import AGENT, Pod
from headroom.cli.doctor.permissions import NODE_METRICS

_TOLERATED_SECONDS: Final = 30.0
_MOST_AGENTS: Final = 100
_CONCURRENT_AGENTS: Final = 10
_SILENCE_SECONDS: Final = 5.0
_DETECTED: Final = re.compile(r"^headroom_agent_detected\{([^}]*)\} ", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_LEARNING: Final = frozenset({"CollectingHistory", "NoProdPods", "NoMeasurements"})


def clocks(cluster: Cluster) -> Iterator[Finding]:
    """Nodes whose clocks are wrong: each report has the node's time, and the API server notes when it takes it."""
    reports = [each for each in cluster.list(NODE_METRICS) if each.updated is not None]
    known = {each.node: each.ahead for each in sorted(reports, key=lambda one: one.node) if each.ahead is not None}
    limit = degrade_seconds(cluster)
    behind = {node: -ahead for node, ahead in known.items() if -ahead > _TOLERATED_SECONDS}
    fast = {node: ahead for node, ahead in known.items() if ahead > _TOLERATED_SECONDS}
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
    if not known:
        yield info("No node has reported yet, so nothing is known of their clocks.")
    elif not behind and not fast:
        yield ok(f"The clocks of {count(len(known), 'node')} agree with the API server's within 30 s.")


async def hosts(cluster: Cluster) -> AsyncIterator[Finding]:
    """What the agents report of their machines, and, where this login may read it, what their metrics say."""
    reports: Sequence[NodeMetricSummary] = cluster.list(NODE_METRICS)
    problems = list(_conditions([each for each in reports if each.updated is not None]))
    for found in problems:
        yield found
    agents = [pod for pod in cluster.pods(AGENT) if pod.ready and "metrics" in pod.ports][:_MOST_AGENTS]
    proxy = {"verb": "get", "group": "", "resource": "pods", "subresource": "proxy", "namespace": cluster.namespace}
    if agents and all(await cluster.i_may([proxy])):
        for found in _machines(await _metrics(cluster, agents)):
            yield found
    elif not any(each.conditions for each in reports):
        yield info("No agent has reported yet, so nothing is known of the machines.")
    elif not problems:
        yield ok("No agent reports a machine that it cannot measure; cgroup versions are in its metrics and log.")


def _conditions(reports: Sequence[NodeMetricSummary]) -> Iterator[Finding]:
    """Conditions of the agents that do not hold, one finding for each reason."""
    by_reason: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for each in reports:
        for condition in each.agents_conditions:
            if condition.status == "False":
                nodes = by_reason.setdefault((condition.type, condition.reason or ""), [])
                nodes.append((each.node, condition.message or ""))
    for (kind, reason), nodes in sorted(by_reason.items()):
        names = sorted(node for node, _ in nodes)
        learning = kind == CONDITION_PREDICTION_READY and reason in _LEARNING
        yield Finding(
            Severity.INFO if learning else Severity.WARNING,
            f"{kind} is False on {count(len(names), 'node')} ({reason}): {named(names)}. {nodes[0][1]}",
            f"kubectl headroom explain node {names[0]}",
            names,
            "concepts.md" if learning else None,
        )


async def _metrics(cluster: Cluster, agents: Sequence[Pod]) -> Mapping[str, Mapping[str, str] | None]:
    """What each agent's metrics say that it detected; None where it did not answer."""
    slots = asyncio.Semaphore(_CONCURRENT_AGENTS)

    async def get(pod: Pod) -> Mapping[str, str] | None:
        where = f"{kube.paths.pod(cluster.namespace, pod.name)}:{pod.ports['metrics']}/proxy/metrics"
        try:
            async with slots, cluster.api.stream(where, {}, _SILENCE_SECONDS) as chunks:
                return detected(b"".join([chunk async for chunk in chunks]).decode(errors="replace"))
        except (kube.ApiError, kube.ApiUnavailable):
            return None

    answers = await asyncio.gather(*(get(pod) for pod in agents))
    return {pod.node: answer for pod, answer in zip(agents, answers, strict=True)}


def detected(metrics: str) -> Mapping[str, str] | None:
    """What an agent detected on its machine, by its /metrics; None where they do not say."""
    found = _DETECTED.search(metrics)
    return dict(_LABEL.findall(found[1])) if found else None


def _machines(answers: Mapping[str, Mapping[str, str] | None]) -> Iterator[Finding]:
    yield from about(
        Severity.INFO,
        sorted(node for node, labels in answers.items() if labels is None),
        "{count} could not be asked through the API server, which need not reach their pods: {names}.",
        noun="agent",
    )
    known = {node: labels for node, labels in sorted(answers.items()) if labels is not None}
    yield from about(
        Severity.WARNING,
        [node for node, labels in known.items() if labels.get("memory") == "none"],
        "The kernel of {count} has no memory controller, so the memory of pods is not measured: {names}.",
        "boot these nodes with cgroup_enable=memory",
    )
    yield from about(
        Severity.WARNING,
        [node for node, labels in known.items() if not labels.get("pods_in")],
        "The agents of {count} find no cgroups of pods: {names}.",
        "mount the cgroup tree where kubelet keeps its pods into the agent, see its log",
    )
    kinds = Counter(f"cgroup {labels.get('cgroup')}, {labels.get('driver')} driver" for labels in known.values())
    if kinds:
        yield ok(f"Machines: {'; '.join(f'{number} with {kind}' for kind, number in sorted(kinds.items()))}.")
