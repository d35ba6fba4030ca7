"""The benchmarks run; what they measure is for people to judge."""

import os
import subprocess
import sys

import pytest

from bench import BENCHMARKS, GROUPS, manager_table
from bench.__main__ import main
from tests.architecture.sources import ROOT


@pytest.mark.alone
def test_every_benchmark_runs() -> None:
    """In its quick form, every benchmark prints rows with a figure."""
    command = [sys.executable, "-m", "bench", "--quick", "--markdown"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 2 * len(BENCHMARKS)
    assert all(any(character.isdigit() for character in row[1]) for row in rows), done.stdout


def test_groups_name_benchmarks() -> None:
    """A group holds benchmarks that exist, and no name means two things."""
    assert {name for names in GROUPS.values() for name in names} <= set(BENCHMARKS)
    assert not set(GROUPS) & set(BENCHMARKS)


def test_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark that does not exist is named, with those that do."""
    with pytest.raises(SystemExit):
        main(["nonsense"])
    assert "no benchmark named nonsense: choose from process" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "what"),
    [("--nodes=500,x", "write numbers like 500,1000"), ("--nodes=0", "500,1000"), ("--minutes=0", "above 0")],
)
def test_wrong_sizes_are_refused(flag: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A size that cannot be measured is refused before a cluster is started."""
    with pytest.raises(SystemExit):
        main(["manager", flag])
    assert what in capsys.readouterr().err


@pytest.mark.cluster
def test_manager_is_measured() -> None:
    """In its quick form, the manager's benchmark fills its table: nodes are published, and a restart writes nothing."""
    command = [sys.executable, "-m", "bench", "manager", "--quick", "--markdown"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    assert rows[0] == ["what", "10 nodes", "growth", "budget"]
    found = {row[0]: row[1] for row in rows[1:]}
    assert len(found) == len(manager_table.ROWS)
    assert float(found["NodeMetric to Node, first publication, p50 [s]"]) > 0
    assert found["writes of that start"] == "0"
