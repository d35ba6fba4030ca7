"""What is gathered for a report, and the same NodeMetric without a cluster."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from agent.metrics import Metrics
from agent.prediction.node import NodeResources
from agent.reporter import spec as specs
from agent.reporter.conditions import timestamp
from agent.reporter.reporter import Report, ReportBuilder
from agent.reporter.spec import SpecInForce
from agent.samples import NODE, Sample
from agent.settings import load
from agent.sources.pod import CgroupPods, ListedAndCgroupPods
from agent.tsdb.tsdb import Tsdb
from agent.wiring import build
from crds.codec import from_json
from crds.node_metric import NodeMetricStatus
from crds.predict_policy import DEFAULTS, PredictPolicy
from tests.agent.made_pipeline import START, NoPods, made_pipeline, recorded_reports
from tests.agent.recorded import RecordedMachine

Make = Callable[[str], RecordedMachine]


def test_report_shows_machine(recorded: Make, tmp_path: Path) -> None:
    """The report of a recorded machine has its pods' usage, its classes and its prediction; metrics show the same."""
    machine = recorded("v2-systemd")
    reports, pipeline, metrics = recorded_reports(machine, tmp_path)
    policy = {"predictPolicy": {"coldStartPeriodSeconds": 0, "model": "max", "of": [{"model": "nsigma-v1"}]}}
    found = reports.full(START + machine.now, specs.read(policy, specs.default()))
    status = from_json(NodeMetricStatus, found.status)
    usage = {one.name: one.pod_usage for one in status.pods_metric or ()}
    busy = usage[machine.uid("b1")]
    assert busy is not None
    assert 250 <= int((busy.resources or {})["cpu"].removesuffix("m")) <= 310
    assert found.prediction.policy.model == "max"
    value = metrics.registry.get_sample_value
    prod = value("headroom_agent_usage", {"class": "prod", "resource": "cpu"})
    assert prod is not None
    assert 0.4 < prod < 0.9
    assert value("headroom_agent_pods", {"state": "warm"}) == found.prediction.warm
    pipeline.close(START)


def test_report_tells_what_waited(recorded: Make, tmp_path: Path) -> None:
    """What the store has of throttling and pressure is in the full report of a recorded machine, and in metrics."""
    machine = recorded("v2-systemd")
    reports, pipeline, metrics = recorded_reports(machine, tmp_path)
    now, uid = START + machine.now, machine.uid("b1")
    pipeline.store.append(
        now + 1, [Sample("psi_memory_some", uid, now + 1, 0.25), Sample("psi_cpu_some", NODE, now + 1, 0.5)]
    )
    (reported,) = (
        one["extensions"] for one in reports.full(now + 1, specs.default()).status["podsMetric"] if one["name"] == uid
    )
    assert reported["pressurePercent"] == {"memory": 25}
    labels = {"node": "n1", "resource": "cpu", "kind": "some"}
    assert metrics.registry.get_sample_value("headroom_agent_node_pressure_ratio", labels) == 0.5
    pipeline.close(START)


def test_failing_steps_are_told(recorded: Make, tmp_path: Path) -> None:
    """A step that fails is in the condition, where people look first."""
    machine = recorded("v2-systemd")
    reports, pipeline, _ = recorded_reports(machine, tmp_path)
    pipeline.failing["store"] = "cannot write agent.db: database or disk is full"
    found = reports.full(START + machine.now, specs.default(), problems=["The spec is odd."])
    message = found.status["conditions"][0]["message"]
    assert "The spec is odd." in message
    assert "disk is full" in message
    pipeline.close(START)


def _time_of(found: Report) -> tuple[str | None, str | None]:
    status = from_json(NodeMetricStatus, found.status)
    assert status.prediction is not None
    return status.update_time, status.prediction.time


def test_stuck_machine_grows_old(recorded: Make, tmp_path: Path) -> None:
    """Without new measurements a report keeps the time of the last ones, however often it is sent."""
    machine = recorded("v2-systemd")
    reports, pipeline, _ = recorded_reports(machine, tmp_path)
    ticked = START + machine.now
    fresh = reports.full(ticked, specs.default())
    assert _time_of(fresh) == (timestamp(ticked), timestamp(ticked))
    stuck = reports.full(ticked + 200, specs.default())
    assert _time_of(stuck) == _time_of(fresh)
    assert "nodeUsage" in stuck.status["nodeMetric"]
    later = reports.full(ticked + 1000, specs.default())  # nothing is in the window any more
    assert _time_of(later) == _time_of(fresh)
    assert later.status["nodeMetric"]["nodeUsage"] == {}
    assert later.status["conditions"][0]["reason"] == "NodeNotMeasured"
    fast = reports.fast(ticked + 1000, specs.default(), later.prediction)
    assert fast.status["prediction"]["time"] == timestamp(ticked)
    pipeline.close(START)


