"""docs/manager.md and docs/metrics.md list the manager's features: every flag, metric and event."""

import importlib
import inspect
import pkgutil
import re

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

import manager
from manager.metrics import ManagerMetrics
from manager.settings import load
from tests.architecture.sources import ROOT

PAGE = (ROOT / "docs/manager.md").read_text(encoding="utf-8")
METRICS = (
    (ROOT / "docs/metrics.md").read_text(encoding="utf-8").partition("# Metrics of the manager")[2].partition("\n# ")[0]
)
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([\w, ]*)\| (.+) \|$", flags=re.MULTILINE)

_OF_METRICS = {"registry": CollectorRegistry, "return": None}
"""The parts of a class of metrics."""


def _exported() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels of every metric: the manager's own, and those that its parts add to its registry."""
    metrics = ManagerMetrics()
    for result in pkgutil.walk_packages(manager.__path__, "manager."):
        if result.name.endswith("__main__"):
            continue
        module = importlib.import_module(result.name)
        for kind in vars(module).values():
            if inspect.isclass(kind) and inspect.get_annotations(kind.__init__) == _OF_METRICS:
                metrics.of(kind)
    return {
        name._name + ("_total" if name._type == "counter" else ""): (str(name._type), tuple(name._labelnames))
        for name in metrics.registry._collector_to_names
        if isinstance(name, MetricWrapperBase)
    }


def test_every_metric_is_explained() -> None:
    """The table names every metric, with its type and labels, and no other."""
    rows = _ROW.findall(METRICS)
    texts = {name: (kind, tuple(filter(None, labels.strip().split(", ")))) for name, kind, labels, _ in rows}
    assert texts == _exported()
    assert len(rows) == len(texts)


def test_every_flag_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """The table of flags has every flag of --help, and no other."""
    with pytest.raises(SystemExit):
        load(["--help"])
    helped = set(re.findall(r"^  (--[\w-]+)", capsys.readouterr().out, flags=re.MULTILINE))
    assert set(re.findall(r"^\| `(--[\w-]+)", PAGE, flags=re.MULTILINE)) == helped


def test_every_event_is_explained() -> None:
    """The page's table has every event reason in the code, and no other."""
    code = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "manager").rglob("*.py")))
    table = PAGE.partition("## Events\n")[2].partition("\n## ")[0]
    texts = set(re.findall(r"`([A-Z]\w+)`", table))
    in_code = set(re.findall(r'"((?:Mid|Degraded|Hot|NodeStrategy|NodeMetric|ColocationConfig)[A-Z]\w+)"', code))
    conditions = {"MidPublished", "MidDeficit", "MidPodsLimited", "NodeMetricList", "NodeMetric"}
    assert texts <= in_code | conditions
    assert {name for name in in_code if re.search(rf'(?:"Normal"|"Warning"), ?"{name}"', code)} <= texts
