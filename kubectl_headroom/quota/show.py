"""Shares as a table, or for programs. The shape of the latter is stable: fields are added, never renamed or removed.

kind                "QuotaReportList"
profile             {"origin", "enforced", "maxMissing"}: how the scheduler enforces quotas
items               kind "QuotaReport", per quota in force, by namespace:
 metadata           {"namespace", "name"}, and the same as fields:
 namespace, name
 pendingPods        how many pods of the namespace are not bound
 resources          [{"resource", "min", "used", "max", "borrowed", "lent", "pending", "left"}]; amounts are
                    Kubernetes quantities ("500m", "3Gi", "2"); max and left are null where nothing limits, min where
                    no quota guarantees any of the resource
total               the same list over all quotas that are in force, for any requested namespace; its min is the
                    most that all of them may use together
notes               sentences
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from crds.names import BATCH_CPU, MID_CPU
from kubectl_headroom import output as outputs
from kubectl_headroom.quota.reading import QuotaSnapshot
from kubectl_headroom.quota.shares import QuotaShares, Share
from kubectl_headroom.table import Cell, Column, Row
from manager.api import amounts
from scheduler_plugins.api import in_bytes, quantity

KIND: Final = "QuotaReport"
ALL: Final = "(all)"  # in rows about all quotas together

COLUMNS: Final = (
    Column("NAMESPACE"),
    Column("NAME"),
    Column("RESOURCE"),
    Column("MIN", ">"),
    Column("USED", ">"),
    Column("MAX", ">"),
    Column("BORROWED", ">"),
    Column("LENT", ">"),
    Column("PENDING", ">"),
    Column("MAY STILL TAKE", ">", wide=True),
    Column("PODS WAITING", ">", wide=True),
)
_LONGEST_EXACT: Final = 7
_IN_MILLI_CORES: Final = frozenset({MID_CPU, BATCH_CPU})  # integers on the wire


def rows(quotas: Iterable[QuotaShares], total: Sequence[Share]) -> list[Row]:
    """A row per quota and resource, then one per resource of all quotas together where there are several."""
    listed = list(quotas)
    result = [
        _row(item.quota.namespace, item.quota.name, share, item.pending_pods)
        for item in listed
        for share in item.shares
    ]
    waiting = sum(item.pending_pods for item in listed)
    return [*result, *(_row(ALL, ALL, share, waiting) for share in total)]


def _row(namespace: str, name: str, share: Share, waiting: int) -> Row:
    over = share.max is not None and share.used > share.max
    return (
        Cell(namespace),
        Cell(name, "bold"),
        Cell(share.resource),
        Cell(amounts.NOTHING if share.min is None else text(share.resource, share.min)),
        Cell(text(share.resource, share.used), "red" if over else ""),
        Cell(amounts.NOTHING if share.max is None else text(share.resource, share.max)),
        Cell(text(share.resource, share.borrowed), "yellow" if share.borrowed else ""),
        Cell(text(share.resource, share.lent), "yellow" if share.lent else ""),
        Cell(text(share.resource, share.pending), "yellow" if share.pending else ""),
        Cell(amounts.NOTHING if share.left is None else text(share.resource, share.left)),
        Cell(str(waiting)),
    )


def text(resource: str, amount: int) -> str:
    """An amount as people read it: exact where that is short, else rounded as memory is elsewhere."""
    if resource in _IN_MILLI_CORES:
        return amounts.cpu(amount)
    exact = quantity(resource, amount)
    return amounts.memory(amount) if in_bytes(resource) and len(exact) > _LONGEST_EXACT else exact


def listed(charge: Mapping[str, int]) -> str:
    """A pod's charge as people read it: "cpu 2, memory 1Gi". That it is one pod is left out."""
    return ", ".join(f"{name} {text(name, amount)}" for name, amount in _requested(charge)) or amounts.NOTHING


def quantities(charge: Mapping[str, int]) -> dict[str, str]:
    """The same for programs."""
    return {name: quantity(name, amount) for name, amount in _requested(charge)}


def _requested(charge: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    return ((name, amount) for name, amount in charge.items() if name != "pods")


def as_json(seen: QuotaSnapshot, quotas: Iterable[QuotaShares], total: Sequence[Share]) -> dict[str, Any]:
    """The report for programs."""
    items = [
        {
            "metadata": {"namespace": quota.quota.namespace, "name": quota.quota.name},
            "namespace": quota.quota.namespace,
            "name": quota.quota.name,
            "pendingPods": quota.pending_pods,
            "resources": [share_as_json(share) for share in quota.shares],
        }
        for quota in quotas
    ]
    sums = [share_as_json(share) for share in total]
    return outputs.listed(KIND, items, profile=profile(seen), total=sums, notes=seen.notes)


def profile(seen: QuotaSnapshot) -> dict[str, Any]:
    return {"origin": seen.origin, "enforced": seen.enforced, "maxMissing": seen.plugin.max_missing.value}


def share_as_json(share: Share) -> dict[str, Any]:
    """A resource of a quota for programs."""
    names = ("min", "used", "max", "borrowed", "lent", "pending", "left")
    numbers = {name: getattr(share, name) for name in names}
    texts = {name: None if amount is None else quantity(share.resource, amount) for name, amount in numbers.items()}
    return {"resource": share.resource, **texts}
