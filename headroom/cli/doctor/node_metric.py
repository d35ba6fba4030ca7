"""What doctor keeps of a NodeMetric: when it was reported, by whose clock, and what its conditions say. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from crds.meta import Condition
from crds.names import MANAGER_CONDITIONS

_DEFAULT_INTERVAL_SECONDS: Final = 60.0

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """One node's."""

    node: str  # its name
    updated: float | None  # when the agent made its last full report, by the node's clock; None: never [unix s]
    predicted: float | None  # when the agent last reported its prediction, by the node's clock [unix s]
    written: float | None  # when the API server last took something of the agent's, by the server's clock [unix s]
    interval: float  # how often a report is asked for [s]
    conditions: Mapping[str, Condition]  # its conditions by name
    writers: tuple[str, ...]  # who writes the report, as the API server calls them

    @property
    def ahead(self) -> float | None:
        """How far the node's clock is ahead of the API server's, within a second or two; None: not known. [s]

        Both looked at the same moment: the agent when it made the report, the API server when it took it.
        """
        last = max((each for each in (self.updated, self.predicted) if each is not None), default=None)
        return None if last is None or self.written is None else last - self.written

    def age(self, now: float) -> float | None:
        """Time since the last full report reached the API server; None: there was none. [s]

        By the API server's clock where it says so, because the node's may be wrong.
        """
        if self.updated is None:
            return None
        wrong = self.ahead or 0.0
        return now - (self.updated - wrong)


def report(obj: dict[str, Any]) -> Report:
    """What is kept of a NodeMetric."""
    status = obj.get("status") or {}
    policy = (obj.get("spec") or {}).get("metricCollectPolicy") or {}
    entries = [each for each in obj["metadata"].get("managedFields") or () if _reports(each)]
    written = [when for each in entries if (when := _seconds(each.get("time"))) is not None]
    return Report(
        node=str(obj["metadata"]["name"]),
        updated=_seconds(status.get("updateTime")),
        predicted=_seconds((status.get("prediction") or {}).get("time")),
        written=max(written, default=None),
        interval=float(policy.get("reportIntervalSeconds") or _DEFAULT_INTERVAL_SECONDS),
        conditions={
            str(each.get("type")): Condition(
                type=str(each.get("type")),
                status=str(each.get("status")),
                reason=str(each.get("reason") or ""),
                message=str(each.get("message") or ""),
            )
            for each in status.get("conditions") or ()
        },
        writers=tuple(sorted({str(each.get("manager")) for each in entries})),
    )


def agents_conditions(found: Report) -> list[Condition]:
    """The conditions of the agent's: those of the manager are left out."""
    return [each for name, each in found.conditions.items() if name not in MANAGER_CONDITIONS]


def _reports(entry: Json) -> bool:
    """Whether an entry of `managedFields` is that of whoever writes the report."""
    fields = (entry.get("fieldsV1") or {}).get("f:status") or {}
    return "f:updateTime" in fields


def _seconds(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
