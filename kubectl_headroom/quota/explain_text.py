"""An explanation as text: the answer and why, then the numbers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from kubectl_headroom.quota.explanation import Claimant, Explanation, Line
from kubectl_headroom.quota.show import listed, text
from kubectl_headroom.table import Cell, Column, Row
from manager.api import amounts
from scheduler_plugins.api import Decision, QuotaPod

Table = tuple[str, Sequence[Column], Sequence[Row]]  # heading, columns, rows

_MOST_NODES: Final = 3
_NOBODY: Final = "-"


def sentences(explanation: Explanation) -> Iterator[str]:
    """Why, the most important first."""
    if explanation.pod.node:
        yield from _of_bound(explanation)
        return
    if explanation.refusal:
        yield f"{explanation.refusal}."
    elif explanation.quota is None:
        yield "Its namespace has no ElasticQuota: nothing limits it, and nothing is guaranteed to it."
    else:
        yield "The max of its quota and the sum of all min admit it."
    yield from _of_nodes(explanation)
    yield from _of_reclaim(explanation)


def _of_bound(explanation: Explanation) -> Iterator[str]:
    pod, quota = explanation.pod, explanation.quota
    if quota is None:
        yield "Its namespace has no ElasticQuota: no quota is charged for it, and quotas never evict it."
        return
    charge = listed(pod.charge) if len(pod.charge) > 1 else "nothing"
    yield f"Its quota is charged {charge} for it."
    if explanation.over_min:
        over = ", ".join(
            f"{text(line.resource, line.used)} of min {text(line.resource, quota.min.get(line.resource, 0))} "
            f"({line.resource})"
            for line in explanation.lines
            if line.all_min is not None and line.used > quota.min.get(line.resource, 0)
        )
        yield (
            f"Its namespace uses more than is guaranteed to it, {over}: it may be evicted for a namespace that stays "
            "within its own min, whatever their priorities."
        )
    else:
        yield "Its namespace uses at most its min: no other namespace can preempt it."


def _of_nodes(explanation: Explanation) -> Iterator[str]:
    total = len(explanation.fits) + len(explanation.misfits)
    names = ", ".join(explanation.fits[:_MOST_NODES])
    more = f" and {len(explanation.fits) - _MOST_NODES} more" if len(explanation.fits) > _MOST_NODES else ""
    if explanation.fits:
        count = len(explanation.fits)
        yield f"By the model of kube-scheduler's filters it fits {count} of {total} nodes: {names}{more}."
    else:
        reasons = Counter(explanation.misfits.values())
        texts = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common(_MOST_NODES))
        yield f"By the model of kube-scheduler's filters it fits none of {total} nodes{f': {texts}' if texts else ''}."
    if explanation.unmodelled:
        yield f"The model cannot evaluate {', '.join(explanation.unmodelled)} of it: kube-scheduler alone knows."


def _of_reclaim(explanation: Explanation) -> Iterator[str]:
    decision = explanation.decision
    if isinstance(decision, Decision):
        pods = "1 pod" if len(decision.victims) == 1 else f"{len(decision.victims)} pods"
        yield f"The rules would have {pods} evicted for it to go to node {decision.node}: {decision.arithmetic}."
        if explanation.obstacles:
            yield f"But no pod is evicted now: {'; '.join(explanation.obstacles)}."
    elif decision is not None:
        yield f"No victims, by the same model: {decision.reason.rstrip('.')}."


def tables(explanation: Explanation) -> Iterator[Table]:
    """The numbers."""
    if explanation.lines:
        yield "Admission", _ADMISSION, [_admission(line) for line in explanation.lines]
    if explanation.claimants:
        yield "Reservations of other pods", _CLAIMS, [_claim(claimant) for claimant in explanation.claimants]
    if isinstance(explanation.decision, Decision):
        yield "Who would be evicted", _VICTIMS, [_victim(victim) for victim in explanation.decision.victims]


_ADMISSION: Final = (
    Column("RESOURCE"),
    Column("REQUESTED", ">"),
    Column("USED", ">"),
    Column("CLAIMED", ">"),
    Column("MAX", ">"),
    Column("ALL USED", ">"),
    Column("ALL CLAIMED", ">"),
    Column("SUM OF MIN", ">"),
    Column("EXCEEDED"),
)
_CLAIMS: Final = (Column("POD"), Column("PRIORITY", ">"), Column("NODE"), Column("REQUESTS"), Column("HELD UNTIL"))
_VICTIMS: Final = (Column("POD"), Column("PRIORITY", ">"), Column("NODE"), Column("CHARGED"), Column("STARTED"))


def _admission(line: Line) -> Row:
    name = line.resource
    most = amounts.NOTHING if line.max is None else text(name, line.max)
    before = [text(name, amount) for amount in (line.requested, line.used, line.claimed)]
    after = [text(name, amount) for amount in (line.all_used, line.all_claimed)]
    after.append(amounts.NOTHING if line.all_min is None else text(name, line.all_min))
    return (
        Cell(name),
        *map(Cell, (*before, most, *after)),
        Cell(line.over or amounts.NOTHING, "red" if line.over else ""),
    )


def _claim(each: Claimant) -> Row:
    until = _NOBODY if each.held_until is None else _time(each.held_until)
    return (
        Cell(each.pod, "bold"),
        Cell(str(each.nomination.priority)),
        Cell(each.nomination.node),
        Cell(listed(each.nomination.charge)),
        Cell(until),
    )


def _victim(pod: QuotaPod) -> Row:
    started = _NOBODY if pod.started is None else _time(pod.started)
    return (
        Cell(pod.key, "bold"),
        Cell(str(pod.priority)),
        Cell(pod.node),
        Cell(listed(pod.charge)),
        Cell(started),
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
