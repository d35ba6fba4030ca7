"""The state of reporting and of the policy: logged once per state, and again on recovery."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from crds.duration import format_duration
from crds.node_metric import NodeMetric
from headroom.kube import ApiError, ApiUnavailable
from headroom.kube.events import EventRecorder

log = logging.getLogger(__name__)

_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_OVERLOADED: Final = 429


class FailureKind(StrEnum):
    """The consequence of a failure."""

    AWAY = "away"
    OVERLOADED = "overloaded"
    LOGIN = "login"
    FORBIDDEN = "forbidden"
    ABSENT = "absent"
    UNDEFINED = "undefined"
    CHANGED = "changed"
    REFUSED = "refused"
    UNMADE = "unmade"


_TRANSIENT: Final = (FailureKind.FORBIDDEN, FailureKind.CHANGED)
"""Transient states of an API server, for instance while it reads its roles: logged only when they last."""
BLOCKING: Final = frozenset(FailureKind) - {FailureKind.CHANGED, FailureKind.REFUSED, FailureKind.UNMADE}
"""States in which no other report would be taken either."""

Failure = ApiError | ApiUnavailable | str  # why a report was not taken, or could not be made (a sentence)


def kind_of(failure: Failure) -> FailureKind:
    """Return the consequence of a failure."""
    if isinstance(failure, str):
        return FailureKind.UNMADE
    if isinstance(failure, ApiUnavailable):
        return FailureKind.OVERLOADED if failure.status == _OVERLOADED else FailureKind.AWAY
    if failure.not_found:
        return FailureKind.ABSENT if failure.reason else FailureKind.UNDEFINED
    if failure.conflict or failure.gone:
        return FailureKind.CHANGED
    kinds = {_UNAUTHORIZED: FailureKind.LOGIN, _FORBIDDEN: FailureKind.FORBIDDEN}
    return kinds.get(failure.status, FailureKind.REFUSED)


def describe(failure: Failure, node_name: str) -> str:
    """A failure in a sentence, with the way out where a person can go one."""
    state = kind_of(failure)
    if state is FailureKind.ABSENT:
        return f"there is no NodeMetric {node_name} yet: the manager makes it when it runs; trying again"
    if state is FailureKind.FORBIDDEN and isinstance(failure, ApiError):
        return f"not allowed to report: {failure.message}; give the agent's service account the chart's role"
    return f"cannot report: {failure}"


@dataclass(slots=True)
class ReportStatus:
    """The state of reporting, for /healthz and the log."""

    node_name: str
    problem: str = "no report was made yet"  # why the last try failed; empty when it was taken
    state: FailureKind | None = None  # the last failure; None after a success, or before the first attempt
    kind: str = ""  # which kind of report failed
    _since: float = 0.0
    _tries: int = 0
    _logged: set[FailureKind] = field(default_factory=set)

    def failed(self, kind: str, failure: Failure, now: float) -> FailureKind:
        """Note a failure of a full or fast report, by a clock that only runs forward. [s]

        The log explains it the first time after a report succeeded.
        """
        state, before = kind_of(failure), self.state
        if before is None:
            self._since = now
        self._tries += 1
        self.kind, self.state, self.problem = kind, state, describe(failure, self.node_name)
        lasting = state not in _TRANSIENT or before is state
        if lasting and state not in self._logged:
            log.warning("%s; measuring goes on", self.problem)
            self._logged.add(state)
        return state

    def succeeded(self, kind: str, now: float) -> bool:
        """Note a report that was taken. Whether all is well: a fast one does not make up for refused full ones."""
        if self.kind == "full" and kind == "fast" and self.state is not None:
            return False
        if self._logged:
            away = format_duration(max(now - self._since, 0.0))
            log.info("NodeMetric %s: reporting recovered after %s (%d attempts)", self.node_name, away, self._tries)
        self.problem, self.state, self.kind, self._tries = "", None, "", 0
        self._logged.clear()
        return True


@dataclass(slots=True)
class NodeMetricEvents:
    """Writes an event about the NodeMetric when a state changes, and none while it lasts."""

    recorder: EventRecorder
    _problems: dict[str, str] = field(default_factory=dict)

    async def record_policy(self, node_metric: Mapping[str, Any], problem: str, model: str) -> None:
        """Record whether the policy is in force: the problem is empty when it is, the model is the one in force."""
        await self.recorder.flush()  # after each report: the API server is there
        wrong = ("PolicyRejected", f"{problem}. Model {model} stays in force.")
        await self._record(node_metric, problem, wrong, ("PolicyApplied", f"Model {model} is in force."))

    async def record_dropped(self, node_metric: Mapping[str, Any], problem: str) -> None:
        """Record that parts of the report are dropped; an empty text when none are."""
        wrong = ("ReportFieldsDropped", f"{problem[:1].upper()}{problem[1:]}.")
        await self._record(node_metric, problem, wrong, ("ReportFieldsKept", "The whole report is kept now."))

    async def _record(
        self, node_metric: Mapping[str, Any], problem: str, wrong: tuple[str, str], well: tuple[str, str]
    ) -> None:
        before = self._problems.get(wrong[0], "")
        self._problems[wrong[0]] = problem
        if problem == before:
            return
        metadata = node_metric.get("metadata") or {}
        regarding = {
            "apiVersion": NodeMetric.API_VERSION,
            "kind": NodeMetric.KIND,
            "name": str(metadata.get("name", "")),
            "uid": str(metadata.get("uid", "")),
        }
        type_, (reason, note) = ("Warning", wrong) if problem else ("Normal", well)
        await self.recorder.record(regarding, type_, reason, "Report", note)
