"""The smallest patch that brings an ElasticQuota's status up to date. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from crds.quantity import QuantityError, parse_quantity
from scheduler_plugins.quota.status.findings import OURS, Finding

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Update:
    """A patch, and the Events about it."""

    body: dict[str, Any]  # a merge patch of the status; it fits this very version of the object and no other
    news: Sequence[Finding]  # new findings with a warning
    words_alone: bool  # whether nothing but messages of conditions would change


def update(quota: Json, used: Mapping[str, str] | None, found: Sequence[Finding], now: float) -> Update | None:
    """Return the patch of a quota; None: it needs none."""
    metadata, status = quota.get("metadata") or {}, quota.get("status") or {}
    body: dict[str, Any] = {}
    usage = _usage(status.get("used"), used)
    if usage is not None:
        body["used"] = usage or None
    stored = list(status.get("conditions") or ())
    generation = metadata.get("generation")
    former = {condition.get("type"): condition for condition in stored if condition.get("type") in OURS}
    made = {finding.type: _condition(finding, former.get(finding.type), generation, now) for finding in found}
    dropped = former.keys() - made.keys()
    if dropped or any(former.get(kind) != condition for kind, condition in made.items()):
        conditions = [
            made.pop(str(condition.get("type")), condition)
            for condition in stored
            if condition.get("type") not in dropped
        ]
        body["conditions"] = [*conditions, *made.values()]
    if not body:
        return None
    news = [finding for finding in found if finding.warns and _differs(finding, former.get(finding.type))]
    identity = {name: metadata[name] for name in ("uid", "resourceVersion") if name in metadata}
    words = (
        "used" not in body
        and not dropped
        and not any(
            _differs(finding, former.get(finding.type)) or former[finding.type].get("observedGeneration") != generation
            for finding in found
        )
    )
    return Update({"metadata": identity, "status": body}, news, words)


def _usage(stored: Mapping[str, Any] | None, used: Mapping[str, str] | None) -> dict[str, str | None] | None:
    """The change of `status.used` as a merge patch; None: there is none."""
    stored = stored or {}
    if used is None:
        return {} if stored else None
    changed: dict[str, str | None] = {name: text for name, text in used.items() if not _same(stored.get(name), text)}
    changed |= dict.fromkeys(stored.keys() - used.keys())
    return changed or None


def _same(stored: Any, text: str) -> bool:  # noqa: ANN401 - text or a number
    """Return whether a stored amount is the same, however it is written."""
    if stored is None:
        return False
    try:
        return parse_quantity(stored) == parse_quantity(text)
    except QuantityError:
        return False


def _differs(finding: Finding, former: Json | None) -> bool:
    status = "True" if finding.good else "False"
    return former is None or (former.get("status"), former.get("reason")) != (status, finding.reason)


def _condition(finding: Finding, former: Json | None, generation: int | None, now: float) -> dict[str, Any]:
    status = "True" if finding.good else "False"
    since = (former or {}).get("lastTransitionTime") if former and former.get("status") == status else None
    condition = {
        "type": finding.type,
        "status": status,
        "reason": finding.reason,
        "message": finding.message,
        "lastTransitionTime": since or datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return condition if generation is None else {**condition, "observedGeneration": generation}
