"""A publisher on a stage: a fake server, fake reports, and a clock that only the test moves."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from agent.metrics import Metrics
from agent.prediction.node import NodePrediction
from agent.prediction.readiness import Readiness
from agent.reporter.publisher import Publisher
from agent.reporter.reporter import Report, ReportBuilder
from agent.reporter.schedule import phase_of
from agent.reporter.spec import SpecInForce
from agent.settings import ReportSettings
from crds.meta import Condition
from crds.predict_policy import DEFAULTS
from tests.agent.reporter.fake_api import NAME, FakeApi, serving

READY = Readiness(ready=True, reason="Ready", message="fine")
PREDICTION = NodePrediction(0.0, DEFAULTS, {}, 1, (), {"cpu": 1000, "memory": 1 << 30}, {"cpu": 500}, {}, READY)
NO_JITTER = ReportSettings(jitter=0.0)


def moment(interval_seconds: float) -> float:
    """A moment at which the node reports when it does so in this interval, which divides a minute."""
    return 1_699_999_980.0 + interval_seconds * phase_of(NAME)


START = moment(60)


def moved(cpu: int) -> NodePrediction:
    """The prediction with another reclaimable CPU. [milli-cores]"""
    return replace(PREDICTION, reclaimable={"cpu": cpu, "memory": 1 << 30})


@dataclass
class FakeReports:
    """Reports of a prediction that the test sets."""

    prediction: NodePrediction = PREDICTION
    problems: list[str] = field(default_factory=list)
    previous: tuple[Condition, ...] = ()
    generation: int | None = None
    broken: bool = False
    measured: bool = True
    predictions: int = 0
    made: int = 0

    def predict(self, now: float, spec: SpecInForce) -> NodePrediction:
        """The prediction that was set."""
        del now, spec
        self.predictions += 1
        return self.prediction

    def full(
        self, now: float, spec: SpecInForce, previous: Sequence[Condition] = (), problems: Sequence[str] = ()
    ) -> Report:
        """A full report."""
        self.made += 1
        if self.broken:
            raise RuntimeError("the database is damaged")
        status = {"podsMetric": [], "nodeMetric": {}, **self._said(spec, previous, problems)}
        return Report({**status, **({"updateTime": f"{now:.0f}"} if self.measured else {})}, self.prediction)

    def fast(
        self,
        now: float,
        spec: SpecInForce,
        prediction: NodePrediction,
        previous: Sequence[Condition] = (),
        problems: Sequence[str] = (),
    ) -> Report:
        """A fast report."""
        del now
        return Report(self._said(spec, previous, problems), prediction)

    def _said(self, spec: SpecInForce, previous: Sequence[Condition], problems: Sequence[str]) -> dict[str, Any]:
        self.problems, self.previous, self.generation = list(problems), tuple(previous), spec.generation
        cpu = {"resource": {"resources": {"cpu": str(self.prediction.reclaimable["cpu"])}}}
        reason = self.prediction.readiness.reason
        return {
            "prediction": {"policy": {"parameters": {"n": 3}}},
            "prodReclaimableMetric": cpu,
            "conditions": [{"type": "Collecting", "status": "True", "reason": reason}],
        }


@dataclass
class Stage:
    """A publisher, its fake server, its fake reports and a clock."""

    fake: FakeApi
    reports: FakeReports
    publisher: Publisher
    time: list[float]

    @property
    def status(self) -> dict[str, Any]:
        """The status as the server has it."""
        assert self.fake.stored is not None
        found: dict[str, Any] = self.fake.stored["status"]
        return found

    def metric(self, name: str, **labels: str) -> float:
        """What /metrics shows."""
        return self.publisher.metrics.registry.get_sample_value(f"headroom_agent_{name}", labels) or 0.0


@asynccontextmanager
async def staged(settings: ReportSettings = NO_JITTER) -> AsyncIterator[Stage]:
    """Everything, at a moment at which the node reports."""
    async with serving() as (fake, api):
        time, reports = [START], FakeReports()
        publisher = Publisher(
            api, NAME, cast("ReportBuilder", reports), settings, Metrics(NAME), lambda: time[0], lambda: time[0]
        )
        yield Stage(fake, reports, publisher, time)
