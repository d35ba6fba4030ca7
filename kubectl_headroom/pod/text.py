"""Sentences of `explain pod`: the pod's node, or the reason for none, the most important first."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from crds.mid_amounts import implausible_amounts
from crds.priority import PriorityBand
from kubectl_headroom.pod.inputs import History, MidNodes, PodSnapshot, State
from kubectl_headroom.quota import explain_text as quota_text
from kubectl_headroom.top.pods import workload
from manager.api import Amount, age, amounts
from scheduler_plugins.api import CAPACITY_SCHEDULING, Decision

_MOST: Final = 3
_STARTING: Final = {"ContainerCreating", "PodInitializing"}
"""kubelet's normal reasons of a waiting container."""
_BANDS: Final = {
    PriorityBand.PROD: "Prod",
    PriorityBand.MID: "Mid",
    PriorityBand.BATCH: "Batch",
    PriorityBand.FREE: "Free",
}


def title(seen: PodSnapshot) -> str:
    """Return the pod and its state in a line."""
    where = f" on node {seen.node_name}" if seen.node_name else ""
    state = {
        State.WAITS: "waits for a node",
        State.GATED: "is held back by scheduling gates",
        State.STARTS: f"has a place{where}, and does not run yet",
        State.RUNS: f"runs{where}",
        State.TERMINATING: f"is being deleted{where}",
        State.ENDED: f"has ended{where}: {seen.status.get('phase')}",
    }[seen.state]
    since = _since(seen)
    return f"Pod {seen.key} {state}{f', since {since}' if since else ''}"


def _since(seen: PodSnapshot) -> str:
    waits = seen.state in {State.WAITS, State.GATED}
    moment = (seen.pod.get("metadata") or {}).get("creationTimestamp") if waits else seen.status.get("startTime")
    result = age(str(moment or ""), seen.now) if seen.state is not State.ENDED else None
    return "" if result is None else amounts.age(result)


def sentences(seen: PodSnapshot) -> Iterator[str]:
    """Why, the most important first."""
    if seen.state is State.ENDED:
        yield from _ended(seen)
    elif not seen.node_name:
        yield from _unbound(seen)
    elif seen.state is State.STARTS:
        yield from _held_up(seen)
    yield _description(seen)
    yield from (f"Probably wrong unit, {text}." for text in implausible_amounts(seen.pod))
    if seen.state is State.ENDED:
        return
    yield from _scheduler(seen)
    if seen.node_name:
        yield from _use(seen)
        yield from _node(seen)
    if seen.quota is not None:
        yield from quota_text.sentences(seen.quota)
    yield from seen.own_quotas
    yield from _plugins(seen)
    yield from _together(seen)
    yield from _next(seen)


def _ended(seen: PodSnapshot) -> Iterator[str]:
    target = seen.condition("DisruptionTarget")
    reason, message = seen.status.get("reason") or target.get("reason"), seen.status.get("message")
    if reason or message:
        yield f"{reason or 'It was ended'}: {message or target.get('message') or 'no message'}"


def _unbound(seen: PodSnapshot) -> Iterator[str]:
    gates = [str(gate.get("name")) for gate in seen.spec.get("schedulingGates") or ()]
    if gates:
        yield f"Scheduling gates block the pod: {_list(gates)} (spec.schedulingGates)."
        return
    texts = seen.condition("PodScheduled")
    if texts.get("status") == "False":
        yield f"kube-scheduler: {str(texts.get('message') or texts.get('reason')).rstrip('.')}."
    else:
        scheduler = seen.simulation.scheduler_name if seen.simulation else "its scheduler"
        yield f"Scheduler {scheduler} has not reported on it yet: check that it runs."
    if seen.is_mid and seen.mid_nodes is not None:
        yield _mid_nodes(seen.mid_nodes)


