"""Publishing, on a clock that runs as fast as the test; the API server may be away for half an hour."""

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.reporter.publisher import FAST_KEYS
from crds.predict_policy import DEFAULTS
from headroom.kube import ApiError, ApiUnavailable
from tests.agent.reporter.stage import PATH, PREDICTION, READY, START, Stage, moment, moved

AWAY = ApiUnavailable("The API server answers 503", status=503)
COLLECTING = replace(PREDICTION, readiness=READY._replace(ready=False, reason="CollectingHistory"))
REJECTED = replace(PREDICTION, problem="spec.predictPolicy.model: there is no model 'x'")
CHANGED = (ApiError(409, "Conflict", "changed"), ApiError(410, "Expired", "too old"))
THEIRS = {"type": "MidPublished", "status": "True"}


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_full_report_replaces_only_our_fields(stage: Stage) -> None:
    prediction = {"policy": {"parameters": {"windowDays": 7}}}
    conditions = [THEIRS, {"type": "Collecting", "status": "False"}, {"type": 7}, "text"]
    theirs = {"hostApplicationMetric": [{"name": "nginx"}]}
    stage.api.edit(
        spec={"metricCollectPolicy": {"reportIntervalSeconds": 30}},
        status={**theirs, "podsMetric": [{"name": "gone"}], "conditions": conditions, "prediction": prediction},
    )
    stage.time = moment(30)
    assert await stage.publisher.report() == pytest.approx(30, abs=1e-3)  # as the answer's spec says
    sent = {
        "updateTime": f"{moment(30):.0f}",
        "nodeMetric": {},
        "podsMetric": [],
        "prediction": {"policy": {"parameters": {"n": 3}}},
        "prodReclaimableMetric": {"resource": {"resources": {"cpu": "1000"}}},
        "conditions": [THEIRS, {"type": 7}, {"type": "Collecting", "status": "True", "reason": "Ready"}],
    }
    assert stage.status == theirs | sent
    assert [entry.type for entry in stage.reports.previous] == ["MidPublished", "Collecting"]
    assert "hostApplicationMetric" not in stage.patches()[0]
    assert stage.publisher.report_status.problem == ""
    assert stage.metric("report_bytes_total", kind="full") > 100


async def test_unmeasured_node_keeps_the_old_time(stage: Stage) -> None:
    stage.api.edit(status={"updateTime": "long ago"})
    stage.reports.measured = False
    await stage.publisher.report()
    assert stage.status["updateTime"] == "long ago"


async def test_moved_prediction_is_sent_alone_and_a_changed_condition_with_it(stage: Stage) -> None:
    await stage.publisher.report()
    stage.time += 20
    stage.reports.prediction = moved(1100)
    assert await stage.publisher.check() == 0
    assert stage.patches()[1].keys() == FAST_KEYS - {"prodPeakMetric"}
    assert stage.status["prodReclaimableMetric"]["resource"]["resources"]["cpu"] == "1100"
    assert stage.status["updateTime"] == f"{START:.0f}"
    stage.reports.prediction = COLLECTING
    await stage.publisher.check()
    assert stage.patches()[2].keys() >= {"prediction", "conditions"}
    assert stage.reports.previous[-1].reason == "Ready"


async def test_conditions_of_others_are_never_set_back(stage: Stage) -> None:
    for status, ours in (("True", "Ready"), ("False", "Ready"), ("Unknown", "CollectingHistory")):
        mine = [condition for condition in stage.conditions() if condition["type"] == "Collecting"]
        stage.api.edit(status={"conditions": [*mine, {**THEIRS, "status": status}]})
        stage.reports.prediction = PREDICTION if ours == "Ready" else COLLECTING
        await stage.publisher.report()
        stored = {condition["type"]: condition for condition in stage.conditions()}
        assert (stored["MidPublished"]["status"], stored["Collecting"]["reason"]) == (status, ours)
    assert ["conditions" in patch for patch in stage.patches()] == [True, False, True, True]  # after a conflict
    assert (stage.publisher.report_status.problem, stage.reports.problems) == ("", [])  # whatever their order is


