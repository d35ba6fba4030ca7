"""The benchmarks run; people evaluate the figures."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.sources import ROOT
from tools.bench import data
from tools.bench.__main__ import PARTS, main
from tools.bench.api_server import Run
from tools.bench.large_pods_kinds import KINDS
from tools.bench.limits import MID, SERVICES
from tools.bench.rows import Row

LOCAL = [name for name, part in PARTS.items() if not part.cluster]


def _run(*names: str) -> dict[str, list[list[str]]]:
    """Run the quick forms of these parts; the rows of their tables, by part."""
    command = [sys.executable, "-m", "tools.bench", "--quick", *names]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    result = {}
    for section in done.stdout.split("\n## ")[1:]:
        lines = [line for line in section.splitlines() if line.startswith("| ")]
        result[section.partition(":")[0]] = [line.strip("| ").split(" | ") for line in lines]
    assert set(result) == set(names)
    for rows in result.values():
        assert len(rows) > 1
    return result


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(1200)
def test_every_benchmark_runs() -> None:
    _run(*LOCAL)


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_manager_is_measured() -> None:
    """In its quick form, the manager's benchmark fills its rows: nodes are published, and a restart writes nothing."""
    rows = {row[0]: row for row in _run("manager-cluster")["manager-cluster"]}
    assert float(rows["NodeMetric to Node, first publication, p50"][3].split()[0]) > 0
    assert rows["start with nothing changed: writes"][4] == "yes"


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_workloads_are_measured() -> None:
    """In its quick form, the same manager takes reports with and without workloads, and hands out histories."""
    rows = {row[0].partition(",")[0]: row for row in _run("manager-workloads")["manager-workloads"]}
    assert int(rows["NodeMetrics with a workload history"][3].partition("%")[0]) > 0


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_scheduler_is_measured() -> None:
    """In its quick form every mode binds its pods through the real kube-scheduler and fills its line of the table."""
    rows = _run("scheduler-cluster")["scheduler-cluster"]
    table = [row for row in rows if row[0] == "12"]
    assert [row[2] for row in table] == ["2", "1", "1", "1", "1", "1"]
    assert all(float(row[3].split()[0]) > 0 for row in table)


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_reclaim_is_measured() -> None:
    """In its quick form every pod is bound where others left, with quotas and with kube-scheduler's own preemption."""
    rows = _run("quota-cluster")["quota-cluster"][1:]
    assert ["(n = 3)" in row[3] and "(n = 3)" in row[2] for row in rows] == [True, False]
    assert ["(n = 4)" in row[3] and "(n = 4)" in row[2] for row in rows] == [False, True]


@pytest.mark.long
@pytest.mark.node
@pytest.mark.timeout(900)
def test_limits_are_measured(real_node_requirements: None) -> None:  # noqa: ARG001 - it skips
    """In its quick form both Prod pods serve requests beside each kind of Mid pod."""
    rows = _run("limits")["limits"][1:]
    assert [(row[0], row[1]) for row in rows] == [(service, mid) for service in SERVICES for mid in MID]
    assert all(float(row[2].split()[0]) > 0 for row in rows)


def test_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark that does not exist is named, with those that do."""
    with pytest.raises(SystemExit):
        main(["--only", "nonsense,tick"])
    assert "no benchmark named nonsense: choose from process" in capsys.readouterr().err


def test_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$4" != tick ] && echo measured "$4"\n')
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    assert main(["tick", "store"]) == 1
    output = capfd.readouterr().out
    assert "tick: failed with 1" in output
    assert "not measured: tick" in output
    assert "measured store" in output


@pytest.mark.parametrize(
    ("budget", "value", "within"),
    [
        ("<= 2 % of one core", 1.9, True),
        ("<= 2 % of one core", 2.1, False),
        (">= 1.0 x no extender", 0.77, False),
        ("p99 <= 1,024 MiB", 1000.0, True),
        ("<= 1024 MiB", None, None),  # nothing was measured
        ("none", 5.0, None),
    ],
)
def test_budget_is_read(budget: str, value: float | None, within: bool | None) -> None:  # noqa: FBT001 - expected
    assert Row("x", "y", budget, value=value).within is within


def test_not_in_a_package() -> None:
    """No pattern of packages that setuptools looks for takes bench, and no pattern of files takes a table."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages, files = setuptools["packages"]["find"]["include"], setuptools["package-data"]
    assert not [pattern for pattern in packages if fnmatchcase("tools.bench.data", pattern)]
    names = [path.name for path in data.FOLDER.rglob("*") if path.suffix in (".xz", ".csv", ".gz")]
    assert len(names) == 3
    patterns = [pattern for several in files.values() for pattern in several]
    assert not [name for name in names for pattern in patterns if fnmatchcase(name, pattern)]


MOST_BYTES = 1536 * 1024  # etcd takes no larger request


@pytest.mark.parametrize("kind", KINDS)
def test_each_pod_is_large_and_its_own(kind: str) -> None:
    """Pods of a kind are valid JSON of hundreds of KiB, as many items as stated, and no item of one is in another."""
    pod = Run("extender", "watch", "bound", kind, 2).objects()
    texts = [pod(number) for number in (1, 2)]
    assert all(200 * 1024 < len(text) < MOST_BYTES for text in texts)
    first, second = map(json.loads, texts)
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    items = [_largest(entry[KINDS[kind].part]) for entry in (first, second)]
    assert [len(item) for item in items] == [KINDS[kind].count] * 2
    assert all(one != other for one, other in zip(*items, strict=True))


def _largest(value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    if not isinstance(value, dict | list):
        return []
    items = list(value.items()) if isinstance(value, Mapping) else value
    inside = [_largest(entry) for entry in (value.values() if isinstance(value, Mapping) else value)]
    return max([items, *inside], key=len)