def _mid_nodes(mid_nodes: MidNodes) -> str:
    """Return the number of nodes with Mid resources; without any, the reason and the next command."""
    if mid_nodes.publishing:
        return (
            f"{mid_nodes.publishing} of {mid_nodes.nodes} nodes have Mid resources: `kubectl headroom top nodes` shows "
            "how much, and how much of that is taken."
        )
    none = f"No node of {mid_nodes.nodes} has Mid resources"
    reason = mid_nodes.commonest
    if not reason:
        return f"{none}, and none has the condition MidPublished: run `kubectl headroom doctor`."
    of = mid_nodes.reasons[reason]
    message = mid_nodes.messages[reason]
    because = f"{reason}: {message.rstrip('.')}" if message else reason
    return (
        f"{none}. The commonest reason ({len(of)} of {mid_nodes.nodes}) is {because}. `kubectl headroom explain node "
        f"{min(of)}` has details."
    )


def _held_up(seen: PodSnapshot) -> Iterator[str]:
    statuses = [*(seen.status.get("initContainerStatuses") or ()), *(seen.status.get("containerStatuses") or ())]
    for status in statuses:
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in _STARTING:
            message = f": {str(waiting['message']).rstrip('.')}" if waiting.get("message") else ""
            yield f"Container {status.get('name')} does not start, {waiting['reason']}{message}."


def _description(seen: PodSnapshot) -> str:
    made = workload(seen.pod)
    return f"It is a {_BANDS.get(seen.band, seen.band)} pod ({seen.band_reason}){f', made by {made}' if made else ''}."


def _other_scheduler(seen: PodSnapshot) -> str | None:
    """Return our scheduler's name, where the pod has another."""
    if seen.simulation is None or seen.chosen is None or seen.simulation.scheduler_name in seen.chosen.scheduler_names:
        return None
    return seen.chosen.scheduler_names[0]


def _scheduler(seen: PodSnapshot) -> Iterator[str]:
    if seen.simulation is None or seen.chosen is None:
        return
    scheduler, ours = seen.simulation.scheduler_name, seen.chosen.scheduler_names
    if scheduler not in ours:
        yield (
            f"Its scheduler {scheduler} ignores load and quotas; {', '.join(ours)} considers them: set "
            f"spec.schedulerName: {ours[0]} in its template."
        )


def _use(seen: PodSnapshot) -> Iterator[str]:
    used, requested = seen.used, seen.requested
    if used == Amount() and {"Nodes", "NodeMetrics"} & set(seen.denied):
        return
    if used == Amount():
        report = seen.node.report if seen.node is not None else None
        why = "its node has not reported" if report is None or report.pods is None else "the last report lacks it"
        yield f"Its usage is not known yet: {why}."
        return
    parts = [
        f"{amounts.cpu(used.cpu_milli)} of {amounts.cpu(requested.cpu_milli)} CPU",
        f"{amounts.memory(used.memory_bytes)} of {amounts.memory(requested.memory_bytes)} memory",
    ]
    if seen.node is not None and seen.node.report.age_seconds is not None:
        when = f" (reported {amounts.age(seen.node.report.age_seconds)} ago)"
    else:
        when = ""
    yield f"It uses {' and '.join(parts)} that it requests{when}."
    if seen.held_back:
        yield (
            "It exceeds memory.high or is in swap, so its memory usage is below its need. "
            "Its memory counts at its request or highest usage, and nothing of that is reclaimed."
        )
    elif seen.history is History.COLD:
        started = f"; it started {amounts.age(seen.age_seconds)} ago" if seen.age_seconds is not None else ""
        yield (
            f"It is cold: until it has been watched for {amounts.age(seen.cold_start_seconds)} "
            f"(coldStartPeriodSeconds), it counts at its request, and nothing of that is reclaimed{started}."
        )
    elif seen.history is History.WARM:
        yield "Its history is long enough: the part of its requests beyond its prediction may be published as Mid."


def _node(seen: PodSnapshot) -> Iterator[str]:
    node = seen.node
    if node is None:
        if "Nodes" not in seen.denied:
            yield f"Its node {seen.node_name} is gone."
        return
    if not seen.is_mid:
        return
    deficit = node.result.deficit
    if not deficit:
        yield f"Node {node.node} has what its Mid pods requested."
        return
    short = amounts.pair(deficit.cpu, deficit.memory)
    mode = node.eviction.mode if node.eviction is not None else "off"
    goes = {
        "on": "it is evicted if that lasts",
        "dry-run": "it would be evicted if that lasts and midEviction.mode were on",
    }.get(mode, "but midEviction.mode is off")
    fate = goes if seen.would_be_evicted else "others go before it"
    yield f"Node {node.node} has published {short} more than may be published now: {fate}."


