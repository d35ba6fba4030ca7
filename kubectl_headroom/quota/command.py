"""`kubectl headroom quota` and `quota verify`: read, evaluate, print."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from headroom import kube
from kubectl_headroom import live, table, tenant
from kubectl_headroom import output as outputs
from kubectl_headroom.errors import FAILED
from kubectl_headroom.quota import own, show
from kubectl_headroom.quota.checks import Finding, Level, check
from kubectl_headroom.quota.reading import Place, QuotaSnapshot, read
from kubectl_headroom.quota.shares import all_shares
from kubectl_headroom.table import Cell, Column

PATIENCE_SECONDS: Final = 4.0  # time for the extender to update a quota's status after a change [s]
_VERIFIED: Final = (Column("LEVEL"), Column("CHECK"), Column("QUOTA"), Column("WHAT"))
Pause = Callable[[float], Awaitable[None]]


async def quotas(
    api: kube.ApiServer,
    place: Place,
    namespace: str | None,
    output: str,
    clock: live.Clock | None = None,
    *,
    headers: bool = True,
) -> None:
    """Print the usage of quotas.

    Args:
        api: the cluster.
        place: where the profile is.
        namespace: only the quota of this one; None: all.
        output: one of `kubectl_headroom.output.CHOICES`.
        clock: the present time; None: the API server's.
        headers: whether the table has its titles and its sums.
    """
    try:
        snapshot = await read(api, place, clock)
    except kube.ApiError as error:
        if error.status != tenant.FORBIDDEN:
            raise
        await _own_quotas(api, live.namespace_of(api, namespace), output, error, headers=headers)
        return
    result, total = all_shares(snapshot.cluster)
    shown = [share for share in result if namespace is None or share.quota.namespace == namespace]
    if not outputs.is_for_people(output):
        outputs.show(show.as_json(snapshot, shown, total), output, headers=headers)
    elif not shown:
        outputs.nothing(namespace)
    else:
        rows = show.rows(shown, total)
        rows = rows if headers and len(result) > 1 else rows[: len(rows) - len(total)]
        table.write(show.COLUMNS, rows, wide=output == outputs.WIDE, headers=headers)
        outputs.notes(snapshot.notes, headers=headers)


async def _own_quotas(
    api: kube.ApiServer, namespace: str, output: str, denied: kube.ApiError, *, headers: bool
) -> None:
    """Print the quotas of a namespace by their own status, for a login that may not read the whole cluster."""
    objects = await own.read(api, namespace)
    if not objects:
        raise denied
    note = f"{denied.message}. So this is the namespace's quota by its own status. {tenant.ROLE}"
    if outputs.is_for_people(output):
        table.write(own.COLUMNS, own.rows(objects), headers=headers)
        outputs.notes([note], headers=headers)
    else:
        outputs.show(own.as_json(objects, note), output, headers=headers)


async def verify(
    api: kube.ApiServer,
    place: Place,
    output: str,
    clock: live.Clock | None = None,
    pause: Pause = asyncio.sleep,
) -> int:
    """Print faults of quotas and of their status.

    Args:
        api: the cluster.
        place: where the profile is.
        output: one of `kubectl_headroom.output.CHOICES`.
        clock: the present time; None: the API server's.
        pause: waits a number of seconds.

    Returns:
        The exit code: 1 when something is wrong.
    """
    snapshot = await read(api, place, clock)
    findings = check(snapshot.cluster)
    if any(finding.check == "status" for finding in findings):
        # A pod may have been bound just now: only a status that is still wrong a moment later counts.
        await pause(PATIENCE_SECONDS)
        first = {_claimed(finding) for finding in findings}
        snapshot = await read(api, place, clock)
        again = check(snapshot.cluster)
        findings = [finding for finding in again if finding.check != "status" or _claimed(finding) in first]
    wrong = [finding for finding in findings if finding.level is Level.WRONG]
    if not outputs.is_for_people(output):
        outputs.show(_verified(snapshot, findings), output)
    else:
        if findings:
            table.write(_VERIFIED, [_row(finding) for finding in findings])
        count = len(snapshot.cluster.ledger.in_force)
        quotas = "1 quota" if count == 1 else f"{count} quotas"
        errors = "1 error" if len(wrong) == 1 else f"{len(wrong)} errors"
        outputs.line(f"{quotas}: {errors if wrong else 'no errors'}.")
        outputs.notes(snapshot.notes)
    return FAILED if wrong else 0


def _claimed(finding: Finding) -> tuple[str, str]:
    """Return a status' claim: the quota, and the sentence without the sum of the pods."""
    return finding.quota, finding.text.partition(", and ")[0]


def _row(finding: Finding) -> tuple[Cell, ...]:
    style = "red" if finding.level is Level.WRONG else "yellow"
    return Cell(finding.level, style), Cell(finding.check), Cell(finding.quota, "bold"), Cell(finding.text)


def _verified(seen: QuotaSnapshot, findings: Iterable[Finding]) -> dict[str, Any]:
    """The findings for programs: kind QuotaVerification, version 1; fields are added, never renamed or removed."""
    return {
        "kind": "QuotaVerification",
        "version": 1,
        "quotas": len(seen.cluster.ledger.in_force),
        "findings": [
            {"level": finding.level.value, "check": finding.check, "quota": finding.quota, "text": finding.text}
            for finding in findings
        ],
        "notes": seen.notes,
    }
