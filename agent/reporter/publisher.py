"""Reports to the API server: full ones on time, fast ones when the prediction moves; backs off and catches up."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import kubeapi
from agent.prediction import NodePrediction
from agent.reporter import spec as specs
from agent.reporter.change import has_moved
from agent.reporter.merge_patch import lost, patch_of_keys
from agent.reporter.report import Json, Report, ReportSource
from agent.reporter.spec import SpecInForce
from agent.settings import ReportSettings
from agent.telemetry import Metrics
from crds.codec import CodecError, from_json
from crds.meta import Condition
from crds.names import CONDITION_COLLECTING, CONDITION_PREDICTION_READY
from crds.node_metric import GROUP, PLURAL, VERSION
from crds.predict_policy import with_defaults

log = logging.getLogger(__name__)

FAST_KEYS: Final = frozenset({"prediction", "prodReclaimableMetric", "prodPeakMetric"})
"""What a fast report says."""
FULL_KEYS: Final = FAST_KEYS | {"updateTime", "nodeMetric", "podsMetric", "conditions"}
"""What a full report says; everything else in the status belongs to others."""
_OUR_CONDITIONS: Final = (CONDITION_COLLECTING, CONDITION_PREDICTION_READY)
_FIRST_BACKOFF_SECONDS: Final = 1.0


@dataclass(slots=True)
class Reach:
    """How reporting goes, for /healthz and the log."""

    problem: str = "no report was made yet"
    """Why the last try failed; empty when it was taken."""
    last_report: float | None = None
    """When a report was last taken. [seconds since 1970]"""


@dataclass(slots=True)
class Publisher:
    """Keeps one NodeMetric's status current."""

    api: kubeapi.ApiServer
    """The API server."""
    node_name: str
    """Name of the NodeMetric."""
    reports: ReportSource
    """Makes the reports."""
    settings: ReportSettings
    """First report, jitter, back-off."""
    metrics: Metrics
    """Where to count."""
    wall: Callable[[], float] = time.time
    """The time that reports bear. [seconds since 1970]"""
    clock: Callable[[], float] = time.monotonic
    """What waits are measured with. [s]"""
    chance: random.Random = field(default_factory=random.Random)
    """Source of the jitter."""
    spec: SpecInForce = field(default_factory=specs.default)
    """What the manager asks for, as last seen."""
    reach: Reach = field(default_factory=Reach)
    """How it goes."""
    _current: Json = field(default_factory=dict)
    _sent: NodePrediction | None = None
    _sent_at: float = 0.0
    _failures: int = 0
    _pruned: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Where the NodeMetric is."""
        return f"/apis/{GROUP}/{VERSION}/{PLURAL}/{self.node_name}"

    async def run(self) -> None:
        """Report for ever."""
        await self._asleep(self.settings.first_after_seconds)
        next_full = self.clock()
        while True:
            if self.clock() >= next_full:
                next_full = self.clock() + await self._guarded("full", self.report)
            else:
                retry = await self._guarded("fast", self.check)
                next_full = self.clock() + retry if retry else next_full
            until_full = max(next_full - self.clock(), 0.0)
            await asyncio.sleep(min(until_full, self._jittered(self._check_seconds())))

    async def report(self) -> float:
        """Send a full report.

        Returns:
            How long to wait for the next one. [s]
        """
        try:
            if not self._current:
                self._take(await self.api.get(self.path))
            report = self.reports.full(self.wall(), self.spec, self._conditions(), self._problems())
            await self._send("full", report, FULL_KEYS)
        except (kubeapi.ApiError, kubeapi.ApiUnavailable) as error:
            return self._failed("full", error)
        return self._jittered(self.spec.report_interval_seconds)

    async def check(self) -> float:
        """Send a fast report if the prediction has moved, or the last one is too old.

        Returns:
            How long to leave the server alone, 0 when all is well. [s]
        """
        if self._sent is None or self._failures:
            return 0.0  # the full report that is due says it all
        prediction = self.reports.predict(self.wall(), self.spec)
        if not self.is_due(prediction):
            return 0.0
        try:
            await self._send("fast", self.reports.fast(self.wall(), self.spec, prediction), FAST_KEYS)
        except (kubeapi.ApiError, kubeapi.ApiUnavailable) as error:
            return self._failed("fast", error)
        return 0.0

    def is_due(self, prediction: NodePrediction) -> bool:
        """Whether a prediction must be sent before the next full report."""
        sent, policy = self._sent, with_defaults(prediction.policy)
        if sent is None:
            return True
        threshold = policy.resource_diff_threshold_percent or 0
        moved = has_moved(sent.reclaimable, prediction.reclaimable, threshold)
        moved = moved or has_moved(sent.prod_peak, prediction.prod_peak, threshold)
        return moved or self.clock() - self._sent_at >= (policy.force_update_interval_seconds or 0)

    async def _guarded(self, kind: str, step: Callable[[], Awaitable[float]]) -> float:
        """Run one step; a report that cannot be made is said, and tried again like one that cannot be sent."""
        try:
            return await step()
        except Exception as error:
            expected = isinstance(error, RuntimeError | OSError)  # the store's
            if not expected:
                log.debug("a %s report could not be made", kind, exc_info=error)
            return self._failed(kind, f"{error}" if expected else f"{type(error).__name__}: {error}")

    async def _send(self, kind: str, report: Report, keys: frozenset[str]) -> None:
        wanted = {**report.status, "conditions": self._with_others(report.status.get("conditions") or [])}
        patch = patch_of_keys(self._current.get("status") or {}, wanted, keys)
        answer = await self.api.patch(f"{self.path}/status", {"status": patch})
        self._take(answer)
        self._sent, self._sent_at = report.prediction, self.clock()
        if kind == "full":
            self._see_pruned(wanted, answer.get("status") or {})
        if self.reach.problem and self._failures:
            log.info("reports about node %s are taken again", self.node_name)
        self.reach.problem, self.reach.last_report, self._failures = "", self.wall(), 0
        self.metrics.reports.labels(kind, "taken").inc()
        self.metrics.report_time.labels(kind).set(self.wall())

    def _take(self, node_metric: Json) -> None:
        """Remember the object as the server has it, and obey its spec."""
        self._current = node_metric
        found = specs.read(_mapping(node_metric.get("spec")), self.spec)
        if found.problem and found.problem != self.spec.problem:
            log.warning("NodeMetric %s: %s; the last good value stays in force", self.node_name, found.problem)
        self.spec = found

    def _failed(self, kind: str, error: kubeapi.ApiError | kubeapi.ApiUnavailable | str) -> float:
        """Say what is wrong when it is new, and how long to wait."""
        absent = isinstance(error, kubeapi.ApiError) and error.not_found
        if absent:
            self._current, self._sent = {}, None
            text = f"there is no NodeMetric {self.node_name} yet: the manager makes it when it runs; trying again"
        elif isinstance(error, kubeapi.ApiError) and error.status == 403:  # noqa: PLR2004 - HTTP: forbidden
            text = f"not allowed to report: {error.message}; give the agent's service account the chart's role"
        else:
            text = f"cannot report: {error}"
        if text != self.reach.problem:
            log.warning("%s", text)
        self.reach.problem = text
        self.metrics.reports.labels(kind, "absent" if absent else "failed").inc()
        wait = min(_FIRST_BACKOFF_SECONDS * 2**self._failures, self.settings.longest_backoff_seconds)
        self._failures = min(self._failures + 1, 16)
        asked = error.retry_after if isinstance(error, kubeapi.ApiUnavailable) else None
        return self._jittered(max(wait, asked or 0.0))

    def _see_pruned(self, wanted: Mapping[str, Any], answered: Mapping[str, Any]) -> None:
        pruned = tuple(lost(wanted, answered, "status"))
        if pruned and pruned != self._pruned:
            log.warning("NodeMetric %s: %s", self.node_name, _pruned_text(pruned))
        self._pruned = pruned

    def _problems(self) -> list[str]:
        found = [f"{self.spec.problem}; the last good value stays in force."] if self.spec.problem else []
        return found + ([_pruned_text(self._pruned) + "."] if self._pruned else [])

    def _conditions(self) -> tuple[Condition, ...]:
        """Our conditions as the server has them."""
        found = []
        for one in self._stored_conditions():
            try:
                found.append(from_json(Condition, one))
            except CodecError:
                continue  # written by somebody else, and replaced by this report
        return tuple(found)

    def _with_others(self, ours: list[Json]) -> list[Json]:
        """Our conditions beside those that somebody else wrote."""
        return [one for one in self._stored_conditions() if one.get("type") not in _OUR_CONDITIONS] + ours

    def _stored_conditions(self) -> list[Json]:
        stored = _mapping(self._current.get("status")).get("conditions")
        return [one for one in stored if isinstance(one, dict)] if isinstance(stored, list) else []

    def _check_seconds(self) -> float:
        policy = with_defaults(self._sent.policy if self._sent is not None else None)
        return float(policy.check_interval_seconds or 1)

    def _jittered(self, seconds: float) -> float:
        return seconds * (1.0 + self.settings.jitter * self.chance.uniform(-1.0, 1.0))

    async def _asleep(self, seconds: float) -> None:
        await asyncio.sleep(self._jittered(seconds))


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _pruned_text(pruned: tuple[str, ...]) -> str:
    named = ", ".join(pruned[:4]) + (" …" if len(pruned) > 4 else "")  # noqa: PLR2004 - enough to recognise it
    return (
        f"the cluster's NodeMetric definition drops {named}: install Headroom's (crds/node_metric.yaml); "
        "until then nobody sees that part of the report"
    )
