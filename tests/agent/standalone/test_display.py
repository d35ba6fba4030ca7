"""What a standalone agent shows, of a recorded machine."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
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

Make = Callable[[str], RecordedMachine]
NO_COLD_START = {"predictPolicy": {"coldStartPeriodSeconds": 0}}


class Closed(io.StringIO):
    """A closed output (fake)."""

    def write(self, _text: str) -> int:
        """Fail as a pipe does."""
        raise BrokenPipeError(32, "Broken pipe")


@pytest.fixture
def machine(recorded: Make) -> RecordedMachine:
    """A machine with ten pods."""
    return recorded("v2-systemd")


@pytest.fixture
def display(machine: RecordedMachine, tmp_path: Path) -> Iterator[Display]:
    """A display of that machine after three ticks."""
    reports, pipeline, _ = recorded_reports(machine, tmp_path)
    yield Display(
        "worker",
        reports,
        lambda: Sources(pipeline.store, pipeline.training.trainer, reports._pods.pods(), reports._node.resources),
        lambda: "cgroup v2",
        lambda: [f"{step}: {why}" for step, why in pipeline.failing.items()],
        DisplaySettings(standalone=True, once=True),
        0.0,
        out=io.StringIO(),
        wall=lambda: START + machine.now,
    )
    pipeline.close(START)


def _written(display: Display) -> str:
    assert isinstance(display.out, io.StringIO)
    return display.out.getvalue()


async def _shown(display: Display, output: str) -> str:
    display.settings = replace(display.settings, output=output)
    await display.run()
    return _written(display)


async def test_json_is_one_document(display: Display) -> None:
    """With --once standard output holds exactly one NodeMetric, the one that is served."""
    content = json.loads(await _shown(display, "json"))
    assert (content["kind"], content["metadata"]["name"]) == ("NodeMetric", "worker")
    assert content["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] == 60
    assert len(content["status"]["podsMetric"]) >= 9
    assert content == json.loads(display.json())


async def test_yaml_is_the_same(display: Display) -> None:
    """YAML says what JSON says, without a second document."""
    (content,) = yaml.safe_load_all(await _shown(display, "yaml"))
    assert content == json.loads(display.json())


async def test_documents_follow_each_other(display: Display) -> None:
    """Without --once each report is a line of JSON, so that a program can tell where it ends."""
    display.settings = replace(display.settings, output="json", once=False, refresh_seconds=0.0001)

    class Enough(io.StringIO):
        def write(self, text: str) -> int:
            done = super().write(text)
            if self.getvalue().count("\n") == 2:
                raise BrokenPipeError
            return done

    display.out = Enough()
    await display.run()
    first, second = map(json.loads, _written(display).splitlines())
    assert first == second


async def test_table_names_everything(
    display: Display, machine: RecordedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has the node, the system, the classes and every pod, says why reclaimable is 0, and feeds /metrics."""
    full = Mock(wraps=display.report_builder.full)
    monkeypatch.setattr(display.report_builder, "full", full)
    text = await _shown(display, "table")
    for name in ("node", "system", "  prod, ", "  batch, ", machine.uid("b1"), "cold: "):
        assert name in text
    assert "only requested resources can be reclaimed" in text
    assert "At the predicted peak of everything" in text
    assert text == display.text()
    assert "Prod pods was observed for" in text
    full.assert_called_once()


def test_nothing_sold_is_a_condition(display: Display) -> None:
    """Without requests the prediction is not ready, and the condition says so."""
    display.spec = specs.read(NO_COLD_START, specs.default())
    status = display.node_metric()["status"]
    ready = next(one for one in status["conditions"] if one["type"] == "PredictionReady")
    assert (ready["status"], ready["reason"]) == ("False", "RequestsUnknown")
    assert "reclaimable is 0" in ready["message"]
    assert status["prodReclaimableMetric"]["resource"]["resources"] == {"cpu": "0", "memory": "0"}


async def test_closed_output_ends(display: Display) -> None:
    """When the output is closed, the display ends without an error."""
    display.out = Closed()
    await display.run()


async def test_failing_store_is_told(display: Display, caplog: pytest.LogCaptureFixture) -> None:
    """A report that cannot be made is an error with --once; else it is said, and tried again."""

    class Failing:
        def predict(self, *_args: object) -> None:
            raise StoreError("cannot read t.db: disk I/O error")

    display.report_builder = Failing()  # type: ignore[assignment] # fails before anything else is asked of it
    with pytest.raises(StoreError):
        await display.run()
    calls = []

    class Asked(Failing):
        def predict(self, *_args: object) -> None:
            calls.append(1)
            if len(calls) == 3:
                raise BrokenPipeError
            super().predict()

    display.report_builder = Asked()  # type: ignore[assignment]
    display.settings = replace(display.settings, once=False, refresh_seconds=0.0001)
    await display.run()
    assert caplog.text.count("nothing can be shown now: cannot read t.db") == 2


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_get_escapes(display: Display, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """The NodeMetric holds no control character or mark of direction, and reads back as it is."""
    hostile = {"name": "\x1b[2Jcart\nFORGED\u202e\x9b31m"}
    monkeypatch.setattr(Display, "node_metric", lambda _self: hostile)
    text = getattr(display, form)()
    assert text.replace("\n", "").isprintable()
    assert yaml.safe_load(text) == hostile
    assert not [line for line in text.split("\n") if line.startswith("FORGED")]