def test_clock_set_back_is_told(recorded: Make, tmp_path: Path) -> None:
    """After a clock that was an hour ahead, the time of the next measurement is reported, though it is earlier."""
    machine = recorded("v2-systemd")
    reports, pipeline, _ = recorded_reports(machine, tmp_path)
    ahead = reports.full(START + machine.now, specs.default())
    now = START + machine.now - 3600
    assert _time_of(reports.full(now, specs.default())) == _time_of(ahead)
    pipeline.run_once(now)
    assert _time_of(reports.full(now, specs.default())) == (timestamp(now), timestamp(now))
    pipeline.close(START)


def test_prediction_without_learning_ages(recorded: Make, tmp_path: Path) -> None:
    """When learning has stopped, what is predicted bears the time up to which was learned; usage stays fresh."""
    machine = recorded("v2-systemd")
    reports, pipeline, _ = recorded_reports(machine, tmp_path)
    learned = pipeline.training.trainer.trained_until
    assert learned is not None
    pipeline.training.trainer.trained_until = learned - 3600  # as if it had stopped an hour ago
    now = START + machine.now
    assert _time_of(reports.full(now, specs.default())) == (timestamp(now), timestamp(learned - 3600))
    pipeline.close(START)


class _NoNode:
    """A node of which nothing is known."""

    resources = NodeResources()

    async def run(self) -> None:
        """Nothing to follow."""


def test_unlisted_pods_have_a_class(recorded: Make, tmp_path: Path) -> None:
    """What runs and is on no list is used by Prod, lowers what is reclaimable, and has its share of every peak."""
    machine = recorded("v2-systemd")
    reports, pipeline, _ = recorded_reports(machine, tmp_path, NoPods())
    found = reports.full(START + machine.now, specs.default())
    classes = {one["name"]: one for one in found.status["prediction"]["classes"]}
    used = {name: _milli(one["usage"]["cpu"]) for name, one in classes.items()}
    assert used["prod"] > 400
    assert used["node"] == pytest.approx(sum(used.values()) - used["node"], abs=len(used))  # each is cut off
    assert _milli(classes["prod"]["peak"]["cpu"]) >= used["prod"]
    assert _milli(classes["node"]["peak"]["cpu"]) >= max(used["node"], _milli(classes["prod"]["peak"]["cpu"]))
    fast = reports.fast(START + machine.now + 200, specs.default(), found.prediction)  # of the prediction's moment
    assert fast.status["prediction"]["classes"] == found.status["prediction"]["classes"]
    assert {one["priority"] for one in found.status["podsMetric"]} == {"koord-prod"}
    assert "PodsUnlisted" not in str(found.status["conditions"])  # a moment ago they may have been on their way
    pipeline.close(START)


def test_unlisted_pods_are_looked_for(recorded: Make, tmp_path: Path) -> None:
    """With a list of pods from a cluster, the agent also takes in what runs without being listed."""
    live = str(recorded("v2-systemd").live)
    arguments = ["--node-name", "n1", "--host-root", live, "--data-dir", str(tmp_path)]
    for source, kind in (("api", ListedAndCgroupPods), ("cgroups", CgroupPods)):
        settings = load([*arguments, "--pods-from", source], {})
        parts = build(settings, cast("Any", object()))  # nothing is asked of the server yet
        assert type(parts.pods) is kind
        parts.pipeline.close(START)


MINE, THEIRS = PredictPolicy(model="recent-max"), {"predictPolicy": {"model": "sum-max"}}


def _asked(spec: dict[str, Any]) -> SpecInForce:
    return replace(specs.read(spec, specs.default()), generation=1)


def _model(reports: ReportBuilder, spec: dict[str, Any]) -> tuple[str | None, bool]:
    """The model in force with this spec, and whether the report says that the spec has lost its policy."""
    found = reports.full(START, _asked(spec))
    return found.prediction.policy.model, "spec.predictPolicy is gone" in found.status["conditions"][0]["message"]


