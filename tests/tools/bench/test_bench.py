"""The benchmarks run; what they measure is for people to judge."""

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.sources import ROOT
from tools.bench import manager_table
from tools.bench.__main__ import main
from tools.bench.parts import PARTS

LOCAL = [name for name, part in PARTS.items() if not part.cluster]


def _run(folder: Path, *names: str) -> dict[str, list[dict[str, Any]]]:
    """What quick forms of these parts yield, by part."""
    command = [sys.executable, "-m", "tools.bench", "--quick", "--markdown", "--out", str(folder), *names]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "results.json").read_text())["parts"]
    assert set(found) == set(names)
    for part in found.values():
        rows = [one for one in part["items"] if one["kind"] == "measurement"]
        assert rows
        assert all(any(character.isdigit() for character in row["measured"]) for row in rows), rows
        assert all(row["what"] in done.stdout for row in rows)
        for one in part["items"]:
            assert one["kind"] != "picture" or (folder / f"{one['name']}.svg").read_text().startswith("<?xml")
    return {name: part["items"] for name, part in found.items()}


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(1200)
def test_every_benchmark_runs(tmp_path: Path) -> None:
    """In its quick form, every benchmark without a cluster prints rows with a figure, and keeps them."""
    _run(tmp_path, *LOCAL)


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_manager_is_measured(tmp_path: Path) -> None:
    """In its quick form, the manager's benchmark fills its table: nodes are published, and a restart writes nothing."""
    items = _run(tmp_path, "manager-cluster")["manager-cluster"]
    (table,) = [one["cells"] for one in items if one["kind"] == "grid"]
    assert table[0] == ["what", "10 nodes", "growth", "budget"]
    found = {row[0]: row[1] for row in table[1:]}
    assert len(found) == len(manager_table.ROWS)
    assert float(found["NodeMetric to Node, first publication, p50 [s]"]) > 0
    assert found["start with nothing changed: writes"] == "0"


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_scheduler_is_measured(tmp_path: Path) -> None:
    """In its quick form every mode binds its pods through the real kube-scheduler and fills its line of the table."""
    items = _run(tmp_path, "scheduler-cluster")["scheduler-cluster"]
    (table,) = [one["cells"] for one in items if one["kind"] == "grid"]
    assert [row[2] for row in table[1:]] == ["2", "1", "1", "1", "1", "1"]
    assert all(float(row[3].split()[0]) > 0 for row in table[1:])
    assert any("filter names 12" in row[9] for row in table[1:])
    assert len([one for one in items if one["kind"] == "measurement"]) == len(table) - 1


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_reclaim_is_measured(tmp_path: Path) -> None:
    """In its quick form every pod is bound where others left, with quotas and with kube-scheduler's own preemption."""
    rows = _run(tmp_path, "quota-cluster")["quota-cluster"]
    assert ["(n = 3)" in row["measured"] and "(n = 3)" in row["reference"] for row in rows] == [True, False]
    assert ["(n = 4)" in row["measured"] and "(n = 4)" in row["reference"] for row in rows] == [False, True]


@pytest.mark.long
@pytest.mark.parametrize("name", PARTS)
def test_part_has_a_function(name: str) -> None:
    """What a part runs is there, and takes `quick`."""
    assert callable(pkgutil.resolve_name(PARTS[name].function))


@pytest.mark.long
def test_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark that does not exist is named, with those that do."""
    with pytest.raises(SystemExit):
        main(["--only", "nonsense,tick"])
    assert "no benchmark named nonsense: choose from process" in capsys.readouterr().err
