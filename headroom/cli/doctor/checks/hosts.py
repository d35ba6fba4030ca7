"""The machines as their agents find them: cgroups, memory controller, and what else keeps an agent from measuring."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

from crds.names import CONDITION_PREDICTION_READY
from headroom import kube
from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, count, info, named, ok, warning
from headroom.cli.doctor.installed import pods
from headroom.cli.doctor.node_metric import Report, agents_conditions, report
from headroom.cli.doctor.objects import AGENT, Pod
from headroom.cli.doctor.rights import NODE_METRICS

_PAGE: Final = "troubleshooting.md"
_MOST_ASKED: Final = 100
_AT_ONCE: Final = 10
_SILENCE_SECONDS: Final = 5.0
_DETECTED: Final = re.compile(r"^headroom_agent_detected\{([^}]*)\} ", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_LEARNING: Final = frozenset({"CollectingHistory", "NoProdPods", "NoMeasurements"})


async def check(site: Site) -> AsyncIterator[Finding]:
    """What the agents report of their machines, and, where this login may ask them, what they found there."""
    reports: Sequence[Report] = await site.every(NODE_METRICS, report)
    told = list(_conditions([each for each in reports if each.updated is not None]))
    for found in told:
        yield found
    agents = [pod for pod in await pods(site, AGENT) if pod.ready and "metrics" in pod.ports][:_MOST_ASKED]
    ask = {"verb": "get", "group": "", "resource": "pods", "subresource": "proxy", "namespace": site.namespace}
    (allowed,) = await site.i_may([ask]) if agents else (False,)
    if allowed:
        for found in _detected(await _asked(site, agents)):
            yield found
    elif not told and any(each.conditions for each in reports):
        yield ok("No agent reports a machine that it cannot measure; cgroup versions are in its metrics and log.")
    elif not any(each.conditions for each in reports):
        yield info("No agent has reported yet, so nothing is known of the machines.")


def _conditions(reports: Sequence[Report]) -> Iterator[Finding]:
    """Conditions of the agents that do not hold, one finding for each reason."""
    by_reason: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for each in reports:
        for condition in agents_conditions(each):
            if condition.status == "False":
                by_reason.setdefault((condition.type, condition.reason or ""), []).append(
                    (each.node, condition.message or "")
                )
    for (kind, reason), nodes in sorted(by_reason.items()):
        names = sorted(node for node, _ in nodes)
        text = f"{kind} is False on {count(len(names), 'node')} ({reason}): {named(names)}. {nodes[0][1]}"
        if kind == CONDITION_PREDICTION_READY and reason in _LEARNING:
            yield info(text, f"kubectl headroom explain node {names[0]}", "concepts.md", names)
        else:
            yield warning(text, f"kubectl headroom explain node {names[0]}", _PAGE, names)


async def _asked(site: Site, agents: Sequence[Pod]) -> Mapping[str, Mapping[str, str] | None]:
    """What each agent's metrics say that it found; None where it did not answer."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def ask(pod: Pod) -> Mapping[str, str] | None:
        where = f"{kube.paths.pod(site.namespace, pod.name)}:{pod.ports['metrics']}/proxy/metrics"
        try:
            async with slots, site.api.stream(where, {}, _SILENCE_SECONDS) as chunks:
                text = b"".join([chunk async for chunk in chunks]).decode(errors="replace")
        except (kube.ApiError, kube.ApiUnavailable):
            return None
        return detected(text)

    answers = await asyncio.gather(*(ask(pod) for pod in agents))
    return {pod.node: answer for pod, answer in zip(agents, answers, strict=True)}


def detected(text: str) -> Mapping[str, str] | None:
    """What an agent found on its machine, by its metrics; None where they do not say.

    Args:
        text: /metrics of the agent.
    """
    found = _DETECTED.search(text)
    return dict(_LABEL.findall(found[1])) if found else None


def _detected(answers: Mapping[str, Mapping[str, str] | None]) -> Iterator[Finding]:
    silent = sorted(node for node, facts in answers.items() if facts is None)
    if silent:
        yield info(
            f"{count(len(silent), 'agent')} could not be asked through the API server, which need not reach their "
            f"pods: {named(silent)}.",
            objects=silent,
        )
    known = {node: facts for node, facts in answers.items() if facts is not None}
    blind = sorted(node for node, facts in known.items() if facts.get("memory") == "none")
    if blind:
        yield warning(
            f"The kernel of {count(len(blind), 'node')} has no memory controller, so the memory of pods is not "
            f"measured: {named(blind)}.",
            "boot these nodes with cgroup_enable=memory",
            _PAGE,
            blind,
        )
    lost = sorted(node for node, facts in known.items() if not facts.get("pods_in"))
    if lost:
        yield warning(
            f"The agents of {count(len(lost), 'node')} find no cgroups of pods: {named(lost)}.",
            "mount the cgroup tree where kubelet keeps its pods into the agent, see its log",
            _PAGE,
            lost,
        )
    kinds = Counter(f"cgroup {facts.get('cgroup')}, {facts.get('driver')} driver" for facts in known.values())
    if kinds:
        yield ok(f"Machines: {'; '.join(f'{number} with {kind}' for kind, number in sorted(kinds.items()))}.")
