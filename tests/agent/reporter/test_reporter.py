from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from agent.host.cgroup import ExclusiveCpus
from agent.metrics import Metrics
from agent.pipeline import Pipeline
from agent.pods import PodRef
from agent.prediction.node import NodeResources
from agent.reporter import spec as specs
from agent.reporter.conditions import timestamp
from agent.reporter.reporter import Report, ReportBuilder
from agent.samples import NODE, Sample
from agent.settings import load
from agent.sources.pod import CgroupPods, ListedAndCgroupPods
from agent.tsdb.tsdb import Tsdb
from agent.wiring import build
from crds.predict_policy import DEFAULTS, PredictPolicy
from tests.agent.made import pod
from tests.agent.made_pipeline import START, NoPods, made_pipeline, recorded_reports
from tests.agent.recorded import RecordedMachine

DEFAULT = specs.default()


class Parts(NamedTuple):
    reports: ReportBuilder
    pipeline: Pipeline
    metrics: Metrics
    now: float
    machine: RecordedMachine

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"headroom_agent_{name}", labels)


@pytest.fixture
def parts(machine: RecordedMachine, tmp_path: Path) -> Iterator[Parts]:
    reports, pipeline, metrics = recorded_reports(machine, tmp_path)
    yield Parts(reports, pipeline, metrics, START + machine.now, machine)
    pipeline.close(START)


class NoNode:
    resources = NodeResources()

    async def run(self) -> None:
        """Nothing to follow."""


@contextmanager
def unmeasured(folder: Path, policy: PredictPolicy | None = None) -> Iterator[tuple[ReportBuilder, NoPods]]:
    pods = NoPods()
    pipeline = made_pipeline(folder, {}, pods)
    yield ReportBuilder(pipeline, pods, NoNode(), Metrics(), policy), pods
    pipeline.close(START)


def test_held_back_pod_is_reported(machine: RecordedMachine, tmp_path: Path) -> None:
    """A pod that the kernel keeps below its need is named in the report, and counts at its highest usage."""
    name = machine.pod_path("b2").lstrip("/")
    reports, pipeline, _ = recorded_reports(machine, tmp_path, collectors=("node", "pod", "pod-held-back"))
    before = reports.full(START + machine.now, DEFAULT).status
    assert "heldBackNames" not in before["prediction"]["pods"]
    (machine.live / "sys/fs/cgroup" / name / "memory.swap.current").write_text("268435456")
    for second in range(1, 11):
        pipeline.run_once(START + machine.now + second)
    status = reports.full(START + machine.now + 10.0, DEFAULT).status
    pipeline.close(START)
    assert status["prediction"]["pods"]["heldBackNames"] == [machine.uid("b2")]
    (collecting,) = [item for item in status["conditions"] if item["type"] == "Collecting"]
    assert (collecting["status"], collecting["reason"]) == ("True", "MemoryHeldBack")
    assert machine.uid("b2") in collecting["message"]


def milli(text: str) -> int:
    return int(text.removesuffix("m")) if text.endswith("m") else 1000 * int(text)


def times(found: Report) -> tuple[str | None, str | None]:
    return found.status.get("updateTime"), found.status["prediction"].get("time")


def test_report_and_metrics_show_the_machine(parts: Parts) -> None:
    """The pods' usage, classes, prediction, pressure, and problems."""
    now, uid = parts.now + 1, parts.machine.uid("b1")
    waited = [Sample("psi_memory_some", uid, now, 0.25), Sample("psi_cpu_some", NODE, now, 0.5)]
    parts.pipeline.store.append(now, waited)
    parts.pipeline.failing["store"] = "cannot write agent.db: database or disk is full"
    policy = {"predictPolicy": {"coldStartPeriodSeconds": 0, "model": "max", "of": [{"model": "nsigma-v1"}]}}
    result = parts.reports.full(now, specs.read(policy, DEFAULT), problems=["The spec is malformed."])
    (busy,) = (entry for entry in result.status["podsMetric"] if entry["name"] == uid)
    assert 250 <= milli(busy["podUsage"]["resources"]["cpu"]) <= 310
    assert busy["extensions"]["pressurePercent"] == {"memory": 25}
    message = result.status["conditions"][0]["message"]
    assert "The spec is malformed." in message
    assert "disk is full" in message
    assert result.prediction.policy.model == "max"
    prod = parts.value("usage", **{"class": "prod", "resource": "cpu"})
    assert prod is not None
    assert 0.4 < prod < 0.9
    assert parts.value("pods", state="warm") == result.prediction.warm
    assert parts.value("node_pressure_ratio", node="n1", resource="cpu", kind="some") == 0.5


