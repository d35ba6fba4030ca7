"""Reports to the API server: full ones on time, fast ones when the prediction moves; backs off and catches up."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from agent.metrics import Metrics
from agent.prediction.prediction import NodePrediction
from agent.reporter import other_reporters
from agent.reporter import spec as specs
from agent.reporter.events import Announcer
from agent.reporter.merge_patch import lost, patch_of_keys
from agent.reporter.other_reporters import Rivals
from agent.reporter.remote_node_metric import Stored
from agent.reporter.report import Json, Report, ReportSource
from agent.reporter.report_status import FRUITLESS, Failure, Reach, State
from agent.reporter.schedule import Backoff, phase_of, until_next
from agent.reporter.spec import SpecInForce
from agent.reporter.threshold import is_due
from agent.settings import ReportSettings
from crds.node_metric import GROUP, PLURAL, VERSION
from crds.predict_policy import with_defaults
from headroom import kube

log = logging.getLogger(__name__)

FAST_KEYS: Final = frozenset({"prediction", "prodReclaimableMetric", "prodPeakMetric"})
"""What a fast report says; `conditions` too, when they changed."""
FULL_KEYS: Final = FAST_KEYS | {"updateTime", "nodeMetric", "podsMetric", "conditions"}
"""What a full report says; everything else in the status belongs to others."""
_COMPONENT: Final = "headroom-agent"
_TRIES: Final = 3


@dataclass(slots=True)
class Publisher:
    """Keeps one NodeMetric's status current."""

    api: kube.ApiServer
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
    """Wall clock. [seconds since 1970]"""
    clock: Callable[[], float] = time.monotonic
    """What waits are measured with. [s]"""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits that many seconds."""
    spec: SpecInForce = field(default_factory=specs.default)
    """What the manager asks for, as last seen."""
    reach: Reach = field(init=False)
    """How it goes."""
    _backoff: Backoff = field(init=False)
    _announcer: Announcer = field(init=False)
    _stored: Stored = field(default_factory=Stored)
    _rivals: Rivals = field(default_factory=Rivals)
    _looked_at: float = 0.0
    _sent: NodePrediction | None = None
    _sent_at: float = 0.0
    _due_at: float = 0.0
    _pruned: str = ""
    _refused_policy: str = ""

    def __post_init__(self) -> None:
        self.reach = Reach(self.node_name)
        self._backoff = Backoff(self.settings.longest_backoff_seconds, self.settings.jitter)
        self._announcer = Announcer(kube.events.EventRecorder(self.api, _COMPONENT, self.wall))
        self._due_at = self.clock() + self.settings.first_after_seconds
        self.metrics.report_lag.set_function(lambda: max(self.clock() - self._due_at, 0.0))

    @property
    def path(self) -> str:
        """Where the NodeMetric is."""
        return f"/apis/{GROUP}/{VERSION}/{PLURAL}/{self.node_name}"

    async def run(self) -> None:
        """Report for ever."""
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
        """Send a full report.

        Returns:
            How long to wait for the next one. [s]
        """
        try:
            try:
                if not self._stored.known:
                    self._take(await self.api.get(self.path))
            finally:  # also when nobody takes it: /metrics shows what it says
                report = self.reports.full(self.wall(), self.spec, self._stored.conditions, self._problems())
            await self._send("full", report, FULL_KEYS)
        except (kube.ApiError, kube.ApiUnavailable) as error:
            return self._failed("full", error)
        wait = until_next(self.wall(), self.spec.report_interval_seconds, phase_of(self.node_name))
        self._due_at = self.clock() + wait
        return wait

    async def check(self) -> float:
        """Look what is asked for, and send a fast report if the prediction has moved or the last one is too old.

        Returns:
            How long to wait for the next full report; 0 to leave it when it was. [s]
        """
        prediction = self.reports.predict(self.wall(), self.spec)
        if self.reach.state in FRUITLESS:
            return 0.0  # the full report that is due says it all
        try:
            anew = await self._is_asked_anew()
            if self._sent is None and self.reach.state is None:
                return await self.report()
            if anew:
                prediction = self.reports.predict(self.wall(), self.spec)
            if anew or self._sent is None or is_due(self._sent, self.clock() - self._sent_at, prediction):
                told = self._stored.conditions, self._problems()
                await self._send("fast", self.reports.fast(self.wall(), self.spec, prediction, *told), FAST_KEYS)
        except (kube.ApiError, kube.ApiUnavailable) as error:
            return self._failed("fast", error)
        return 0.0

    async def _is_asked_anew(self) -> bool:
        """Whether the spec, or the whole object, is another one than we know; then it is known now."""
        if self._stored.known:
            metadata = await self.api.metadata(self.path)
            written = metadata.get("resourceVersion") != self._stored.version
            if self._stored.is_current(metadata) and not (written and self._is_time_to_look()):
                return False
        before = self._stored.identity
        self._take(await self.api.get(self.path))
        return self._stored.identity != before

    def _is_time_to_look(self) -> bool:
        looked, now = self._looked_at, self.clock()
        if now - looked < other_reporters.LOOK_SECONDS:
            return False
        self._looked_at = now
        return True

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
        body, wanted, replaced = await self._patch(report, keys)
        self._sent = None if replaced and kind == "fast" else report.prediction
        self._sent_at = self.clock()
        self._taken(kind, body)
        if kind == "full":
            await self._see_pruned(wanted)
        if report.prediction.problem and report.prediction.problem != self._refused_policy:
            self.metrics.refused_inputs.labels("policy").inc()
        self._refused_policy = report.prediction.problem
        problem = self.spec.problem or report.prediction.problem
        await self._announcer.policy(self._stored.object, problem, str(report.prediction.policy.model))

    async def _patch(self, report: Report, keys: frozenset[str]) -> tuple[Json, Json, bool]:
        """Send a report.

        A merge patch replaces the list of conditions, those of others with it. So it is sent only when ours differ, and
        only for the object as we know it: when somebody has written since, the report is made for what stands there.

        Returns:
            What was sent, the status it was meant to lead to, and whether another object has taken the old one's place.
        """
        if "updateTime" not in report.status:  # never measured since the start: the old time goes on ageing
            keys -= {"updateTime"}
        replaced, tries = False, _TRIES
        while True:
            wanted, body = self._stored.with_others(report.status), Json()
            if self._stored.has_conditions(wanted["conditions"]):
                keys -= {"conditions"}
            else:
                keys |= {"conditions"}
                body = {"metadata": {"resourceVersion": self._stored.version}} if self._stored.version else {}
            body["status"] = patch_of_keys(self._stored.status, wanted, keys)
            tries -= 1
            self._rivals.own(body["status"])
            try:
                return body, wanted, self._take(await self.api.patch(f"{self.path}/status", body)) or replaced
            except kube.ApiError as error:
                if not (error.conflict and tries):
                    raise
            replaced = self._take(await self.api.get(self.path)) or replaced

    def _taken(self, kind: str, body: Json) -> None:
        if self.reach.taken(kind, self.clock()):
            self._backoff.succeeded()
        self.metrics.reports.labels(kind, "taken").inc()
        self.metrics.report_bytes.labels(kind).inc(len(json.dumps(body)))
        self.metrics.report_time.labels(kind).set(self.wall())

    def _take(self, node_metric: Json) -> bool:
        """Remember the object as the server has it, and obey its spec. Whether it is another object than before."""
        if not self._stored.known:
            self._rivals.own(node_metric.get("status") or {})
        replaced = self._stored.take(node_metric)
        if self._rivals.see(self._stored.status, self.clock()):
            log.warning("NodeMetric %s: %s", self.node_name, other_reporters.TEXT)
        if replaced:
            self._sent = None
        found = specs.read(self._stored.spec, self.spec)
        if found.problem and found.problem != self.spec.problem:
            log.warning("NodeMetric %s: %s; the last good value stays in force", self.node_name, found.problem)
            self.metrics.refused_inputs.labels("spec").inc()
        self.spec = replace(found, generation=self._stored.generation)
        return replaced

    def _failed(self, kind: str, failure: Failure) -> float:
        """Say what is wrong when it is new, and how long to wait."""
        state = self.reach.failed(kind, failure, self.clock())
        if state in (State.ABSENT, State.CHANGED):
            self._stored, self._sent = Stored(), None
        self.metrics.reports.labels(kind, "absent" if state is State.ABSENT else "failed").inc()
        return self._backoff.failed(failure.retry_after if isinstance(failure, kube.ApiUnavailable) else None)

    async def _see_pruned(self, wanted: Json) -> None:
        """Notice fields that the server took and did not keep: its definition does not know them."""
        ours = {key: wanted[key] for key in wanted.keys() & FULL_KEYS}
        dropped = lost(ours, self._stored.status, "status")
        text = _pruned_text(dropped)
        if text and text != self._pruned:
            log.warning("NodeMetric %s: %s", self.node_name, text)
        self._pruned = text
        self.metrics.report_dropped.set(len(dropped))
        await self._announcer.dropped(self._stored.object, text)

    def _problems(self) -> list[str]:
        found = [f"{self.spec.problem}; the last good value stays in force."] if self.spec.problem else []
        others = other_reporters.TEXT if self._rivals.present(self.clock()) else ""
        return found + [f"{text[:1].upper()}{text[1:]}." for text in (self._pruned, others) if text]

    def _check_seconds(self) -> float:
        policy = with_defaults(self._sent.policy if self._sent is not None else None)
        return float(policy.check_interval_seconds or 1)


def _pruned_text(pruned: list[str]) -> str:
    if not pruned:
        return ""
    named = ", ".join(pruned[:4]) + (" …" if len(pruned) > 4 else "")  # noqa: PLR2004 - enough to recognise it
    return (
        f"the cluster's NodeMetric definition drops {named}: install Headroom's (crds/node_metric.yaml); "
        "until then nobody sees that part of the report"
    )
