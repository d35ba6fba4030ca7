import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from agent.reporter import spec as specs
from agent.settings import DisplaySettings
from agent.standalone.display import Display
from agent.standalone.overview import Sources
from agent.tsdb.schema import StoreError
from tests.agent.made_pipeline import START, recorded_reports
from tests.agent.recorded import RecordedMachine

CLOSED = BrokenPipeError(32, "Broken pipe")


class Output(io.StringIO):
    """An output that is closed after some lines (fake)."""

    def __init__(self, lines: float = float("inf")) -> None:
        super().__init__()
        self.lines = lines

    def write(self, text: str) -> int:
        if self.lines == 0:
            raise CLOSED
        done = super().write(text)
        if self.getvalue().count("\n") >= self.lines:
            raise CLOSED
        return done


@pytest.fixture
def display(machine: RecordedMachine, tmp_path: Path) -> Iterator[Display]:
    reports, pipeline, _ = recorded_reports(machine, tmp_path)
    yield Display(
        "worker",
        reports,
        lambda: Sources(pipeline.store, pipeline.training.trainer, reports._pods.pods(), reports._node.resources),
        lambda: "cgroup v2",
        lambda: [f"{step}: {why}" for step, why in pipeline.failing.items()],
        DisplaySettings(standalone=True, once=True),
        0.0,
        out=Output(),
        wall=lambda: START + machine.now,
    )
    pipeline.close(START)


async def shown(display: Display, **settings: Any) -> str:  # noqa: ANN401 - settings of the display
    display.settings = replace(display.settings, refresh_seconds=0.0001, **settings)
    await display.run()
    assert isinstance(display.out, Output)
    return display.out.getvalue()


@pytest.mark.parametrize("output", ["json", "yaml"])
async def test_output_is_the_one_node_metric_that_is_served(display: Display, output: str) -> None:
    content, *others = yaml.safe_load_all(await shown(display, output=output))
    assert [item["kind"] for item in others] == (["Node"] if output == "yaml" else [])
    assert (content["kind"], content["metadata"]["name"]) == ("NodeMetric", "worker")
    assert content["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] == 60
    assert len(content["status"]["podsMetric"]) >= 9
    assert content == json.loads(display.json())


@pytest.mark.parametrize(("measured", "first"), [(10.0, "10s"), (300.0, "5m0s"), (0.0, "5m0s"), (90.5, "1m30.5s")])
def test_first_report_has_percentiles_of_the_measured_time(display: Display, measured: float, first: str) -> None:
    """With `once` the windows begin with the measured time, and none of the printed windows is empty."""
    display.first_after_seconds = measured
    content = display.node_metric()
    durations = content["spec"]["metricCollectPolicy"]["nodeAggregatePolicy"]["durations"]
    assert (durations[0], durations[-1], durations.count("5m0s")) == (first, "30m0s", 1)
    usage = content["status"]["nodeMetric"]
    for window in (*usage["aggregatedNodeUsages"], *usage["aggregatedSystemUsages"]):
        assert all(amounts["resources"].keys() == {"cpu", "memory"} for amounts in window["usage"].values())
    display.settings = replace(display.settings, once=False)
    windows = display.node_metric()["status"]["nodeMetric"]["aggregatedNodeUsages"]
    assert [window["duration"] for window in windows] == ["5m0s", "10m0s", "30m0s"]  # as for a cluster


async def test_each_report_is_a_line_of_json_until_the_output_is_closed(display: Display) -> None:
    display.out = Output(lines=2)
    result = [json.loads(line)["kind"] for line in (await shown(display, output="json", once=False)).splitlines()]
    assert result == ["NodeMetric", "NodeMetric"]
    display.out = Output(lines=0)
    assert await shown(display, output="table") == ""


async def test_table_has_node_classes_pods_and_the_reason_for_zero(
    display: Display, machine: RecordedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Mock(wraps=display.report_builder.full)
    monkeypatch.setattr(display.report_builder, "full", full)
    text = await shown(display, output="table")
    parts = ["node", "system", "  prod, ", "  batch, ", machine.uid("b1"), "cold: ", "Prod pods was observed for"]
    parts += ["only requested resources can be reclaimed", "At the predicted peak of everything"]
    assert [part for part in parts if part not in text] == []
    assert text == display.text()
    full.assert_called_once()  # and feeds /metrics


def test_prediction_without_requests_is_not_ready(display: Display) -> None:
    display.spec = specs.read({"predictPolicy": {"coldStartPeriodSeconds": 0}}, specs.default())
    status = display.node_metric()["status"]
    (ready,) = (condition for condition in status["conditions"] if condition["type"] == "PredictionReady")
    assert (ready["status"], ready["reason"]) == ("False", "RequestsUnknown")
    assert "reclaimable is 0" in ready["message"]
    assert status["prodReclaimableMetric"]["resource"]["resources"] == {"cpu": "0", "memory": "0"}


async def test_failed_report_is_logged_once_and_retried(display: Display, caplog: pytest.LogCaptureFixture) -> None:
    broken = StoreError("cannot read t.db: disk I/O error")
    display.report_builder = Mock(predict=Mock(side_effect=[broken, broken, broken, CLOSED]))
    with pytest.raises(StoreError):
        await display.run()
    await shown(display, once=False)
    assert caplog.text.count("nothing can be shown now: cannot read t.db") == 2


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_get_escapes(display: Display, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """The NodeMetric has no control character or mark of direction, and reads back unchanged."""
    hostile = {"name": "\x1b[2Jcart\nFORGED\u202e\x9b31m"}
    monkeypatch.setattr(Display, "node_metric", lambda _self: hostile)
    text = getattr(display, form)()
    assert text.replace("\n", "").isprintable()
    assert yaml.safe_load(text) == hostile
    assert not [line for line in text.split("\n") if line.startswith("FORGED")]
