"""Every alert fires when it should and not otherwise, queries exported metrics, and states an action."""

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.architecture.sources import ROOT
from tests.monitoring.alert_cases import CASES, Case
from tests.monitoring.exported import exported, missing
from tests.monitoring.promql import Need, needs
from tools.devcluster.packages import Prometheus

FILE: Final = ROOT / "charts/headroom/files/prometheus-alerts.yaml"
RULES: Final[list[dict[str, Any]]] = [
    rule for group in yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]
BY_NAME: Final = {rule["alert"]: rule for rule in RULES}
RUNBOOKS: Final = (ROOT / "docs/runbooks.md").read_text(encoding="utf-8")
AT_THE_END: Final = "240m"


def test_every_alert_has_a_case() -> None:
    """There is a case for each alert, and each has a name of its own."""
    assert len(RULES) == len(BY_NAME)
    assert set(CASES) == set(BY_NAME)


def test_alerts_query_exported_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every metric and label of every alert is exported by a service, and so are those of the cases."""
    metrics = exported(monkeypatch)
    wrong = [f"{name}: {gap}" for name, rule in BY_NAME.items() for gap in missing(rule["expr"], metrics)]
    wrong += [
        f"{name}, case: {entry}"
        for name, case in CASES.items()
        for series in (*case.bad, *case.good)
        for entry in missing(series, metrics)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", BY_NAME)
def test_alert_leads_to_its_runbook(name: str) -> None:
    """An alert has a severity, states its meaning, and links to a section of its own with the action."""
    rule = BY_NAME[name]
    notes = rule["annotations"]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(notes) == {"summary", "description", "runbook_url"}
    assert notes["description"].endswith(".")
    assert notes["runbook_url"] == f"docs/runbooks.md#{name.lower()}"
    section = RUNBOOKS.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert "**Meaning.**" in section
    assert "**Action.**" in section


def test_runbooks_are_of_alerts() -> None:
    """Every section belongs to an alert, in the order of the file."""
    assert re.findall(r"^## (Headroom\w+)$", RUNBOOKS, flags=re.MULTILINE) == list(BY_NAME)


def _test(name: str, case: Case, *, bad: bool) -> dict[str, Any]:
    rule = BY_NAME[name]
    expected = {
        "exp_labels": {**case.labels, **rule["labels"]},
        "exp_annotations": {**rule["annotations"], "summary": case.summary},
    }
    series = case.bad if bad else case.good
    return {
        "name": f"{name} {'fires' if bad else 'is quiet'}",
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "alert_rule_test": [{"eval_time": AT_THE_END, "alertname": name, "exp_alerts": [expected] if bad else []}],
    }


def _run_promtool(
    programs: Prometheus, folder: Path, name: str, *tests: dict[str, Any]
) -> subprocess.CompletedProcess[str]:
    """Promtool's verdict on tests of one alert; all alerts together would take a minute."""
    rules, path = folder / "rules.yaml", folder / "tests.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "one", "rules": [BY_NAME[name]]}]}))
    path.write_text(
        yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": list(tests)}, width=1000)
    )
    return subprocess.run([programs.tool, "test", "rules", path], capture_output=True, text=True, check=False)


@pytest.mark.alone
@pytest.mark.parametrize("name", BY_NAME)
def test_alert_fires_when_it_should(name: str, prometheus_programs: Prometheus, tmp_path: Path) -> None:
    """In the bad case it fires once, with the labels and words of its case; in the good case it does not."""
    case = CASES[name]
    done = _run_promtool(prometheus_programs, tmp_path, name, *(_test(name, case, bad=bad) for bad in (True, False)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.alone
def test_wrong_case_is_noticed(prometheus_programs: Prometheus, tmp_path: Path) -> None:
    """A case with other words than the alert fails, and so does one that fires where it should not."""
    name = "HeadroomNoManagerLeads"
    case = CASES[name]
    for wrong, bad in ((Case(case.bad, case.good, "Something else"), True), (Case({}, case.bad, case.summary), False)):
        done = _run_promtool(prometheus_programs, tmp_path, name, _test(name, wrong, bad=bad))
        assert done.returncode == 1
        assert name in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", [("a", "")]),
        ('a{x="1", y=~"by (z)"} > 0', [("a", "x y")]),
        ("sum by (n) (rate(a_total{x!=''}[5m])) / 2", [("a_total", "n x")]),
        ('max(a{x="$x"}) - b', [("a", "x"), ("b", "")]),
        ("a and on (i, j) b", [("a", "i j"), ("b", "i j")]),
        ("sum by (n) (a) + max by (m) (b)", [("a", "n"), ("b", "m")]),
        ("count(count by (n) (max by (n, r) (a) > max by (n, r) (b))) or vector(0)", [("a", "n r"), ("b", "n r")]),
        ("avg by (r) (avg_over_time((a > bool b)[1d:5m]))", [("a", "r"), ("b", "r")]),
        ("a / on () group_left () (max(b) > 0)", [("a", ""), ("b", "")]),
        ("histogram_quantile(0.99, sum by (v, le) (rate(a_bucket[$__rate_interval])))", [("a_bucket", "le v")]),
        ("time() - max by (p) (a > 0) > 7 * 86400", [("a", "p")]),
    ],
)
def test_metrics_and_labels_are_read(expression: str, expected: list[tuple[str, str]]) -> None:
    """Functions, operators, strings and durations are no metrics; labels come from matchers and groupings."""
    assert needs(expression) == [Need(name, frozenset(labels.split())) for name, labels in expected]


def test_missing_parts_are_reported() -> None:
    metrics = {"a": frozenset({"node"}), "b": frozenset[str]()}
    assert missing("max by (node) (a) - sum(b)", metrics) == []
    assert missing('sum by (node) (a{pod="x"})', metrics) == ["a has no label pod"]
    assert missing("a + c", metrics) == ["no service exports c"]
