"""Publishing, against a fake API server that keeps what it is sent."""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import kubeapi
from agent.prediction import NodePrediction
from agent.readiness import Readiness
from agent.reporter.publisher import FAST_KEYS, Publisher
from agent.reporter.report import Report
from agent.reporter.spec import SpecInForce
from agent.settings import ReportSettings
from agent.telemetry import Metrics
from crds.meta import Condition
from crds.predict_policy import DEFAULTS
from tests.agent.reporter.fake_api import NAME, FakeApi, serving

READY = Readiness(ready=True, reason="Ready", message="fine")
PREDICTION = NodePrediction(0.0, DEFAULTS, {}, 1, (), {"cpu": 1000, "memory": 1 << 30}, {"cpu": 500}, {}, READY)
NO_JITTER = ReportSettings(jitter=0.0)


@dataclass
class FakeReports:
    """Reports of a prediction that the test sets."""

    prediction: NodePrediction = PREDICTION
    told: list[str] = field(default_factory=list)
    previous: tuple[Condition, ...] = ()
    broken: bool = False

    def predict(self, now: float, spec: SpecInForce) -> NodePrediction:
        """The prediction that was set."""
        del now, spec
        return self.prediction

    def full(
        self, now: float, spec: SpecInForce, previous: Sequence[Condition] = (), problems: Sequence[str] = ()
    ) -> Report:
        """A full report."""
        del spec
        if self.broken:
            raise RuntimeError("the database is damaged")
        self.told, self.previous = list(problems), tuple(previous)
        status = {"updateTime": f"{now:.0f}", "podsMetric": [], "nodeMetric": {}, **self._prediction()}
        return Report({**status, "conditions": [{"type": "Collecting", "status": "True"}]}, self.prediction)

    def fast(self, now: float, spec: SpecInForce, prediction: NodePrediction) -> Report:
        """A fast report."""
        del now, spec
        return Report(self._prediction(), prediction)

    def _prediction(self) -> dict[str, Any]:
        cpu = {"resource": {"resources": {"cpu": str(self.prediction.reclaimable["cpu"])}}}
        return {"prediction": {"policy": {"parameters": {"n": 3}}}, "prodReclaimableMetric": cpu}


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


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """Everything, at time 1000."""
    async with serving() as (fake, api):
        time, reports = [1000.0], FakeReports()
        publisher = Publisher(api, NAME, reports, NO_JITTER, Metrics(), wall=lambda: time[0], clock=lambda: time[0])
        yield Stage(fake, reports, publisher, time)


async def test_full_report_is_sent(stage: Stage) -> None:
    """A full report arrives, and the next one is due after the interval that the answer's spec names."""
    assert stage.fake.stored is not None
    stage.fake.stored["spec"] = {"metricCollectPolicy": {"reportIntervalSeconds": 45}}
    assert await stage.publisher.report() == 45
    assert stage.status["updateTime"] == "1000"
    assert stage.publisher.reach.problem == ""


async def test_foreign_fields_stay(stage: Stage) -> None:
    """Host applications and conditions of others are left as they are; our lists are replaced as a whole."""
    assert stage.fake.stored is not None
    apps = [{"name": "nginx"}]
    stage.fake.stored["status"] = {
        "hostApplicationMetric": apps,
        "podsMetric": [{"name": "gone"}],
        "conditions": [{"type": "Theirs", "status": "True"}, {"type": "Collecting", "status": "False"}],
        "prediction": {"policy": {"parameters": {"windowDays": 7}}},
    }
    await stage.publisher.report()
    assert stage.status["hostApplicationMetric"] == apps
    assert stage.status["podsMetric"] == []
    assert [one["type"] for one in stage.status["conditions"]] == ["Theirs", "Collecting"]
    assert stage.status["prediction"]["policy"]["parameters"] == {"n": 3}
    assert "hostApplicationMetric" not in stage.fake.patches[0]["status"]


async def test_fast_report_has_prediction_alone(stage: Stage) -> None:
    """When the prediction moves, it is sent, and the rest of the status is not touched."""
    await stage.publisher.report()
    stage.time[0] += 20
    stage.reports.prediction = replace(PREDICTION, reclaimable={"cpu": 1100, "memory": 1 << 30})
    assert await stage.publisher.check() == 0
    assert set(stage.fake.patches[1]["status"]) <= FAST_KEYS
    assert stage.status["prodReclaimableMetric"]["resource"]["resources"]["cpu"] == "1100"
    assert stage.status["updateTime"] == "1000"