def test_reports_have_exclusive_cpus(parts: Parts) -> None:
    tree = parts.reports._cgroups
    assert tree is not None
    tree.exclusive = ExclusiveCpus(frozenset({0, 1, 5}), frozenset())
    full = parts.reports.full(parts.now, DEFAULT)
    fast = parts.reports.fast(parts.now, DEFAULT, full.prediction)
    assert [report.status["prediction"]["exclusiveCPUs"] for report in (full, fast)] == [{"cpus": "0-1,5"}] * 2


def test_condition_has_the_tree_without_pods(machine: RecordedMachine, tmp_path: Path) -> None:
    """Pods that are listed and have no cgroup in any known folder: the condition names the folders that there are."""

    class Listed(NoPods):
        def pods(self) -> list[PodRef]:
            return [pod("web")]

    reports, pipeline, _ = recorded_reports(machine, tmp_path, Listed())
    tree, now = reports._cgroups, START + machine.now
    assert tree is not None
    assert reports.full(now, DEFAULT).status["conditions"][0]["reason"] != "PodCgroupsNotFound"
    top = machine.live / "sys/fs/cgroup/kubepods.slice"
    top.rename(top.with_name("pods.slice"))
    tree.locate()
    tree.pods()
    condition = reports.full(now, DEFAULT).status["conditions"][0]
    pipeline.close(START)
    assert (condition["status"], condition["reason"]) == ("False", "PodCgroupsNotFound")
    assert "pods.slice, pods.slice/kubepods-besteffort.slice" in condition["message"]


def test_report_bears_the_time_of_the_last_measurement(parts: Parts) -> None:
    """However often it is sent; after a clock that was ahead, the time of the next one, though it is earlier."""
    fresh = (timestamp(parts.now), timestamp(parts.now))
    assert times(parts.reports.full(parts.now, DEFAULT)) == fresh
    stuck = parts.reports.full(parts.now + 200, DEFAULT)
    assert (times(stuck), "nodeUsage" in stuck.status["nodeMetric"]) == (fresh, True)
    later = parts.reports.full(parts.now + 1000, DEFAULT)  # the window is empty
    assert (times(later), later.status["nodeMetric"]["nodeUsage"]) == (fresh, {})
    assert later.status["conditions"][0]["reason"] == "NodeNotMeasured"
    fast = parts.reports.fast(parts.now + 1000, DEFAULT, later.prediction)
    assert fast.status["prediction"]["time"] == timestamp(parts.now)
    back = parts.now - 3600
    assert times(parts.reports.full(back, DEFAULT)) == fresh
    parts.pipeline.run_once(back)
    assert times(parts.reports.full(back, DEFAULT)) == (timestamp(back), timestamp(back))


def test_prediction_without_training_ages_while_usage_stays_fresh(parts: Parts) -> None:
    trained = parts.pipeline.training.trainer.trained_until
    assert trained is not None
    parts.pipeline.training.trainer.trained_until = trained - 3600  # as if it had stopped an hour ago
    assert times(parts.reports.full(parts.now, DEFAULT)) == (timestamp(parts.now), timestamp(trained - 3600))


def test_unlisted_pods_are_prod(machine: RecordedMachine, tmp_path: Path) -> None:
    """Usage of unlisted pods lowers Reclaimable, and has its share of every peak."""
    reports, pipeline, _ = recorded_reports(machine, tmp_path, NoPods())
    result = reports.full(START + machine.now, DEFAULT)
    classes = {cls_["name"]: cls_ for cls_ in result.status["prediction"]["classes"]}
    used = {name: milli(one["usage"]["cpu"]) for name, one in classes.items()}
    peaks = {name: milli(one["peak"]["cpu"]) for name, one in classes.items()}
    assert used["prod"] > 400
    assert used["node"] == pytest.approx(sum(used.values()) - used["node"], abs=len(used))  # each is cut off
    assert peaks["prod"] >= used["prod"]
    assert peaks["node"] >= max(used["node"], peaks["prod"])
    fast = reports.fast(START + machine.now + 200, DEFAULT, result.prediction)  # of the prediction's moment
    assert fast.status["prediction"]["classes"] == result.status["prediction"]["classes"]
    assert {entry["priority"] for entry in result.status["podsMetric"]} == {"koord-prod"}
    assert "PodsUnlisted" not in str(result.status["conditions"])  # a moment ago they may have been on their way
    pipeline.close(START)


