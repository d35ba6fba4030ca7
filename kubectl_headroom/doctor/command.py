"""`kubectl headroom doctor`: runs the checks one after another, and prints what each found."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from headroom import kube
from kubectl_headroom import output as forms
from kubectl_headroom import table
from kubectl_headroom.doctor.cluster import Cluster, Forbidden, UnknownKind
from kubectl_headroom.doctor.finding import Finding, Severity, error, info
from kubectl_headroom.doctor.installation import not_installed
from kubectl_headroom.doctor.permissions import NAMESPACES
from kubectl_headroom.doctor.registry import CHECKS, WORKLOADS, Check, Stage
from kubectl_headroom.errors import FAILED
from kubectl_headroom.table import Cell, Column, Row

Result = tuple[str, Finding]  # name of the check, and a finding

_COLUMNS: Final = (Column("SEVERITY"), Column("CHECK"), Column("FINDING"))
_STYLES: Final = {
    Severity.OK: "green",
    Severity.INFO: "cyan",
    Severity.WARNING: "yellow",
    Severity.ERROR: "bold red",
}


async def run(api: kube.ApiServer, *, namespace: str, config_name: str, preflight: bool, output: str) -> int:
    """Print the faults of the installation, or obstacles to one.

    Args:
        api: the cluster.
        namespace: Headroom's.
        config_name: name of the colocation ConfigMap.
        preflight: check what an install needs, before there is anything.
        output: one of `kubectl_headroom.output.CHOICES`; wide adds the pages with details.

    Returns:
        The exit code: 1 with errors, 0 with warnings or less.
    """
    cluster = Cluster(api, namespace, config_name, lambda: time.time() - api.ahead_seconds, preflight=preflight)
    results = [result async for result in examine(cluster)]
    if forms.is_for_people(output):
        table.write(_COLUMNS, [row for result in results for row in _rows(*result, wide=output == forms.WIDE)])
        forms.line(verdict(results))
    else:
        forms.show(as_json(results, preflight=preflight), output)
    return FAILED if any(found.severity is Severity.ERROR for _, found in results) else 0


async def examine(cluster: Cluster) -> AsyncIterator[Result]:
    """Yield the findings of all checks, in their order; a single one where nothing of ours is installed."""
    if not cluster.preflight:
        await cluster.read([NAMESPACES, *WORKLOADS])
        if (nothing := not_installed(cluster)) is not None:
            yield "install", nothing
            return
    for check in CHECKS:
        if (Stage.PREFLIGHT if cluster.preflight else Stage.INSTALLED) in check.stage:
            await cluster.read(check.reads)
            async for result in _guarded(check, cluster):
                has_docs = result.docs is None and result.severity in {Severity.WARNING, Severity.ERROR}
                yield check.name, replace(result, docs=check.docs if has_docs else result.docs or "")


async def _guarded(check: Check, cluster: Cluster) -> AsyncIterator[Finding]:
    """Yield the findings of a check; a missing right and a failing API server are findings, too."""
    try:
        findings = check.load()(cluster)
        if isinstance(findings, Iterator):
            for result in findings:
                yield result
        else:
            async for result in findings:
                yield result
    except Forbidden as forbidden:
        (permission,) = forbidden.args
        where = f" in namespace {cluster.namespace}" if permission.namespaced else ""
        message = f"Not checked: this login lacks the right to {permission}{where}."
        fix = "request that permission, or run this with another --context"
        yield info(message, fix, docs="kubectl.md#doctor", is_unreadable=True)
    except UnknownKind as unknown:
        yield info(f"Not checked: this cluster does not know {unknown.args[0].resource}.")
    except kube.ApiUnavailable as failure:
        if failure.status is None:
            raise
        yield error(f"Not checked: {failure}.", "kubectl get --raw /readyz?verbose", docs="")


def _rows(check: str, found: Finding, *, wide: bool) -> Iterator[Row]:
    yield Cell(found.severity, _STYLES[found.severity]), Cell(check), Cell(found.message)
    more = {"fix: ": found.fix}
    if wide:
        more |= {"docs: docs/": found.docs or "", "all: ": ", ".join(found.objects)}
    for title, text in more.items():
        if text:
            yield Cell(""), Cell(""), Cell(f"  {title}{text}")


def verdict(results: Sequence[Result]) -> str:
    """The sum of the findings in one line."""
    counts = Counter(result.severity for _, result in results)
    worst = [
        f"{counts[severity]} {severity}{'' if counts[severity] == 1 else 's'}"
        for severity in (Severity.ERROR, Severity.WARNING)
        if counts[severity]
    ]
    unreadable = sum(result.is_unreadable for _, result in results)
    rest = f"; {unreadable} of {len(results)} findings are only missing permissions" if unreadable else ""
    return f"{' and '.join(worst) or 'No errors and no warnings'}{rest}."


def as_json(results: Sequence[Result], *, preflight: bool) -> dict[str, Any]:
    """The findings for programs."""
    counts = Counter(result.severity for _, result in results)
    return {
        "kind": "Doctor",
        "version": 1,
        "preflight": preflight,
        "summary": {str(severity): counts[severity] for severity in Severity},
        "findings": [
            {
                "check": check,
                "severity": str(result.severity),
                "message": result.message,
                "fix": result.fix,
                "docs": result.docs or "",
                "objects": list(result.objects),
            }
            for check, result in results
        ],
    }
