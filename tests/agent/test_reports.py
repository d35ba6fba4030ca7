"""What is gathered for a report, and the same NodeMetric without a cluster."""

from collections.abc import Callable
from pathlib import Path

from agent.collectors.base import resolve
from agent.keeping import Keeper
from agent.learning import Learning
from agent.node_source import MachineNode
from agent.pipeline import Pipeline
from agent.pod_source import CgroupPods
from agent.reporter import spec as specs
from agent.reports import Reports
from agent.settings import LearnSettings
from agent.store.tsdb import Tsdb
from agent.telemetry import Metrics
from crds.codec import from_json
from crds.node_metric import NodeMetricStatus
from tests.agent.recorded import RecordedMachine

START = 1_700_000_100.0
Make = Callable[[str], RecordedMachine]


def _reports(machine: RecordedMachine, folder: Path) -> tuple[Reports, Pipeline, Metrics]:
    parts, metrics = machine.machine(), Metrics()
    parts.cgroups.locate()
    pods = CgroupPods(parts.cgroups)
    pipeline = Pipeline(
        resolve(["node", "pod"], parts),
        pods,
        Keeper(lambda: Tsdb.open(folder / "t.db")),
        lambda store: Learning(store, LearnSettings(interval_seconds=1.0)),
        metrics,
    )
    for instant in ("t000", "t002", "t010"):
        machine.advance(instant)
        pipeline.run_once(START + machine.now)
    return Reports(pipeline, pods, MachineNode(parts.paths), metrics), pipeline, metrics


def test_report_shows_machine(recorded: Make, tmp_path: Path) -> None:
    """The report of a recorded machine has its pods' usage, its classes and its prediction; metrics show the same."""
    machine = recorded("v2-systemd")
    reports, pipeline, metrics = _reports(machine, tmp_path)
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


def test_failing_steps_are_told(recorded: Make, tmp_path: Path) -> None:
    """A step that fails is in the condition, where people look first."""
    machine = recorded("v2-systemd")
    reports, pipeline, _ = _reports(machine, tmp_path)
    pipeline.failing["store"] = "cannot write agent.db: database or disk is full"
    found = reports.full(START + machine.now, specs.default(), problems=["The spec is odd."])
    message = found.status["conditions"][0]["message"]
    assert "The spec is odd." in message
    assert "disk is full" in message
    pipeline.close(START)