@pytest.mark.parametrize("cpu", [1060, 940])
async def test_change_counts_from_the_last_sent_report(stage: Stage, cpu: int) -> None:
    """Small steps add up, up or down; what hardly moved is sent after the force-update interval."""
    await stage.publisher.report()
    for step, sent in ((1, 1), (2, 1), (3, 2), (0, 3)):
        stage.reports.prediction = moved(1000 + (cpu - 1000) * step // 3)
        await stage.publisher.check()
        assert len(stage.patches()) == sent
    stage.time += 599
    await stage.publisher.check()
    assert len(stage.patches()) == 3
    stage.time += 1
    await stage.publisher.check()
    assert len(stage.patches()) == 4


async def test_check_without_news_reads_metadata_alone_and_the_first_one_reports(stage: Stage) -> None:
    assert await stage.publisher.check() > 0
    assert "updateTime" in stage.patches()[0]
    stage.api.calls.clear()
    await stage.publisher.check()
    assert stage.api.calls == [("METADATA", PATH, None)]


async def test_edited_policy_is_obeyed_at_the_next_check(stage: Stage) -> None:
    await stage.publisher.report()
    stage.api.edit(spec={"predictPolicy": {"model": "sum-max"}})
    await stage.publisher.check()
    assert stage.publisher.spec.predict_policy.model == "sum-max"
    assert (len(stage.patches()), stage.reports.generation) == (2, 2)


async def test_cache_that_is_behind_is_no_news(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes the agent read the object; a fast report that falls on a new object is followed by a full one."""
    await stage.publisher.report()
    behind: dict[str, Any] = {"uid": "u1", "generation": 0}

    async def metadata(_path: str) -> dict[str, Any]:
        return behind

    with monkeypatch.context() as patched:
        patched.setattr(stage.api, "metadata", metadata)
        await stage.publisher.check()
        assert len(stage.patches()) == 1
        behind |= await stage.api.__class__.metadata(stage.api, PATH)
        stage.reports.prediction = moved(2000)
        stage.api.recreate()
        await stage.publisher.check()
        assert "updateTime" not in stage.status
    assert await stage.publisher.check() > 0
    assert stage.status["updateTime"] == f"{START:.0f}"


async def test_prediction_arrives_where_the_full_report_is_refused(stage: Stage) -> None:
    stage.api.refuses = {"nodeMetric"}
    assert await stage.publisher.report() == 1
    await stage.publisher.check()
    assert stage.status["prodReclaimableMetric"]
    assert "must not be" in stage.publisher.report_status.problem
    assert await stage.publisher.report() == 2
    stage.api.refuses = set()
    await stage.publisher.report()
    assert stage.publisher.report_status.problem == ""


async def test_garbage_in_the_spec_is_reported_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.time = moment(30)
    for seconds in (30, "soon", "soon"):
        stage.api.edit(spec={"metricCollectPolicy": {"reportIntervalSeconds": seconds}})
        assert await stage.publisher.report() == pytest.approx(30, abs=1e-3)
    await stage.publisher.report()
    assert caplog.text.count("reportIntervalSeconds") == 1
    (problem,) = stage.reports.problems
    assert "reportIntervalSeconds" in problem
    assert "last good value" in problem


async def test_rejected_policy_is_one_event_and_its_repair_another(stage: Stage) -> None:
    """They are made by checks and reports; an event that failed is made up for, though there is no news by then."""
    await stage.publisher.report()
    stage.reports.prediction = REJECTED
    stage.api.fails["POST"] = AWAY
    await stage.publisher.check()
    del stage.api.fails["POST"]
    for prediction in (REJECTED, REJECTED, PREDICTION, PREDICTION):
        stage.time += 60
        stage.reports.prediction = prediction
        await stage.publisher.report()
    warning, normal = stage.events()[-2:]
    assert stage.reasons() == ["PolicyRejected", "PolicyRejected", "PolicyApplied"]  # the first one was not taken
    assert (warning["type"], normal["type"]) == ("Warning", "Normal")
    assert warning["note"] == f"spec.predictPolicy.model: there is no model 'x'. Model {DEFAULTS.model} stays in force."
    regarding = warning["regarding"]
    assert (regarding["kind"], regarding["uid"], warning["reportingController"]) == (
        "NodeMetric",
        "u1",
        "headroom-agent",
    )


async def test_dropped_fields_are_reported(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Once in the log and an event, which are left where even the conditions are dropped; and in the condition."""
    stage.api.unknown_fields = {"status.prediction", "status.conditions"}
    for _ in range(3):
        await stage.publisher.report()
        stage.reports.prediction = moved(5000)
        await stage.publisher.check()
    assert caplog.text.count("install Headroom's") == 1
    assert sorted(re.findall("status[.][a-z]+", stage.events()[0]["note"])) == [
        "status.conditions",
        "status.prediction",
    ]
    assert "install Headroom's" in stage.reports.problems[0]
    assert stage.metric("report_dropped_fields") == 2
    stage.api.unknown_fields = set()
    await stage.publisher.report()
    await stage.publisher.report()
    assert stage.reports.problems == []
    assert stage.reasons() == ["ReportFieldsDropped", "ReportFieldsKept"]


@pytest.mark.parametrize("are_dropped", [False, True])
async def test_dropped_workloads_are_reported(stage: Stage, are_dropped: bool) -> None:  # noqa: FBT001
    """A definition that drops the workloads turns the workload history off, which the condition states."""
    stage.api.unknown_fields = {"status.workloads"} if are_dropped else {"status.podsMetric"}
    stage.reports.workloads = ("id 1 1 1 1 0",)
    for _ in range(2):
        await stage.publisher.report()
    assert ["workload history is off" in problem for problem in stage.reports.problems] == [True] * are_dropped


@pytest.mark.parametrize("field", ["updateTime", "prediction"])
@pytest.mark.parametrize("failing", [False, True])
async def test_second_reporter_is_reported(
    stage: Stage, field: str, *, failing: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Two agents on one node, or koordlet beside ours: once in the log, and in the condition until it is over."""

    async def another_reports(time: str) -> None:
        stage.time += 61
        stage.api.edit(status={**stage.status, field: time if field == "updateTime" else {"time": time}})
        await stage.publisher.check()
        await stage.publisher.report()

    stage.api.edit(status={"updateTime": "predecessor's"})
    await stage.publisher.report()
    await another_reports("first")
    assert stage.reports.problems == []  # may be the last one of an agent that ours replaces
    if failing:
        stage.api.fails[""] = AWAY
        await stage.publisher.report()
        stage.api.fails.clear()
        await stage.publisher.report()
    await another_reports("second")
    assert "second agent or Koordinator's koordlet" in stage.reports.problems[0]
    await another_reports("third")
    assert caplog.text.count("another program reports in this NodeMetric") == 1
    stage.time += 601
    await stage.publisher.report()
    assert stage.reports.problems == []


async def test_own_reports_are_no_second_reporter(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sent report is ours though the response was lost; the manager's conditions are no report."""
    take, sent = stage.api.patch, 0

    async def patch(path: str, body: dict[str, Any]) -> dict[str, Any]:
        nonlocal sent
        result = await take(path, body)
        sent += 1
        if sent % 2:
            raise ApiUnavailable("the answer was lost")
        return result

    monkeypatch.setattr(stage.api, "patch", patch)
    for _ in range(20):
        stage.time += 61
        await stage.publisher.report()
        ours = [condition for condition in stage.conditions() if condition["type"] == "Collecting"]
        stage.api.edit(status={**stage.status, "conditions": [*ours, THEIRS]})
        stage.reports.prediction = moved(1000 + 500 * (sent % 3))
        await stage.publisher.check()
        assert stage.reports.problems == []


class Over(Exception):  # noqa: N818 - not an error
    """The simulation has ended."""


async def play(stage: Stage, end: float, at: dict[float, Callable[[], None]]) -> None:
    """Let a publisher run until then, and do things at given times. [s]"""

    async def sleep(seconds: float) -> None:
        target = stage.time + seconds
        for due in sorted(entry for entry in at if START + entry <= target):
            stage.time = max(stage.time, START + due)
            at.pop(due)()
        stage.time = target
        if target >= START + end:
            raise Over

    stage.publisher.sleep = sleep
    with pytest.raises(Over):
        await stage.publisher.run()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_calm_hour_has_a_full_report_a_minute_at_the_nodes_own_second(stage: Stage) -> None:
    await play(stage, 3600, {})
    times = [float(patch["updateTime"]) for patch in stage.patches()]
    assert 58 <= len(times) <= 60
    assert {round((time - START) % 60) % 60 for time in times[1:]} == {0}


@pytest.mark.parametrize(
    "error",
    [
        AWAY,
        ApiUnavailable("The API server answers 429", status=429),
        ApiUnavailable("The API server cannot be reached: connection refused"),
        ApiError(401, "Unauthorized", "no login"),
        ApiError(403, "Forbidden", "no right"),
        ApiError(404, "", "no such kind"),
        *CHANGED,
    ],
    ids=str,
)
async def test_half_an_hour_away(stage: Stage, caplog: pytest.LogCaptureFixture, error: Exception) -> None:
    """A line at the start, one at the end, predictions meanwhile, a try every 30 s at the most."""
    counts: list[int] = []

    def begin() -> None:
        stage.api.fails[""] = error
        stage.api.calls.clear()

    def end() -> None:
        stage.api.fails.clear()
        counts.extend((len(stage.api.calls), stage.reports.predictions))

    with caplog.at_level(logging.INFO):
        await play(stage, 2160, {300: begin, 2100: end})
    (warning,) = warnings(caplog)
    assert "measuring goes on" in warning
    assert caplog.text.count("recovered after 30m") == 1
    tries, predictions = counts
    assert 30 <= tries <= (68 if error not in CHANGED else 98)  # these read the object again, too
    assert predictions >= 60  # each full report that is tried makes one, too
    assert float(stage.status["updateTime"]) >= START + 2100
    assert stage.publisher.report_status.problem == ""
    assert stage.metric("report_lag_seconds") == 0


async def test_lag_grows_while_away(stage: Stage) -> None:
    await stage.publisher.report()
    stage.time += 600
    assert stage.metric("report_lag_seconds") == pytest.approx(540, abs=1)


async def test_server_that_asks_for_time_gets_it(stage: Stage) -> None:
    busy = ApiUnavailable("The API server answers 429", status=429, retry_after=45)
    stage.api.fails[""] = busy
    assert await stage.publisher.report() == 45
    stage.api.fails.clear()
    await stage.publisher.report()
    stage.api.fails[""] = busy
    assert await stage.publisher.check() == 45


async def test_absent_object_is_waited_for(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once; what would be reported is on /metrics. A deleted one gets everything when it is back."""
    there = stage.api.objects.pop(PATH)
    assert [await stage.publisher.report() for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]
    assert stage.reports.made == 8
    assert caplog.text.count("there is no NodeMetric worker yet") == 1
    assert stage.metric("reports_total", kind="full", result="absent") == 8
    stage.api.put(PATH, there)
    assert await stage.publisher.report() > 30
    assert stage.publisher.report_status.problem == ""
    await play(stage, 400, {90: stage.api.objects.clear, 290: stage.api.recreate})
    assert caplog.text.count("there is no NodeMetric worker yet") == 2
    assert float(stage.status["updateTime"]) >= START + 290


async def test_report_that_cannot_be_made_is_tried_again(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.reports.broken = True

    def mend() -> None:
        stage.reports.broken = False

    await play(stage, 400, {200: mend})
    assert caplog.text.count("cannot report: the database is damaged") == 1
    assert float(stage.status["updateTime"]) >= START + 200