def _plugins(seen: PodSnapshot) -> Iterator[str]:
    simulation = seen.simulation
    if simulation is None or not simulation.outcomes:
        return
    total = len(simulation.outcomes)
    passing = [outcome for outcome in simulation.outcomes if not outcome.refusals]
    texts = ""
    if len(passing) < total:
        reasons = Counter(
            f"{plugin}: {why}" for outcome in simulation.outcomes for plugin, why in outcome.refusals.items()
        ).most_common(_MOST)
        texts = f"; refused by {'; '.join(f'{why} ({count})' for why, count in reasons)}"
    ours = _other_scheduler(seen)
    if ours is None:
        yield f"The scheduler's plugins let it go to {len(passing)} of {total} nodes{texts}."
    else:
        yield f"If {ours} placed it, its plugins would let it go to {len(passing)} of {total} nodes{texts}."
    now = "If it were placed now" if ours is None else f"If {ours} placed it now"
    mine, best = seen.outcome, passing[0] if passing else None
    if mine is not None and mine.total is not None and best is not None and best.total is not None:
        better = f"; the best is {best.node} with {best.total:.1f}" if (mine.rank or 0) > 1 else ""
        yield f"{now}, its node would have rank {mine.rank} with {mine.total:.1f} of 100{better}."
    elif mine is not None and mine.refusals:
        why = next(iter(mine.refusals.values()))
        yield f"{now}, its node (with its own usage in the report) would be refused: {why}."


def _together(seen: PodSnapshot) -> Iterator[str]:
    """Yield the nodes that kube-scheduler's filters and the plugins leave together, where the two differ."""
    quota, simulation = seen.quota, seen.simulation
    if quota is None or simulation is None or seen.node_name or _other_scheduler(seen) is not None:
        return
    refusals = {outcome.node: dict(outcome.refusals) for outcome in simulation.outcomes}
    if isinstance(quota.decision, Decision):
        node = quota.decision.node
        further = [f"{name}: {why}" for name, why in refusals.get(node, {}).items() if name != CAPACITY_SCHEDULING]
        if further:
            yield f"The eviction alone does not place it: node {node} is also refused by {'; '.join(further)}."
    passing = {node for node, reasons in refusals.items() if not reasons}
    if not quota.fits and not passing:
        return
    both = sorted(passing.intersection(quota.fits))
    if both:
        named = ", ".join(both[:_MOST]) + (f" and {len(both) - _MOST} more" if len(both) > _MOST else "")
        yield f"Filters and plugins together let it go to {len(both)} of {len(refusals)} nodes: {named}."
        return
    reasons = Counter(
        quota.misfits.get(node) or "; ".join(_shortened(refused, quota.refusal))
        for node, refused in sorted(refusals.items())
    ).most_common(_MOST)
    why = "; ".join(f"{reason} ({count})" for reason, count in reasons)
    yield f"Filters and plugins together let it go to none of {len(refusals)} nodes: {why}."


def _shortened(refusals: Mapping[str, str], quota: str) -> Iterator[str]:
    """Yield the refusals of a node; that of its quota, which has a sentence of its own, in one word."""
    yield from ("its quota" if why == quota else f"{plugin}: {why}" for plugin, why in refusals.items())


def _next(seen: PodSnapshot) -> Iterator[str]:
    namespace, name = seen.key.split("/", 1)
    commands = [f"kubectl headroom simulate pod {name} -n {namespace}"]
    if seen.quota is not None and seen.quota.quota is not None:
        commands.append(f"kubectl headroom explain quota {seen.quota.quota.name} -n {namespace}")
    if seen.node_name:
        commands.append(f"kubectl headroom explain node {seen.node_name}")
    yield f"More: {'; '.join(commands)}."


def _list(names: list[str]) -> str:
    return " and ".join(names)


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