async def test_still_prediction_is_not_sent(stage: Stage) -> None:
    """A prediction that has hardly moved is not sent before the force-update interval."""
    await stage.publisher.report()
    stage.reports.prediction = replace(PREDICTION, reclaimable={"cpu": 1040, "memory": 1 << 30})
    stage.time[0] += 599
    await stage.publisher.check()
    assert len(stage.fake.patches) == 1
    stage.time[0] += 1
    await stage.publisher.check()
    assert len(stage.fake.patches) == 2


async def test_no_fast_report_first(stage: Stage) -> None:
    """Before a full report was taken there is no fast one."""
    await stage.publisher.check()
    assert stage.fake.patches == []


async def test_absent_object_is_said_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A NodeMetric that does not exist is said once, tried again ever later, and found when it comes."""
    there, stage.fake.stored = stage.fake.stored, None
    waits = [await stage.publisher.report() for _ in range(8)]
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]
    assert caplog.text.count("there is no NodeMetric worker yet") == 1
    stage.fake.stored = there
    assert await stage.publisher.report() == 60
    assert stage.publisher.reach.problem == ""


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_outage_backs_off(stage: Stage, caplog: pytest.LogCaptureFixture, status: int) -> None:
    """A server that is away is left alone for longer and longer, in one line, and caught up with."""
    await stage.publisher.report()
    stage.fake.down = status
    waits = [await stage.publisher.report() for _ in range(3)]
    assert waits == sorted(waits)
    assert waits[0] >= 1
    assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) == 1
    await stage.publisher.check()  # the full report that is due says it all
    stage.fake.down, stage.time[0] = 0, 2000.0
    with caplog.at_level(logging.INFO):
        await stage.publisher.report()
    assert stage.status["updateTime"] == "2000"
    assert "taken again" in caplog.text


async def test_unreachable_server_backs_off() -> None:
    """A port where nobody listens is an outage like any other."""
    async with serving() as (_, api):
        pass
    from tests.kubeapi.fake import connection  # noqa: PLC0415 - only here

    async with kubeapi.ApiServer(connection("http://127.0.0.1:9"), user_agent="test") as api:
        publisher = Publisher(api, NAME, FakeReports(), NO_JITTER, Metrics())
        assert await publisher.report() >= 1
        assert "cannot report" in publisher.reach.problem


async def test_forbidden_names_the_way_out(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Missing permission is told apart from an outage."""
    stage.fake.down = 403
    await stage.publisher.report()
    assert "not allowed to report" in caplog.text
    assert "role" in caplog.text


async def test_garbage_spec_is_told(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A spec that somebody broke keeps the last good one, in one log line and in the condition."""
    assert stage.fake.stored is not None
    stage.fake.stored["spec"] = {"metricCollectPolicy": {"reportIntervalSeconds": 50}}
    await stage.publisher.report()
    stage.fake.stored["spec"] = {"metricCollectPolicy": {"reportIntervalSeconds": "soon"}}
    for _ in range(3):
        assert await stage.publisher.report() == 50
    assert caplog.text.count("reportIntervalSeconds") == 1
    assert "reportIntervalSeconds" in stage.reports.told[0]
    assert "last good value" in stage.reports.told[0]


async def test_pruning_is_told(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A definition that drops our fields is noticed in the answer, said once, and in the condition."""
    stage.fake.prunes = {"prediction"}
    for _ in range(3):
        await stage.publisher.report()
        stage.reports.prediction = replace(PREDICTION, reclaimable={"cpu": 5000, "memory": 1 << 30})
        await stage.publisher.check()
    assert caplog.text.count("drops status.prediction") == 1
    assert "install Headroom's" in stage.reports.told[0]
    stage.fake.prunes = set()
    await stage.publisher.report()
    await stage.publisher.report()
    assert stage.reports.told == []


async def test_odd_conditions_are_replaced(stage: Stage) -> None:
    """Conditions that nobody can read do not stop a report."""
    assert stage.fake.stored is not None
    stage.fake.stored["status"] = {"conditions": [{"type": 7}, "text", {"type": "Collecting", "status": "True"}]}
    await stage.publisher.report()
    assert stage.reports.previous[-1].type == "Collecting"


async def test_broken_report_is_tried_again(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A report that cannot be made is said, and made when it can be."""
    stage.reports.broken = True
    assert await stage.publisher._guarded("full", stage.publisher.report) == 1
    assert "cannot report: the database is damaged" in caplog.text
    stage.reports.broken = False
    assert await stage.publisher._guarded("full", stage.publisher.report) == 60


def test_waits_are_jittered() -> None:
    """A wait is longer or shorter by up to a tenth."""
    publisher = Publisher(None, NAME, FakeReports(), ReportSettings(), Metrics())  # type: ignore[arg-type]
    waits = [publisher._jittered(60) for _ in range(100)]
    assert all(54 <= wait <= 66 for wait in waits)
    assert len(set(waits)) > 50
