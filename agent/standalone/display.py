"""The standalone agent's face: a table for people, or the NodeMetric as JSON or YAML; once, or again and again."""

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TextIO

import yaml

from agent.prediction.readiness import COLLECTING_HISTORY, NO_PROD_PODS, POLICY_REJECTED, READY
from agent.reporter import spec as specs
from agent.reporter.node_metric import quantities
from agent.reporter.remote_node_metric import Json
from agent.reporter.reporter import ReportBuilder
from agent.reporter.spec import SpecInForce
from agent.samples import CPU, MEMORY
from agent.settings import DisplaySettings
from agent.standalone.overview import NO_REQUESTS, NOTHING_RECLAIMABLE, Overview, Sources, build_overview
from agent.standalone.screen import Screen
from agent.standalone.table import cores, size, table
from crds.codec import to_json
from crds.duration import format_duration
from crds.names import CONDITION_PREDICTION_READY
from crds.node_metric import NodeMetric
from headroom.runtime.sanitize import printable_json

log = logging.getLogger(__name__)

_LIVE_SECONDS: Final = 1.0
_STREAM_SECONDS: Final = 60.0
_NOW_SECONDS: Final = 10.0
_ABOUT_EVIDENCE: Final = (READY, COLLECTING_HISTORY, NO_PROD_PODS, POLICY_REJECTED)
_NO_PODS: Final = "No pods run here: no cgroup of one was found. The node and what runs on it are shown."


@dataclass(slots=True)
class Display:
    """Shows a machine."""

    node_name: str  # name of the NodeMetric
    report_builder: ReportBuilder  # makes the reports
    sources: Callable[[], Sources]  # where the table's numbers come from, now
    machine: Callable[[], str]  # one line about the machine
    problems: Callable[[], Sequence[str]]  # faults, in sentences
    settings: DisplaySettings  # what to show, and how often
    first_after_seconds: float  # how long to measure before the first output. [s]
    out: TextIO = field(default_factory=lambda: sys.stdout)  # where it is shown
    wall: Callable[[], float] = time.time  # the time of reports. [seconds since 1970]
    clock: Callable[[], float] = time.monotonic  # what waits are measured with. [s]
    spec: SpecInForce = field(default_factory=specs.default)  # the settings of reports
    _full_due: float = 0.0

    async def run(self) -> None:
        """Show until cancelled, once, or until its output is closed."""
        screen = Screen(self.out)
        screen.live = screen.live and self.settings.output == "table" and not self.settings.once
        try:
            with screen.opened():
                await self._show(screen)
        except BrokenPipeError:
            _discard(self.out)

    def node_metric(self) -> Json:
        """The NodeMetric of this moment; with `once` it has the percentiles of the measured time."""
        spec = _of_measured_time(self.spec, self.first_after_seconds) if self.settings.once else self.spec
        report = self.report_builder.full(self.wall(), spec)
        status = _without_cold_windows(report.status) if self.settings.once else report.status
        return {
            "apiVersion": NodeMetric.API_VERSION,
            "kind": NodeMetric.KIND,
            "metadata": {"name": self.node_name},
            "spec": to_json(spec.spec),
            "status": {**status, "conditions": _with_unknown_requests(report.status, self.sources())},
        }

    def node(self) -> Json:
        """The machine as a Node of which nothing is reserved."""
        resources = self.sources().node
        amounts = {"capacity": quantities(resources.capacity), "allocatable": quantities(resources.allocatable)}
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node_name}, "status": amounts}

    def json(self) -> str:
        return printable_json(json.dumps(self.node_metric(), indent=2, ensure_ascii=False)) + "\n"

    def yaml(self) -> str:
        """The NodeMetric of this moment as YAML."""
        return _yaml(self.node_metric())

    def text(self) -> str:
        return "\n".join(self.lines()) + "\n"

    def lines(self, height: int | None = None, width: int | None = None) -> list[str]:
        """The table of this moment, for a terminal of that size."""
        now, sources = self.wall(), self.sources()
        prediction = self.report_builder.predict(now, self.spec)
        view = build_overview(now, sources, prediction, window_seconds=_NOW_SECONDS)
        ready = prediction.readiness
        notes = [*_notes(view), *([] if ready.ready else [ready.message]), *self.problems()]
        return table(view, f"{self.node_name}: {self.machine()}", notes, height=height, width=width)

    async def _show(self, screen: Screen) -> None:
        refresh = self.settings.refresh_seconds or (_LIVE_SECONDS if screen.live else _STREAM_SECONDS)
        if not screen.live:
            log.info("measuring for %g s before the first report", self.first_after_seconds)
            await asyncio.sleep(self.first_after_seconds)
        while not self.settings.once:
            try:
                self._shown(screen)
            except RuntimeError as error:  # the store's
                log.warning("nothing can be shown now: %s", error)
            await asyncio.sleep(refresh)
        self._shown(screen)

    def _shown(self, screen: Screen) -> None:
        if self.settings.output == "table":
            screen.show(self.lines(screen.height, screen.width))
            self._report()
        elif self.settings.output == "yaml":
            once = self.settings.once
            self._write(f"{self.yaml()}---\n{_yaml(self.node())}" if once else f"---\n{self.yaml()}")
        elif self.settings.once:
            self._write(self.json())
        else:  # one document per line, so that a program can split them
            self._write(printable_json(json.dumps(self.node_metric(), ensure_ascii=False)) + "\n")

    def _report(self) -> None:
        """Make a full report now and then, as for a cluster: /metrics shows its numbers."""
        if self.clock() >= self._full_due:
            self._full_due = self.clock() + self.spec.report_interval_seconds
            self.report_builder.full(self.wall(), self.spec)

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()


