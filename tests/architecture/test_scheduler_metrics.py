"""docs/metrics.md has the extender's metrics, docs/scheduler.md its flags."""

import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from headroom.kube import ApiServer, Connection
from scheduler_plugins.metrics import Telemetry
from scheduler_plugins.providers.runner import ProviderMetrics
from scheduler_plugins.settings import load
from scheduler_plugins.wiring import assemble
from tests.architecture.sources import ROOT

PAGE = (ROOT / "docs/scheduler.md").read_text(encoding="utf-8")
METRICS = (ROOT / "docs/metrics.md").read_text(encoding="utf-8").partition("# Metrics of the scheduler")[2]
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([\w, ]*)\| (.+) \|$", flags=re.MULTILINE)


def _exported(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels of every metric of an extender, those of providers included."""
    made: list[Telemetry] = []

    def kept() -> Telemetry:
        made.append(Telemetry())
        return made[-1]

    monkeypatch.setattr("scheduler_plugins.wiring.Telemetry", kept)
    assemble(load([], {}), ApiServer(Connection("http://127.0.0.1:1", None, lambda: None), "test"))
    (telemetry,) = made
    telemetry.part(ProviderMetrics)
    registry: CollectorRegistry = telemetry.registry
    families = [
        entry
        for name in registry._collector_to_names
        for entry in ([name] if isinstance(name, MetricWrapperBase) else name.describe())  # type: ignore[attr-defined]
    ]
    return {
        _name(family) + ("_total" if _type(family) == "counter" else ""): (_type(family), tuple(family._labelnames))
        for family in families
    }


def _name(metric: Any) -> str:  # noqa: ANN401 - a stored metric, or a family made at the scrape
    return str(metric._name if isinstance(metric, MetricWrapperBase) else metric.name)


def _type(metric: Any) -> str:  # noqa: ANN401 - the same
    return str(metric._type if isinstance(metric, MetricWrapperBase) else metric.type)


def test_every_metric_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table names every metric, with its type and labels, and no other."""
    rows = _ROW.findall(METRICS)
    texts = {name: (kind, tuple(filter(None, labels.strip().split(", ")))) for name, kind, labels, _ in rows}
    assert texts == _exported(monkeypatch)
    assert len(rows) == len(texts)


def test_every_flag_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """The table of flags has every flag of --help, and no other."""
    with pytest.raises(SystemExit):
        load(["--help"], {})
    helped = set(re.findall(r"^  (--[\w-]+)", capsys.readouterr().out, flags=re.MULTILINE))
    assert set(re.findall(r"^\| `(--[\w-]+)", PAGE, flags=re.MULTILINE)) == helped
