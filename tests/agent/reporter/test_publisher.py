"""Publishing, against a fake API server that keeps what it is sent."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from agent.reporter.publisher import FAST_KEYS
from crds.predict_policy import DEFAULTS
from headroom import kube
from tests.agent.reporter.stage import PREDICTION, READY, START, Stage, moment, moved, staged


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """Everything, at a moment at which the node reports."""
    async with staged() as found:
        yield found


async def test_full_report_is_sent(stage: Stage) -> None:
    """A full report arrives, and the next one is due after the interval that the answer's spec names."""
    stage.fake.edit({"metricCollectPolicy": {"reportIntervalSeconds": 30}})
    stage.time[0] = moment(30)
    assert await stage.publisher.report() == pytest.approx(30, abs=1e-3)
    assert stage.status["updateTime"] == f"{moment(30):.0f}"
    assert stage.publisher.report_status.problem == ""
    assert stage.metric("report_bytes_total", kind="full") > 100


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
    stage.reports.prediction = moved(1100)
    assert await stage.publisher.check() == 0
    assert stage.fake.patches[1]["status"].keys() == FAST_KEYS - {"prodPeakMetric"}
    assert stage.status["prodReclaimableMetric"]["resource"]["resources"]["cpu"] == "1100"
    assert stage.status["updateTime"] == f"{START:.0f}"


async def test_fast_report_refreshes_conditions(stage: Stage) -> None:
    """A condition that changed is reported with the prediction, at once; the others' conditions stay."""
    assert stage.fake.stored is not None
    stage.fake.stored["status"] = {"conditions": [{"type": "Theirs", "status": "True"}]}
    await stage.publisher.report()
    stage.reports.prediction = replace(PREDICTION, readiness=READY._replace(ready=False, reason="CollectingHistory"))
    await stage.publisher.check()
    assert stage.fake.patches[1]["status"].keys() >= {"prediction", "conditions"}
    assert [one.get("reason") for one in stage.status["conditions"]] == [None, "CollectingHistory"]
    assert stage.reports.previous[-1].reason == "Ready"


async def test_conditions_of_others_are_safe(stage: Stage) -> None:
    """A condition that another program writes between two reports is never set back, whether ours changed or not."""
    theirs = {"type": "MidPublished", "status": "True"}
    stage.fake.tell(theirs)
    await stage.publisher.report()
    assert [one["type"] for one in stage.status["conditions"]] == ["MidPublished", "Collecting"]
    stage.fake.tell({**theirs, "status": "False"})
    await stage.publisher.report()
    assert "conditions" not in stage.fake.patches[-1]["status"]  # ours are the same
    stage.fake.tell({**theirs, "status": "Unknown"})
    stage.reports.prediction = replace(PREDICTION, readiness=READY._replace(ready=False, reason="CollectingHistory"))
    await stage.publisher.report()
    found = {one["type"]: one for one in stage.status["conditions"]}
    assert found["MidPublished"]["status"] == "Unknown"
    assert found["Collecting"]["reason"] == "CollectingHistory"
    assert stage.publisher.report_status.problem == ""


async def test_still_prediction_is_not_sent(stage: Stage) -> None:
    """A prediction that has hardly moved is not sent before the force-update interval."""
    await stage.publisher.report()
    stage.reports.prediction = moved(1040)
    stage.time[0] += 599
    await stage.publisher.check()
    assert len(stage.fake.patches) == 1
    stage.time[0] += 1
    await stage.publisher.check()
    assert len(stage.fake.patches) == 2


