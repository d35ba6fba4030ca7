"""Half an hour without the API server, in all the ways it can be away, on a clock that runs as fast as the test."""

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from agent.metrics import Metrics
from agent.reporter.publisher import Publisher
from agent.reporter.reporter import ReportBuilder
from headroom import kube
from headroom.kube.connection import TokenFile
from tests.agent.reporter.fake_api import NAME, FakeApi, serving
from tests.agent.reporter.stage import NO_JITTER, START, FakeReports, Stage, staged
from tests.headroom.kube.fake import connection

HALF_AN_HOUR = 1800.0


class Over(Exception):  # noqa: N818 - not an error
    """The play has come to its end."""


@dataclass
class Play:
    """Lets a publisher run, and does things at given times."""

    stage: Stage
    end: float
    at: dict[float, Callable[[], None]]

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass, doing what is due; raises Over at the end."""
        time = self.stage.time
        target = time[0] + seconds
        for moment in sorted(self.at):
            if START + moment <= target:
                time[0] = max(time[0], START + moment)
                self.at.pop(moment)()
        time[0] = target
        if target >= START + self.end:
            raise Over

    async def run(self) -> None:
        """From the start to the end."""
        self.stage.publisher.sleep = self.sleep
        with pytest.raises(Over):
            await self.stage.publisher.run()


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """Everything, at a moment at which the node reports."""
    async with staged() as found:
        yield found


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


async def test_calm_hour_is_regular(stage: Stage) -> None:
    """Without trouble: a full report a minute, each at the node's own second, and no fast one while nothing moves."""
    await Play(stage, 3600, {}).run()
    full = [patch for patch in stage.fake.patches if "updateTime" in patch["status"]]
    assert len(stage.fake.patches) == len(full)
    assert 58 <= len(full) <= 60
    times = [float(patch["status"]["updateTime"]) for patch in full[1:]]
    assert {round((time - START) % 60) % 60 for time in times} == {0}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (429, "TooManyRequests"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, ""),
        (409, "Conflict"),
        (410, "Expired"),
    ],
)
async def test_half_an_hour_away(stage: Stage, caplog: pytest.LogCaptureFixture, status: int, reason: str) -> None:
    """Whatever a server answers for half an hour: a line at the start, one at the end, predictions meanwhile."""

    def begin() -> None:
        stage.fake.down, stage.fake.reason = status, reason
        stage.fake.requests.clear()

    def end() -> None:
        stage.fake.down = 0
        tries.append(len(stage.fake.requests))
        predictions.append(stage.reports.predictions)

    tries: list[int] = []
    predictions: list[int] = []
    with caplog.at_level(logging.INFO):
        await Play(stage, 300 + HALF_AN_HOUR + 60, {300: begin, 300 + HALF_AN_HOUR: end}).run()
    assert len(_warnings(caplog)) == 1
    assert "measuring goes on" in _warnings(caplog)[0]
    assert caplog.text.count("taken again, after 30m") == 1
    # A try every 30 s at the most; after a 401 each is made twice, with the token read anew.
    assert HALF_AN_HOUR / 60 <= tries[0] <= (HALF_AN_HOUR / 30 + 8) * (2 if status in (401, 409, 410) else 1)
    assert predictions[0] >= HALF_AN_HOUR / 30  # each full report that is tried makes one, too
    assert float(stage.status["updateTime"]) >= START + 300 + HALF_AN_HOUR
    assert stage.publisher.report_status.problem == ""
    assert stage.metric("report_lag_seconds") == 0


async def test_lag_grows_while_away(stage: Stage) -> None:
    """How long reports are overdue can be watched."""
    await stage.publisher.report()
    stage.fake.down = 503
    stage.time[0] += 600
    assert stage.metric("report_lag_seconds") == pytest.approx(540, abs=1)


async def test_retry_after_is_obeyed(stage: Stage) -> None:
    """A server that asks for time gets it, for full and for fast reports."""
    stage.fake.down, stage.fake.retry_after = 429, "45"
    assert await stage.publisher.report() == 45
    stage.fake.down = 0
    await stage.publisher.report()
    stage.fake.down = 429
    assert await stage.publisher.check() == 45


async def test_absent_object_is_said_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A NodeMetric that does not exist is said once, tried again ever later, and found when it comes."""
    there, stage.fake.stored = stage.fake.stored, None
    waits = [await stage.publisher.report() for _ in range(8)]
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]
    assert caplog.text.count("there is no NodeMetric worker yet") == 1
    assert stage.reports.made == 8  # what it would say is on /metrics
    stage.fake.stored = there
    assert await stage.publisher.report() > 30
    assert stage.publisher.report_status.problem == ""
    assert stage.metric("reports_total", kind="full", result="absent") == 8


async def test_deleted_object_comes_back(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A NodeMetric that is deleted is noticed at the next check, and the new one gets a full report within seconds."""
    fakes: list[FakeApi] = [stage.fake]
    kept = stage.fake.stored

    def delete() -> None:
        fakes[0].stored = None

    def recreate() -> None:
        fakes[0].stored = kept
        fakes[0].recreate()

    await Play(stage, 400, {90: delete, 290: recreate}).run()
    assert caplog.text.count("there is no NodeMetric worker yet") == 1
    assert float(stage.status["updateTime"]) >= START + 290


async def test_unreachable_server_backs_off(caplog: pytest.LogCaptureFixture) -> None:
    """A closed port is an outage like any other, said once."""
    async with kube.ApiServer(connection("http://127.0.0.1:9"), user_agent="test") as api:
        publisher = Publisher(api, NAME, cast("ReportBuilder", FakeReports()), NO_JITTER, Metrics())
        assert [await publisher.report() for _ in range(3)] == [1, 2, 4]
        assert "cannot report" in publisher.report_status.problem
    assert len(_warnings(caplog)) == 1


async def test_expired_token_is_renewed(tmp_path: Path) -> None:
    """A token that kubelet has renewed on disk is read anew when the old one is not accepted: no report is lost."""
    token = tmp_path / "token"
    token.write_text("old")
    file = TokenFile(token)
    async with serving() as (fake, api):
        fake.token = "new"  # noqa: S105 - not a secret
        login = api.connection
        api.connection = kube.Connection(login.server, None, file.authorization, file.forget)
        publisher = Publisher(api, NAME, cast("ReportBuilder", FakeReports()), NO_JITTER, Metrics())
        assert file.authorization() == "Bearer old"
        token.write_text("new")
        assert await publisher.report() > 30
        assert publisher.report_status.problem == ""