def _yaml(content: Json) -> str:
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    sound = text.replace("\n", "").isprintable()
    return text if sound else yaml.safe_dump(content, sort_keys=False, width=float("inf"))


def _of_measured_time(spec: SpecInForce, seconds: float) -> SpecInForce:
    """The spec with one more window of percentiles: the time that was measured."""
    measured = format_duration(seconds)
    durations = dict.fromkeys([measured, *map(format_duration, spec.durations_seconds)])
    wanted = to_json(spec.spec)
    wanted["metricCollectPolicy"]["nodeAggregatePolicy"]["durations"] = list(durations)
    return specs.read(wanted, spec)


def _without_cold_windows(status: Json) -> Json:
    """The status without windows that have no percentiles yet."""
    usage = {
        name: [window for window in part if any(window["usage"].values())] if name.startswith("aggregated") else part
        for name, part in (status.get("nodeMetric") or {}).items()
    }
    return {**status, "nodeMetric": usage}


def _notes(view: Overview) -> list[str]:
    free = [text for text in (_amount(cores, view, CPU, " cores"), _amount(size, view, MEMORY, " of memory")) if text]
    notes = [f"At the predicted peak of everything {' and '.join(free)} stay free."] if free else []
    return [*notes, NOTHING_RECLAIMABLE if view.pods else _NO_PODS]


def _amount(words: Callable[[float], str], view: Overview, metric: str, unit: str) -> str:
    return words(view.free[metric]) + unit if metric in view.free else ""


def _with_unknown_requests(status: Json, sources: Sources) -> list[Json]:
    """The conditions; where requests are unknown, with the reason why nothing is reclaimable."""
    conditions = [dict(condition) for condition in status.get("conditions") or []]
    unknown = any(not pod.terminal and not pod.requests for pod in sources.pods)
    for condition in conditions:
        if (
            unknown
            and condition.get("type") == CONDITION_PREDICTION_READY
            and condition.get("reason") in _ABOUT_EVIDENCE
        ):
            condition |= {
                "status": "False",
                "reason": NO_REQUESTS,
                "message": f"{NOTHING_RECLAIMABLE} {condition.get('message', '')}",
            }
    return conditions


def _discard(out: TextIO) -> None:
    """Discard the output that is still buffered for a reader that has gone."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        log.debug("the output has no file to replace")