@pytest.mark.parametrize(("source", "kind"), [("api", ListedAndCgroupPods), ("cgroups", CgroupPods)])
def test_pods_that_a_cluster_does_not_list_are_taken_in(
    machine: RecordedMachine, tmp_path: Path, source: str, kind: type
) -> None:
    arguments = ["--node-name", "n1", "--host-root", str(machine.live), "--data-dir", str(tmp_path)]
    built = build(load([*arguments, "--pods-from", source], {}), cast("Any", object()))  # no request is sent yet
    assert type(built.pods) is kind
    built.pipeline.close(START)


def test_policy_last_requested_stays_in_force(tmp_path: Path) -> None:
    """A spec replaced by one without a policy changes nothing, also after a restart; {} means the default."""

    def model(reports: ReportBuilder, policy: dict[str, Any] | None) -> tuple[str | None, bool]:
        spec = replace(specs.read({} if policy is None else {"predictPolicy": policy}, DEFAULT), generation=1)
        result = reports.full(START, spec)
        return result.prediction.policy.model, "spec.predictPolicy is gone" in result.status["conditions"][0]["message"]

    mine = PredictPolicy(model="recent-max")
    with unmeasured(tmp_path, mine) as (reports, _):
        assert model(reports, None) == ("recent-max", False)  # no spec ever requested one
        assert model(reports, {"model": "sum-max"}) == ("sum-max", False)
        assert model(reports, None) == ("sum-max", True)
        assert model(reports, {"model": "nobodys"}) == ("sum-max", False)
    with unmeasured(tmp_path) as (reports, _):
        assert model(reports, None) == ("sum-max", True)
        assert model(reports, {}) == (DEFAULTS.model, False)
        assert model(reports, None) == (DEFAULTS.model, False)
    with unmeasured(tmp_path, mine) as (reports, _):  # the former default was not requested
        assert model(reports, None) == ("recent-max", False)
        assert model(reports, {"model": "nobodys"}) == ("recent-max", False)


def test_node_never_measured_has_no_time_and_the_reason(tmp_path: Path) -> None:
    with unmeasured(tmp_path) as (reports, pods):
        pods.problem = "the pods of this node cannot be watched: gone away"
        result = reports.full(START, DEFAULT)
        assert times(result) == (None, None)
        collecting, ready = result.status["conditions"]
        assert (collecting["status"], collecting["reason"], ready["status"]) == ("False", "NodeNotMeasured", "False")
        assert "The pods of this node cannot be watched: gone away." in collecting["message"]
        assert b"node_used_cpu_cores{" not in reports._metrics.render()


def test_no_report_is_made_while_pods_are_being_listed(tmp_path: Path) -> None:
    """Otherwise the report has the failure."""
    with unmeasured(tmp_path) as (reports, pods):
        pods.synced = False
        with pytest.raises(RuntimeError, match="not listed yet"):
            reports.full(START, DEFAULT)
        pods.problem = "the pods of this node cannot be watched: forbidden"
        message = reports.full(START, DEFAULT).status["conditions"][0]["message"]
        assert "cannot be watched: forbidden. Until then nothing is reclaimable." in message


def test_metrics_have_koordlets_names_labels_and_units(parts: Parts) -> None:
    parts.reports.full(parts.now, DEFAULT)
    text = parts.metrics.render().decode()
    node, cpu = 'node="n1"', 'resource="cpu",unit="core"'
    model, band = 'predictor="coincidence"', 'priority="koord-prod"'
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


def test_minutes_are_kept_as_long_as_a_policy_that_arrives_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[float] = []
    spec = specs.read({"predictPolicy": {"model": "sum-max", "parameters": {"windowDays": 12}}}, DEFAULT)
    with unmeasured(tmp_path) as (reports, _):
        monkeypatch.setattr(Tsdb, "set_minute_retention", lambda _, days: stored.append(days))
        for inputs in (spec, spec, spec, DEFAULT):  # the policy last requested stays
            reports.predict(START, inputs)
    assert stored == [12.0, 12.0]
