"""The accounts of nodes in shadow mode as rows: what each would have published, and how often that was too much."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crds import shadow_accounts
from crds.node_metric import ShadowAccount
from kubectl_headroom.table import Cell, Column, Row
from manager.api import Amount, age, amounts

COLUMNS: Final = (
    Column("NODE"),
    Column("SINCE", ">"),
    Column("OBSERVED", ">"),
    Column("WOULD PUBLISH", ">"),
    Column("MEAN", ">"),
    Column("TOO MUCH CPU", ">"),
    Column("MEMORY", ">"),
    Column("WORST BY", ">"),
    Column("WRITTEN", ">", wide=True),
    Column("BEGAN", wide=True),
)
_SMALLEST_SHOWN: Final = 0.1


@dataclass(frozen=True, slots=True)
class Account:
    """A node's account, or that of several."""

    name: str  # name of the node
    since: str  # when it began, RFC 3339
    age_seconds: float | None  # how long ago that is [s]
    written_seconds: float | None  # how long ago it was written [s]
    observed: int  # for how long reports could evaluate [s]
    offered: Amount  # the amounts to publish now; None where the Node would not have the resources
    mean: Amount  # mean of what would have been published in the observed time
    too_much: Amount  # for how much of that time it was too much: seconds, in place of amounts [s]
    worst: Amount  # by how much at worst


def accounts(config_maps: Iterable[Any], nodes: Mapping[str, str], now: float) -> list[Account]:
    """Return the accounts, by name of the node; malformed ones are omitted.

    Args:
        config_maps: the ConfigMaps that hold accounts as JSON; `None` for one that is not there.
        nodes: name -> uid of the nodes that are meant: an account of another machine of that name is left out.
        now: the time to measure ages from. [unix s]
    """
    pairs = [result for document in config_maps for result in shadow_accounts.read(document).items()]
    result = [of(name, item.account, now) for name, item in pairs if item and nodes.get(name) == item.node_uid]
    return sorted(result, key=lambda account: account.name)


def of(name: str, stored: ShadowAccount, now: float) -> Account:
    """A node's account.

    Args:
        name: name of the node.
        stored: the stored account.
        now: the time to measure ages from. [unix s]
    """
    too_much = stored.too_much_seconds or {}
    return Account(
        name=name,
        since=stored.since or "",
        age_seconds=age(stored.since or "", now),
        written_seconds=age(stored.time or "", now),
        observed=stored.observed_seconds or 0,
        offered=Amount.of(stored.offered),
        mean=Amount.of(stored.mean),
        too_much=Amount(too_much.get("cpu", 0), too_much.get("memory", 0)),
        worst=Amount.of(stored.worst_excess),
    )


def total(found: Sequence[Account]) -> Account:
    """All together: sums of amounts and times, the earliest beginning, the worst of any node."""
    first = min(found, key=lambda each: each.since)
    return Account(
        name=f"all {len(found)}",
        since=first.since,
        age_seconds=first.age_seconds,
        written_seconds=max((account.written_seconds or 0.0 for account in found), default=None),
        observed=sum(account.observed for account in found),
        offered=_sum(account.offered for account in found),
        mean=_sum(account.mean for account in found),
        too_much=_sum(account.too_much for account in found),
        worst=Amount(
            max(account.worst.cpu_milli or 0 for account in found),
            max(account.worst.memory_bytes or 0 for account in found),
        ),
    )


def _sum(found: Iterable[Amount]) -> Amount:
    pairs = [(account.cpu_milli or 0, account.memory_bytes or 0) for account in found]
    return Amount(sum(cpu for cpu, _ in pairs), sum(memory for _, memory in pairs))


def share(part: int | None, whole: int) -> str:
    """A share of time in percent, one decimal; never a zero where there was something."""
    if not whole or part is None:
        return amounts.NOTHING
    percent = 100 * part / whole
    if 0 < percent < _SMALLEST_SHOWN:
        return f"<{_SMALLEST_SHOWN}%"
    return f"{percent:.1f}%" if percent else "0%"


def cells(account: Account) -> Row:
    """A row of the table."""
    too_much = (account.too_much.cpu_milli, account.too_much.memory_bytes)
    never = not any(too_much)
    return (
        Cell(account.name, "bold"),
        Cell(amounts.age(account.age_seconds)),
        Cell(amounts.age(account.observed)),
        _pair(account.offered),
        _pair(account.mean),
        *(Cell(share(part, account.observed), "yellow" if part else "") for part in too_much),
        Cell(amounts.NOTHING) if never else _pair(account.worst),
        Cell(amounts.age(account.written_seconds)),
        Cell(account.since),
    )


def _pair(amount: Amount) -> Cell:
    return Cell(amounts.pair(amount.cpu_milli, amount.memory_bytes))


def as_json(account: Account) -> dict[str, Any]:
    """Return the account for programs; names contain the units, null is unknown."""
    too_much = {"cpu": account.too_much.cpu_milli, "memory": account.too_much.memory_bytes}
    return {
        "node": account.name,
        "since": account.since,
        "writtenAgeSeconds": account.written_seconds,
        "observedSeconds": account.observed,
        "offered": account.offered.as_json(),
        "mean": account.mean.as_json(),
        "tooMuchSeconds": too_much,
        "tooMuchPercent": _percents(too_much, account.observed),
        "worstExcess": account.worst.as_json(),
    }


def _percents(seconds: Mapping[str, int | None], whole: int) -> dict[str, float | None]:
    return {name: round(100 * (part or 0) / whole, 3) if whole else None for name, part in seconds.items()}
