"""`kubectl headroom explain quota NAME`: reads, evaluates, prints.

For programs: kind QuotaAccount, version 1; fields are added, never renamed or removed. metadata and quota
{"namespace", "name"}, inForce, enforced, resources as `quota -o json` has them, charged
[{"pod", "priority", "node", "charged"}], waiting [{"pod", "priority", "requests", "why": null where quotas do not
refuse it}], conditions, findings as of `quota verify`, sentences, notes. Amounts are Kubernetes quantities.
"""

from typing import Any, Final

from headroom import kube
from kubectl_headroom import live, table
from kubectl_headroom import output as outputs
from kubectl_headroom.quota import show
from kubectl_headroom.quota.account import Account, account, sentences
from kubectl_headroom.quota.reading import Place, QuotaSnapshot, read
from kubectl_headroom.table import Cell, Column
from manager.api import age, amounts

KIND: Final = "QuotaAccount"
VERSION: Final = 1
_MOST_PODS: Final = 10
_CHARGED: Final = (Column("POD"), Column("PRIORITY", ">"), Column("NODE"), Column("CHARGED"))
_WAITING: Final = (Column("POD"), Column("PRIORITY", ">"), Column("REQUESTS"), Column("WHY"))
_CONDITIONS: Final = (Column("CONDITION"), Column("STATUS"), Column("REASON"), Column("SINCE", ">"), Column("MESSAGE"))


async def quota(
    api: kube.ApiServer,
    place: Place,
    namespace: str | None,
    name: str,
    output: str,
    clock: live.Clock | None = None,
) -> None:
    """Print the usage of a quota, waiting pods with reasons, and faults.

    Args:
        api: the cluster.
        place: where the profile is.
        namespace: of the quota; None: that of the login's context.
        name: of the quota.
        output: one of `kubectl_headroom.output.CHOICES`.
        clock: the present time; None: the API server's.

    Raises:
        CommandError: there is no such quota.
    """
    snapshot = await read(api, place, clock)
    result = account(snapshot, live.namespace_of(api, namespace), name)
    if not outputs.is_for_people(output):
        outputs.show(as_json(snapshot, result), output)
        return
    outputs.line(f"ElasticQuota {result.quota.key}: {'not in force' if result.older else 'in force'}")
    for sentence in sentences(result):
        outputs.line(f"- {sentence}")
    _tables(result, snapshot.now, wide=output == outputs.WIDE)
    outputs.notes(snapshot.notes)


def _tables(found: Account, now: float, *, wide: bool) -> None:
    if found.shares is not None:
        outputs.line()
        outputs.line("Resources")
        table.write(show.COLUMNS, show.rows([found.shares], []), wide=wide)
    most = None if wide else _MOST_PODS
    if found.charged:
        outputs.line()
        outputs.line(f"Pods it is charged for{_more(len(found.charged), most)}")
        rows = [
            [Cell(pod.name, "bold"), Cell(str(pod.priority)), Cell(pod.node), Cell(show.listed(pod.charge))]
            for pod in found.charged[:most]
        ]
        table.write(_CHARGED, rows)
    if found.waiting:
        outputs.line()
        outputs.line(f"Pods that wait, the first in line first{_more(len(found.waiting), most)}")
        rows = [
            [
                Cell(pod.pod.name, "bold"),
                Cell(str(pod.pod.priority)),
                Cell(show.listed(pod.pod.charge)),
                Cell(pod.why or "not because of quotas", "yellow" if pod.why else ""),
            ]
            for pod in found.waiting[:most]
        ]
        table.write(_WAITING, rows)
    if found.conditions:
        outputs.line()
        outputs.line("Conditions")
        rows = [
            [
                *(Cell(str(condition.get(part) or "")) for part in ("type", "status", "reason")),
                Cell(amounts.age(age(str(condition.get("lastTransitionTime")), now))),
                Cell(str(condition.get("message") or "")),
            ]
            for condition in found.conditions
        ]
        table.write(_CONDITIONS, rows)


def _more(number: int, most: int | None) -> str:
    return "" if most is None or number <= most else f" ({number - most} more with -o wide)"


def as_json(seen: QuotaSnapshot, found: Account) -> dict[str, Any]:
    """The account for programs."""
    shares = found.shares.shares if found.shares is not None else ()
    return {
        "kind": KIND,
        "version": VERSION,
        "metadata": {"namespace": found.quota.namespace, "name": found.quota.name},
        "profile": show.profile(seen),
        "quota": {"namespace": found.quota.namespace, "name": found.quota.name},
        "inForce": found.older is None,
        "resources": [show.share_as_json(share) for share in shares],
        "charged": [
            {"pod": pod.key, "priority": pod.priority, "node": pod.node, "charged": show.quantities(pod.charge)}
            for pod in found.charged
        ],
        "waiting": [
            {
                "pod": pod.pod.key,
                "priority": pod.pod.priority,
                "requests": show.quantities(pod.pod.charge),
                "why": pod.why or None,
            }
            for pod in found.waiting
        ],
        "conditions": [dict(condition) for condition in found.conditions],
        "findings": [
            {"level": finding.level.value, "check": finding.check, "quota": finding.quota, "text": finding.text}
            for finding in found.findings
        ],
        "sentences": list(sentences(found)),
        "notes": seen.notes,
    }