@pytest.mark.parametrize("cpu", [1060, 940])
async def test_change_counts_from_last_sent(stage: Stage, cpu: int) -> None:
    """Small steps add up, up or down: what counts is the value that was last sent, fully or fast."""
    await stage.publisher.report()
    for step in range(1, 4):
        stage.reports.prediction = moved(1000 + (cpu - 1000) * step // 3)
        await stage.publisher.check()
        assert len(stage.fake.patches) == (2 if step == 3 else 1)
    stage.reports.prediction = moved(1000)
    await stage.publisher.check()
    assert len(stage.fake.patches) == 3


async def test_first_check_reports_fully(stage: Stage) -> None:
    """Where nothing was sent yet, there is nothing to be fast about: a check makes a full report."""
    assert await stage.publisher.check() > 0
    assert "updateTime" in stage.fake.patches[0]["status"]


async def test_policy_edit_is_seen_at_once(stage: Stage) -> None:
    """An edited spec is obeyed at the next check, and the condition says for which generation it speaks."""
    await stage.publisher.report()
    await stage.publisher.check()
    assert len(stage.fake.patches) == 1
    stage.fake.edit({"predictPolicy": {"model": "sum-max"}})
    await stage.publisher.check()
    assert stage.publisher.spec.predict_policy.model == "sum-max"
    assert (len(stage.fake.patches), stage.reports.generation) == (2, 2)


async def test_still_spec_is_cheap(stage: Stage) -> None:
    """A check that finds nothing new reads the metadata of one object, and nothing else."""
    await stage.publisher.report()
    stage.fake.requests.clear()
    await stage.publisher.check()
    assert len(stage.fake.requests) == 1
    assert stage.fake.requests[0].startswith("GET ")


async def test_stale_cache_is_no_news(stage: Stage) -> None:
    """A cache that is behind makes the agent read the object once more, and nothing else."""
    await stage.publisher.report()

    async def metadata(path: str) -> dict[str, Any]:
        assert path
        return {"uid": "u1", "generation": 0}

    stage.publisher.api.metadata = metadata  # type: ignore[method-assign]
    await stage.publisher.check()
    assert len(stage.fake.patches) == 1


async def test_recreated_object_gets_everything(stage: Stage) -> None:
    """A NodeMetric that was deleted and made again gets a full report at the next check."""
    await stage.publisher.report()
    stage.fake.recreate()
    assert await stage.publisher.check() > 0
    assert stage.status["updateTime"] == f"{START:.0f}"


async def test_recreated_under_fast_report(stage: Stage) -> None:
    """A fast report that falls on a new object is followed by a full one."""
    await stage.publisher.report()
    stage.reports.prediction = moved(2000)
    real = stage.publisher.api.metadata
    stale = dict(await real(stage.publisher.path))

    async def metadata(path: str) -> dict[str, Any]:
        assert path
        return stale

    stage.publisher.api.metadata = metadata  # type: ignore[method-assign]
    stage.fake.recreate()
    await stage.publisher.check()
    assert "updateTime" not in stage.status
    stage.publisher.api.metadata = real  # type: ignore[method-assign]
    await stage.publisher.check()
    assert stage.status["updateTime"] == f"{START:.0f}"


async def test_refused_full_leaves_fast(stage: Stage) -> None:
    """Where the cluster's definition refuses the full report, the prediction still arrives, and the problem stays."""
    stage.fake.refuses = {"nodeMetric"}
    assert await stage.publisher.report() == 1
    await stage.publisher.check()
    assert stage.status["prodReclaimableMetric"]
    assert "must not be" in stage.publisher.report_status.problem
    assert await stage.publisher.report() == 2
    stage.fake.refuses = set()
    await stage.publisher.report()
    assert stage.publisher.report_status.problem == ""


async def test_unmeasured_node_keeps_old_time(stage: Stage) -> None:
    """A report without any measurement leaves updateTime as it was: it goes on ageing, and no reader trusts it."""
    assert stage.fake.stored is not None
    stage.fake.stored["status"] = {"updateTime": "long ago"}
    stage.reports.measured = False
    await stage.publisher.report()
    assert stage.status["updateTime"] == "long ago"


async def test_garbage_spec_is_told(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A broken spec keeps the last good one, in one log line and in the condition."""
    stage.fake.edit({"metricCollectPolicy": {"reportIntervalSeconds": 30}})
    stage.time[0] = moment(30)
    await stage.publisher.report()
    stage.fake.edit({"metricCollectPolicy": {"reportIntervalSeconds": "soon"}})
    for _ in range(3):
        assert await stage.publisher.report() == pytest.approx(30, abs=1e-3)
    assert caplog.text.count("reportIntervalSeconds") == 1
    assert "reportIntervalSeconds" in stage.reports.problems[0]
    assert "last good value" in stage.reports.problems[0]


async def test_rejected_policy_is_an_event(stage: Stage) -> None:
    """A policy that cannot be followed is one event that names the field, and its repair is another."""
    rejected = replace(PREDICTION, problem="spec.predictPolicy.model: there is no model 'x'")
    await stage.publisher.report()
    assert stage.fake.events == []
    for prediction in (rejected, rejected, PREDICTION, PREDICTION):
        stage.reports.prediction = prediction
        await stage.publisher.report()
    warning, normal = stage.fake.events
    assert (warning["type"], warning["reason"]) == ("Warning", "PolicyRejected")
    assert warning["note"] == f"spec.predictPolicy.model: there is no model 'x'. Model {DEFAULTS.model} stays in force."
    assert warning["regarding"]["kind"] == "NodeMetric"
    assert (warning["regarding"]["uid"], warning["reportingController"]) == ("u1", "headroom-agent")
    assert (normal["type"], normal["reason"]) == ("Normal", "PolicyObeyed")


async def test_event_that_failed_is_told_later(stage: Stage) -> None:
    """An event that the server could not take is written after a later report, though there is no news by then."""
    stage.reports.prediction = replace(PREDICTION, problem="spec.predictPolicy.model: there is no model 'x'")
    stage.fake.events_down = True
    await stage.publisher.report()
    stage.fake.events_down = False
    for _ in range(2):
        stage.time[0] += 60
        await stage.publisher.report()
    assert [event["reason"] for event in stage.fake.events] == ["PolicyRejected"]


async def test_rejection_is_told_at_next_check(stage: Stage) -> None:
    """A policy that is rejected is said within a check interval, though no number moved."""
    await stage.publisher.report()
    stage.reports.prediction = replace(PREDICTION, problem="spec.predictPolicy.model: there is no model 'x'")
    await stage.publisher.check()
    assert [event["reason"] for event in stage.fake.events] == ["PolicyRejected"]


async def test_pruning_is_told(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A definition that drops our fields is noticed in the answer, said once, in an event, and in the condition."""
    stage.fake.prunes = {"prediction"}
    for _ in range(3):
        await stage.publisher.report()
        stage.reports.prediction = moved(5000)
        await stage.publisher.check()
    assert caplog.text.count("drops status.prediction") == 1
    assert "install Headroom's" in stage.reports.problems[0]
    assert stage.metric("report_dropped_fields") == 1
    stage.fake.prunes = set()
    await stage.publisher.report()
    await stage.publisher.report()
    assert stage.reports.problems == []
    assert [event["reason"] for event in stage.fake.events] == ["ReportFieldsDropped", "ReportFieldsKept"]


async def test_koordinators_definition_prunes_conditions(stage: Stage) -> None:
    """Koordinator's own definition drops even the conditions: the event and the log are what is left to say it."""
    stage.fake.prunes = {"prediction", "conditions"}
    await stage.publisher.report()
    (event,) = stage.fake.events
    assert (
        "status.conditions, status.prediction" in event["note"]
        or "status.prediction, status.conditions" in event["note"]
    )


async def test_odd_conditions_are_replaced(stage: Stage) -> None:
    """Unreadable conditions do not stop a report."""
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
    assert await stage.publisher._guarded("full", stage.publisher.report) == pytest.approx(60, abs=1e-3)


async def _another_reports(stage: Stage, field: str, value: str) -> None:
    """Another program's report, a minute later, and what ours makes of it at its next check."""
    stage.time[0] += 61
    assert stage.fake.stored is not None
    stage.fake.tell()
    stage.status.update({"updateTime": value} if field == "updateTime" else {"prediction": {"time": value}})
    await stage.publisher.check()


@pytest.mark.parametrize("field", ["updateTime", "time"])
@pytest.mark.parametrize("failing", [False, True])
async def test_second_reporter_is_told(
    stage: Stage,
    field: str,
    failing: bool,  # noqa: FBT001 - a parameter
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two agents on one node, or koordlet beside ours: said once in the log, and in the condition until it is over."""
    assert stage.fake.stored is not None
    stage.fake.stored["status"] = {"updateTime": "predecessor's"}
    await stage.publisher.report()
    await _another_reports(stage, field, "first")
    await stage.publisher.report()
    assert stage.reports.problems == []  # may be the last one of an agent that ours replaces
    if failing:
        stage.fake.down = 503
        await stage.publisher.report()
        stage.fake.down = 0
        await stage.publisher.report()
    await _another_reports(stage, field, "second")
    await stage.publisher.report()
    assert "second agent or Koordinator's koordlet" in stage.reports.problems[0]
    await _another_reports(stage, field, "third")
    assert caplog.text.count("another program reports in this NodeMetric") == 1
    stage.time[0] += 601
    await stage.publisher.report()
    assert stage.reports.problems == []


async def test_own_reports_are_no_second_reporter(stage: Stage) -> None:
    """What we sent is ours, though the answer was lost, and so are the manager's conditions no report."""
    take, lost = stage.publisher.api.patch, 0

    async def patch(path: str, body: dict[str, Any]) -> dict[str, Any]:
        nonlocal lost
        found = await take(path, body)
        lost += 1
        if lost % 2:
            raise kube.ApiUnavailable("the answer was lost")
        return found

    stage.publisher.api.patch = patch  # type: ignore[method-assign, assignment]
    for _ in range(20):
        stage.time[0] += 61
        await stage.publisher.report()
        stage.fake.tell({"type": "MidPublished", "status": "True", "reason": "Published"})
        stage.reports.prediction = moved(1000 + 500 * (lost % 3))
        await stage.publisher.check()
        assert stage.reports.problems == []
