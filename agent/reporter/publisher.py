"""Reports to the API server: full ones on time, fast ones when the prediction moves; backs off and catches up."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from agent.metrics import Metrics
from agent.prediction.node import NodePrediction
from agent.reporter import spec as specs
from agent.reporter.merge_patch import dropped_paths, patch_of_keys
from agent.reporter.remote_node_metric import (
    ANOTHER_REPORTS,
    CHECK_SECONDS,
    Json,
    OtherReporters,
    RemoteNodeMetric,
    with_own_conditions,
)
from agent.reporter.report_status import BLOCKING, Failure, FailureKind, NodeMetricEvents, ReportStatus
from agent.reporter.reporter import Report, ReportBuilder
from agent.reporter.schedule import is_due, phase_of, until_next
from agent.reporter.spec import SpecInForce
from agent.settings import ReportSettings
from crds.node_metric import GROUP, PLURAL, VERSION
from crds.predict_policy import with_defaults
from headroom import kube
from headroom.runtime.backoff import Backoff

log = logging.getLogger(__name__)

_FIRST_BACKOFF_SECONDS: Final = 1.0

FAST_KEYS: Final = frozenset({"prediction", "prodReclaimableMetric", "prodPeakMetric"})
"""The fields of a fast report; `conditions` too, when they changed."""
FULL_KEYS: Final = FAST_KEYS | {"updateTime", "nodeMetric", "podsMetric", "workloads", "conditions"}
"""The fields of a full report; all others in the status belong to other writers."""
_COMPONENT: Final = "headroom-agent"
_TRIES: Final = 3
_MOST_PATHS: Final = 4
_WORKLOADS: Final = "status.workloads"


@dataclass(slots=True)
class Publisher:
    """Keeps one NodeMetric's status current."""

    api: kube.ApiServer
    node_name: str
    report_builder: ReportBuilder
    settings: ReportSettings
    metrics: Metrics
    wall: Callable[[], float] = time.time  # wall clock. [seconds since 1970]
    clock: Callable[[], float] = time.monotonic  # what waits are measured with. [s]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    spec: SpecInForce = field(default_factory=specs.default)  # the spec that the manager wrote, as last seen
    report_status: ReportStatus = field(init=False)
    _backoff: Backoff = field(init=False)
    _events: NodeMetricEvents = field(init=False)
    _remote: RemoteNodeMetric = field(default_factory=RemoteNodeMetric)
    _others: OtherReporters = field(default_factory=OtherReporters)
    _checked_at: float = 0.0
    _sent: NodePrediction | None = None
    _sent_at: float = 0.0
    _due_at: float = 0.0
    _dropped_fields: str = ""
    _refused_policy: str = ""

    def __post_init__(self) -> None:
        self.report_status = ReportStatus(self.node_name)
        jitter = 1.0 - self.settings.jitter, 1.0 + self.settings.jitter
        self._backoff = Backoff(_FIRST_BACKOFF_SECONDS, self.settings.longest_backoff_seconds, jitter)
        self._events = NodeMetricEvents(kube.events.EventRecorder(self.api, _COMPONENT, self.wall))
        self._due_at = self.clock() + self.settings.first_after_seconds
        self.metrics.report_lag.set_function(lambda: max(self.clock() - self._due_at, 0.0))

    @property
    def path(self) -> str:
        return f"/apis/{GROUP}/{VERSION}/{PLURAL}/{self.node_name}"

    async def run(self) -> None:
        """Report until cancelled."""
        await self.sleep(self.settings.first_after_seconds * (1.0 + phase_of(self.node_name)))
        next_full = self.clock()
        while True:
            if self.clock() >= next_full:
                next_full = self.clock() + await self._guarded("full", self.report)
            else:
                wait = await self._guarded("fast", self.check)
                next_full = self.clock() + wait if wait else next_full
            await self.sleep(min(max(next_full - self.clock(), 0.0), self._check_seconds()))

    async def report(self) -> float:
        """Send a full report. How long to wait for the next one. [s]"""
        try:
            try:
                if not self._remote.known:
                    self._update_remote(await self.api.get(self.path))
            finally:  # also when it cannot be sent: /metrics shows it
                report = self.report_builder.full(self.wall(), self.spec, self._remote.conditions, self._problems())
            await self._send("full", report, FULL_KEYS)
        except (kube.ApiError, kube.ApiUnavailable) as error:
            return self._failed("full", error)
        wait = until_next(self.wall(), self.spec.report_interval_seconds, phase_of(self.node_name))
        self._due_at = self.clock() + wait
        return wait

    async def check(self) -> float:
        """Check the spec, and send a fast report if the prediction has changed or the last one is too old.

        How long to wait for the next full report; 0 to leave it when it was. [s]
        """
        prediction = self.report_builder.predict(self.wall(), self.spec)
        if self.report_status.state in BLOCKING:
            return 0.0  # the due full report includes it
        try:
            changed = await self._spec_changed()
            if self._sent is None and self.report_status.state is None:
                return await self.report()
            if changed:
                prediction = self.report_builder.predict(self.wall(), self.spec)
            if changed or self._sent is None or is_due(self._sent, self.clock() - self._sent_at, prediction):
                stated = self._remote.conditions, self._problems()
                report = self.report_builder.fast(self.wall(), self.spec, prediction, *stated)
                await self._send("fast", report, FAST_KEYS)
        except (kube.ApiError, kube.ApiUnavailable) as error:
            return self._failed("fast", error)
        return 0.0

    async def _spec_changed(self) -> bool:
        """Return whether the spec, or the whole object, is another one than we know; then it is known now."""
        if self._remote.known:
            metadata = await self.api.metadata(self.path)
            written = metadata.get("resourceVersion") != self._remote.version
            due = written and self.clock() - self._checked_at >= CHECK_SECONDS
            if self._remote.is_current(metadata) and not due:
                return False
            if due and self._remote.is_current(metadata):
                self._checked_at = self.clock()
        before = self._remote.identity
        self._update_remote(await self.api.get(self.path))
        return self._remote.identity != before

    async def _guarded(self, kind: str, step: Callable[[], Awaitable[float]]) -> float:
        """Run one step; a report that cannot be built is logged, and retried like one that cannot be sent."""
        try:
            return await step()
        except Exception as error:
            expected = isinstance(error, RuntimeError | OSError)  # the store's
            if not expected:
                log.debug("a %s report could not be made", kind, exc_info=error)
            return self._failed(kind, f"{error}" if expected else f"{type(error).__name__}: {error}")

    async def _send(self, kind: str, report: Report, keys: frozenset[str]) -> None:
        body, wanted, replaced = await self._patch(report, keys)
        self._sent = None if replaced and kind == "fast" else report.prediction
        self._sent_at = self.clock()
        self._succeeded(kind, body)
        if kind == "full":
            await self._check_dropped_fields(wanted)
        if report.prediction.problem and report.prediction.problem != self._refused_policy:
            self.metrics.refused_inputs.labels("policy").inc()
        self._refused_policy = report.prediction.problem
        problem = self.spec.problem or report.prediction.problem
        await self._events.record_policy(self._remote.object, problem, str(report.prediction.policy.model))

    async def _patch(self, report: Report, keys: frozenset[str]) -> tuple[Json, Json, bool]:
        """Send a report: the report, the status that should result, whether the object was recreated.

        A merge patch replaces the list of conditions, those of others with it. So it is sent only when ours differ, and
        only for the object as we know it: after a conflict, the report is built again for the current object.
        """
        if "updateTime" not in report.status:  # never measured since the start: the old time goes on ageing
            keys -= {"updateTime"}
        replaced, tries = False, _TRIES
        while True:
            wanted, body = self._remote.with_foreign_conditions(report.status), Json()
            if self._remote.has_conditions(wanted["conditions"]):
                keys -= {"conditions"}
            else:
                keys |= {"conditions"}
                body = {"metadata": {"resourceVersion": self._remote.version}} if self._remote.version else {}
            body["status"] = patch_of_keys(self._remote.status, wanted, keys)
            tries -= 1
            self._others.mark_own(body["status"])
            try:
                return body, wanted, self._update_remote(await self.api.patch(f"{self.path}/status", body)) or replaced
            except kube.ApiError as error:
                if not (error.conflict and tries):
                    raise
            replaced = self._update_remote(await self.api.get(self.path)) or replaced

    def _succeeded(self, kind: str, body: Json) -> None:
        if self.report_status.succeeded(kind, self.clock()):
            self._backoff.succeeded()
        self.metrics.reports.labels(kind, "taken").inc()
        self.metrics.report_bytes.labels(kind).inc(len(json.dumps(body)))
        self.metrics.report_time.labels(kind).set(self.wall())

    def _update_remote(self, node_metric: Json) -> bool:
        """Remember the object as the server has it, and obey its spec. Whether it is another object than before."""
        if not self._remote.known:
            self._others.mark_own(node_metric.get("status") or {})
        replaced = self._remote.update(node_metric)
        if self._others.observe(self._remote.status, self.clock()):
            log.warning("NodeMetric %s: %s", self.node_name, ANOTHER_REPORTS)
        if replaced:
            self._sent = None
        result = specs.read(self._remote.spec, self.spec)
        if result.problem and result.problem != self.spec.problem:
            log.warning("NodeMetric %s: %s; the last good value stays in force", self.node_name, result.problem)
            self.metrics.refused_inputs.labels("spec").inc()
        self.spec = replace(result, generation=self._remote.generation)
        return replaced

    def _failed(self, kind: str, failure: Failure) -> float:
        """Log a new failure, and return the time to wait."""
        state = self.report_status.failed(kind, failure, self.clock())
        if state in (FailureKind.ABSENT, FailureKind.CHANGED):
            self._remote, self._sent = RemoteNodeMetric(), None
        self.metrics.reports.labels(kind, "absent" if state is FailureKind.ABSENT else "failed").inc()
        return self._backoff.failed(failure.retry_after if isinstance(failure, kube.ApiUnavailable) else None)

    async def _check_dropped_fields(self, wanted: Json) -> None:
        """Notice fields that the server took and did not keep: its definition does not know them."""
        ours = with_own_conditions({key: wanted[key] for key in wanted.keys() & FULL_KEYS})
        dropped, text = dropped_paths(ours, with_own_conditions(self._remote.status), "status"), ""
        if dropped:
            named = ", ".join(dropped[:_MOST_PATHS]) + (" …" if len(dropped) > _MOST_PATHS else "")
            off = ", and the workload history is off for cold pods on other nodes" if _WORKLOADS in dropped else ""
            text = (
                f"the cluster's NodeMetric definition drops {named}: install Headroom's (crds/node_metric.yaml); "
                f"until then that part of the report is lost{off}"
            )
        if text and text != self._dropped_fields:
            log.warning("NodeMetric %s: %s", self.node_name, text)
        self._dropped_fields = text
        self.metrics.report_dropped.set(len(dropped))
        await self._events.record_dropped(self._remote.object, text)

    def _problems(self) -> list[str]:
        result = [f"{self.spec.problem}; the last good value stays in force."] if self.spec.problem else []
        other_reports = ANOTHER_REPORTS if self._others.present(self.clock()) else ""
        return result + [f"{text[:1].upper()}{text[1:]}." for text in (self._dropped_fields, other_reports) if text]

    def _check_seconds(self) -> float:
        policy = with_defaults(self._sent.policy if self._sent is not None else None)
        return float(policy.check_interval_seconds or 1)