def test_lost_policy_stays_in_force(tmp_path: Path) -> None:
    """A spec that is replaced by one without policy changes nothing, over a restart either; {} asks for the default."""
    first = _empty(tmp_path, MINE)[0]
    assert _model(first, {}) == ("recent-max", False)  # no spec ever requested one
    assert _model(first, THEIRS) == ("sum-max", False)
    assert _model(first, {}) == ("sum-max", True)
    assert _model(first, {"predictPolicy": {"model": "nobodys"}}) == ("sum-max", False)
    first._pipeline.close(START)
    second = _empty(tmp_path)[0]
    assert _model(second, {}) == ("sum-max", True)
    assert _model(second, {"predictPolicy": {}}) == (DEFAULTS.model, False)
    assert _model(second, {}) == (DEFAULTS.model, False)
    second._pipeline.close(START)
    last = _empty(tmp_path, MINE)[0]  # what was the default before is none that was asked for
    assert _model(last, {}) == ("recent-max", False)
    assert _model(last, {"predictPolicy": {"model": "nobodys"}}) == ("recent-max", False)
    last._pipeline.close(START)


def _milli(text: str) -> int:
    return int(text.removesuffix("m")) if text.endswith("m") else 1000 * int(text)


def _empty(folder: Path, policy: PredictPolicy | None = None) -> tuple[ReportBuilder, NoPods, Metrics]:
    metrics, pods = Metrics(), NoPods()
    pipeline = made_pipeline(folder, {}, pods, metrics=metrics)
    return ReportBuilder(pipeline, pods, _NoNode(), metrics, policy), pods, metrics


def test_never_measured_has_no_time(tmp_path: Path) -> None:
    """A node of which nothing was ever measured is reported without a time, and with the reason."""
    reports, pods, metrics = _empty(tmp_path)
    pods.problem = "the pods of this node cannot be watched: gone away"
    found = reports.full(START, specs.default())
    assert _time_of(found) == (None, None)
    collecting, ready = found.status["conditions"]
    assert (collecting["status"], collecting["reason"], ready["status"]) == ("False", "NodeNotMeasured", "False")
    assert "The pods of this node cannot be watched: gone away." in collecting["message"]
    assert metrics.registry.get_sample_value("headroom_agent_node_used_cpu_cores", {"node": ""}) is None
    reports._pipeline.close(START)


def test_listing_pods_is_awaited(tmp_path: Path) -> None:
    """No report is made while the pods are being listed; when they cannot be, that is what is reported."""
    reports, pods, _ = _empty(tmp_path)
    pods.synced = False
    with pytest.raises(RuntimeError, match="not listed yet"):
        reports.full(START, specs.default())
    pods.problem = "the pods of this node cannot be watched: forbidden"
    message = reports.full(START, specs.default()).status["conditions"][0]["message"]
    assert "cannot be watched: forbidden. Until then nothing is reclaimable." in message
    reports._pipeline.close(START)


def test_metrics_have_reference_names(recorded: Make, tmp_path: Path) -> None:
    """What koordlet exports is exported under its names, with its labels and units; what is unknown is not there."""
    machine = recorded("v2-systemd")
    reports, pipeline, metrics = recorded_reports(machine, tmp_path)
    reports.full(START + machine.now, specs.default())
    text = metrics.render().decode()
    node, cpu = 'node="n1"', 'resource="cpu",unit="core"'
    model, band = 'predictor="diversity"', 'priority="koord-prod"'
    for line in (
        f"start_time{{{node}}} ",
        f"node_used_cpu_cores{{{node}}} ",
        f"node_used_memory_bytes{{{node}}} ",
        f'node_resource_allocatable{{{node},resource="memory",unit="byte"}} ',
        f"node_metric_node_usage{{{node},{cpu}}} ",
        f"node_metric_system_usage{{{node},{cpu}}} ",
        f"node_predicted_resource_reclaimable{{{node},{model},{cpu}}} ",
        f"node_predicted_resource_peak{{{node},{model},{cpu}}} ",
        f"node_priority_resource_reclaimable{{{node},{band},{cpu}}} ",
        f"node_resource_priority_reclaimable_status{{{node},{band}}} 0.0",
        'models{kind="pod"} ',
        'model_observed_seconds{kind="node",stat="max"} ',
        "training_seconds_count ",
        "checkpoint_failures_total 0.0",
    ):
        assert f"headroom_agent_{line}" in text, line
    pipeline.close(START)


def test_policy_arrives_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long minutes are kept is set when a policy arrives, not at each prediction; a lost one changes nothing."""
    reports, _, _ = _empty(tmp_path)
    kept: list[float] = []
    monkeypatch.setattr(Tsdb, "set_minute_retention", lambda _, days: kept.append(days))
    spec = specs.read({"predictPolicy": {"model": "sum-max", "parameters": {"windowDays": 12}}}, specs.default())
    for _ in range(3):
        reports.predict(START, spec)
    reports.predict(START, specs.default())  # the policy last requested stays
    assert kept == [12.0, 12.0]
    reports._pipeline.close(START)
