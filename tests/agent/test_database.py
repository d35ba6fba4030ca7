import csv
import gzip
import io
import json
import sqlite3
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent import database
from agent.samples import CPU, MEMORY, Sample
from agent.tsdb import export
from agent.tsdb.schema import StoreError
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from headroom.runtime.options import WrongSetting
from tests.agent.tsdb.ticks import MIB, START, fill, finish

TICKS = 700
LAST = START + TICKS - 1


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with blocks, merged and recent ticks, a pod that comes late, and a container."""
    folder = tmp_path_factory.mktemp("data")
    with Tsdb.open(folder / "agent.db", StoreSettings(block_ticks=60)) as store:
        for number in range(TICKS):
            now = START + number
            tick = [
                Sample(CPU, "node", now, number / 1000),
                Sample(CPU, "a", now, 0.25),
                Sample(MEMORY, "a", now, 64.0 * MIB),
                Sample(CPU, "a", now, 0.125, container="web"),
            ]
            if number >= 400:
                tick += [Sample(CPU, "late", now, 1.5), Sample(MEMORY, "late", now, 0.5 * MIB)]
            store.append(now, tick)
        finish(store, LAST)
        store.save_checkpoints({"learned": b"x" * 100})
    return folder


@pytest.fixture
def run(data_dir: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., str]:
    def call(*arguments: str, code: int = 0, folder: Path = data_dir) -> str:
        assert database.main([*arguments, "--data-dir", str(folder)]) == code
        return capsysbinary.readouterr().out.decode()

    return call


def test_stats_count_samples_once_with_their_size_and_range(run: Callable[..., str]) -> None:
    result: dict[str, Any] = json.loads(run("stats", "-o", "json"))
    rows = {row["name"]: row for row in result["resolutions"]}
    assert rows["recent"]["points"] + rows["samples"]["points"] == 4 * TICKS + 2 * 300
    assert rows["samples"]["bytesPerPoint"] < 2
    assert (rows["samples"]["first"], rows["recent"]["last"]) == (START, LAST)
    assert result["series"] == 6
    assert (result["checkpoints"], result["checkpointBytes"]) == (1, 100)
    assert result["fileBytes"] >= result["usedBytes"] > 0
    table = run("stats")
    assert "bytes/point" in table
    assert "2023-11-14T22:15:00.000Z" in table


def test_query_answers_like_the_agent(run: Callable[..., str]) -> None:
    (row,) = json.loads(run("query", "cpu", "node", "--window", "60s", "-o", "json"))
    assert (row["count"], row["span"], row["unit"]) == (60, 59.0, "cores")
    assert (row["p50"], row["p95"], row["max"], row["last"]) == (0.669, 0.696, 0.699, 0.699)
    (row,) = json.loads(run("query", "cpu", "a", "--container", "web", "-o", "json"))
    assert row["average"] == 0.125
    rows = list(csv.DictReader(io.StringIO(run("query", "cpu", "node", "--window", "3s", "--points", "-o", "csv"))))
    assert [row["value"] for row in rows] == ["0.697", "0.698", "0.699"]
    assert rows[-1]["time"] == "2023-11-14T22:26:39.000Z"
    assert {row["entity"] for row in json.loads(run("query", "cpu", "-o", "json"))} == {"a", "late", "node"}


def test_query_takes_a_window_that_ends_anywhere_and_minutes(run: Callable[..., str]) -> None:
    for end in (f"{START + 99:.0f}", "2023-11-14T22:16:39Z", "2023-11-14T23:16:39+01:00", "2023-11-14 22:16:39"):
        (row,) = json.loads(run("query", "cpu", "node", "--window", "1m", "--end", end, "-o", "json"))
        assert (row["count"], row["last"]) == (60, 0.099)
    (row,) = json.loads(run("query", "cpu", "node", "--window", "1d", "--resolution", "1m", "-o", "json"))
    assert row["count"] == 12
    assert row["p50"] == pytest.approx(np.mean(np.arange(300, 360)) / 1000)


@pytest.mark.long
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_points_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """Points are streamed: 28,000 of them take no more memory than one pod's."""
    with Tsdb.open(tmp_path / "agent.db", StoreSettings(block_ticks=60)) as store:
        for number in range(700):
            store.append(START + number, [Sample(CPU, f"p{index}", START + number, 0.25) for index in range(40)])
        finish(store, LAST)
    arguments = ["query", "cpu", "--points", "--window", "1d", "-o", form, "--data-dir", str(tmp_path)]
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        tracemalloc.start()
        assert database.main(arguments) == 0
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (tmp_path / "out").read_text().count("2023-11-14T22:26:39.000Z") == 40
    assert peak < 3 * 2**20


@pytest.mark.parametrize(
    ("form", "resolution", "flags"),
    [
        ("json", "raw", ("query", "cpu", "--points")),
        ("csv", "1m", ("query", "cpu", "--points")),
        ("json", "5m", ("query", "memory")),
        ("table", "raw", ("query", "cpu", "a", "--container", "web")),
        ("json", "1m", ("query", "cpu", "a", "--container", "web", "--points")),
        *(("", resolution, ("export", "--metric", "cpu")) for resolution in ("raw", "1m", "5m", "1d")),
    ],
)
def test_output_does_not_depend_on_how_much_is_read_at_a_time(
    run: Callable[..., str], monkeypatch: pytest.MonkeyPatch, form: str, flags: tuple[str, ...], resolution: str
) -> None:
    arguments = (*flags, "--window", "1h", "--resolution", resolution, *(("-o", form) if form else ()))
    whole = run(*arguments)
    monkeypatch.setattr(export, "_RAW_SLICE_SECONDS", 2)
    monkeypatch.setattr(export, "_SLICE_SECONDS", 300)
    monkeypatch.setattr(export, "_SERIES_SLICE", 1)
    assert run(*arguments) == whole
    if form == "json":
        assert whole == json.dumps(json.loads(whole), indent=2, ensure_ascii=False) + "\n"


def _read(text: str) -> tuple[list[str], list[list[str]]]:
    header, *rows = csv.reader(io.StringIO(text))
    return header, rows


def test_export_has_the_traces_layout(run: Callable[..., str], tmp_path: Path) -> None:
    """Both files have a row per period and a column per pod, in the units of the traces, with gaps empty."""
    run("export", "--to", str(tmp_path), "--window", "1h")
    header, rows = _read(gzip.decompress((tmp_path / "cpu_millicores.csv.gz").read_bytes()).decode())
    assert header == ["ts", "a", "late"]
    assert rows == [
        [f"{START:.0f}", "250", ""],
        [f"{START + 300:.0f}", "250", "1500"],
        [f"{START + 600:.0f}", "250", "1500"],
    ]
    header, rows = _read(gzip.decompress((tmp_path / "mem_mib.csv.gz").read_bytes()).decode())
    assert rows[-1] == [f"{START + 600:.0f}", "64", "0.5"]
    assert {path.name for path in tmp_path.iterdir()} == {"cpu_millicores.csv.gz", "mem_mib.csv.gz", "pods.csv"}
    header, rows = _read((tmp_path / "pods.csv").read_text())
    assert (header[0], rows) == ("uid", [["a", *[""] * 8], ["late", *[""] * 8]])  # nothing is known of them


def test_export_of_raw_samples(run: Callable[..., str], tmp_path: Path) -> None:
    """Single samples have a row per tick; a file is plain when its name says so; the node only when it is named."""
    arguments = ("export", "--metric", "cpu", "--resolution", "raw", "--window", "5s")
    header, rows = _read(run(*arguments))
    assert (header, len(rows)) == (["ts", "a", "late"], 5)
    run(*arguments, "--entity", "node", "--to", str(tmp_path / "node.csv"))
    header, rows = _read((tmp_path / "node.csv").read_text())
    assert header == ["ts", "node"]
    assert rows[-1] == [f"{LAST:.0f}", "699"]


def test_export_of_highest(run: Callable[..., str]) -> None:
    _, rows = _read(run("export", "--metric", "cpu", "--entity", "node", "--aggregate", "max", "--resolution", "1m"))
    assert rows[0] == [f"{START:.0f}", "59"]


def test_database_without_samples_answers_with_nothing_and_no_error(tmp_path: Path, run: Callable[..., str]) -> None:
    Tsdb.open(tmp_path / "agent.db").close()
    assert run("export", "--metric", "cpu", folder=tmp_path) == "ts\n"
    assert run("verify", folder=tmp_path).endswith("sound: 0 blocks, 0 chunks, 0 samples\n")
    assert "recent" in run("stats", folder=tmp_path)


def test_commands_do_not_disturb_an_agent_that_writes(tmp_path: Path, run: Callable[..., str]) -> None:
    with Tsdb.open(tmp_path / "agent.db", StoreSettings(block_ticks=20, memory_ticks=60)) as store:
        for number in range(120):
            now = START + number
            store.append(
                now, [Sample(CPU, "node", now, 1.0), Sample(CPU, "a", now, 1.0), Sample(MEMORY, "a", now, 1.0)]
            )
            store.maintain(now)
            if number % 17 == 16:
                assert f"{3 * (number + 1)} samples" in run("verify", folder=tmp_path)
                (row,) = json.loads(run("query", "cpu", "a", "--window", "1h", "-o", "json", folder=tmp_path))
                assert row["count"] == number + 1
                run("stats", folder=tmp_path)
                run("export", "--to", str(tmp_path), folder=tmp_path)
        assert store.problem == ""


def _hurt(path: Path, statement: str) -> None:
    with sqlite3.connect(path, isolation_level=None) as file:
        file.execute(statement)
    file.close()


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("DELETE FROM checkpoints", ""),
        ("UPDATE chunks SET data = x'0011' WHERE block = 1 AND series = 1", "damaged chunk"),
        ("UPDATE blocks SET times = x'00' WHERE id = 1", "damaged times"),
        ("UPDATE blocks SET samples = samples + 1 WHERE id = 1", "were counted"),
        ("UPDATE blocks SET start_ms = start_ms + 1 WHERE id = 2", "listed with"),
        ("DELETE FROM series WHERE id = 1", "has no name"),
        ("UPDATE head SET time_ms = time_ms + 60000 WHERE id = (SELECT min(id) + 5 FROM head)", "not later"),
        ("DELETE FROM chunks WHERE block = 6 AND series = 1", "were counted"),
        ("DELETE FROM blocks WHERE id = 1", "belong to no block"),
        (
            "UPDATE chunks SET data = (SELECT data FROM chunks WHERE block = 4 AND series = 2) WHERE block = 4",
            "its minutes are not those",
        ),
    ],
)
def test_verify_reports_damage(tmp_path: Path, run: Callable[..., str], statement: str, finding: str) -> None:
    path = tmp_path / "agent.db"
    with Tsdb.open(path, StoreSettings(block_ticks=60)) as store:
        finish(store, fill(store, 400, maintain=False))
    _hurt(path, statement)
    if not finding:
        assert "sound" in run("verify", folder=tmp_path)
        return
    assert finding in run("verify", folder=tmp_path, code=1)
    assert json.loads(run("verify", "-o", "json", folder=tmp_path, code=1))["sound"] is False


@pytest.mark.parametrize("written", ["new/export", "new/export/"])
def test_export_makes_its_folder(run: Callable[..., str], tmp_path: Path, written: str) -> None:
    """A folder that is not there yet is made, with those above it; a slash says that one metric gets a folder, too."""
    run("export", "--to", f"{tmp_path}/{written}")
    assert (tmp_path / "new/export/cpu_millicores.csv.gz").is_file()
    run("export", "--metric", "cpu", "--to", f"{tmp_path}/one/")
    assert (tmp_path / "one/cpu_millicores.csv.gz").is_file()
    run("export", "--metric", "cpu", "--to", f"{tmp_path}/one/mine.csv")
    assert (tmp_path / "one/mine.csv").read_text().startswith("ts,")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["query", "cpu", "node", "--window", "soon"], ["--window", "'soon'", "5m"]),
        (["query", "cpu", "node", "--window", "-5m"], ["--window", "'-5m'"]),
        (["query", "cpu", "node", "--window", "9999d"], ["--window", "year"]),
        (["query", "cpu", "node", "--end", "yesterday"], ["--end", "'yesterday'"]),
        (["query", "gpu"], ["'gpu'", "cpu, memory"]),
        (["query", "cpu", "absent"], ["'absent'", "db query cpu"]),
        (["export"], ["--to", "folder"]),
        (["export", "--metric", "gpu"], ["'gpu'", "cpu, memory"]),
        (["export", "--metric", "cpu", "--entity", "absent"], ["'absent'"]),
        (["export", "--metric", "cpu", "--to", "/nowhere/a.csv"], ["/nowhere/a.csv", "No such file"]),
        (["export", "--to", "all.csv"], ["--to", "folder", "--metric"]),
        (["export", "--to", "/dev/null/out"], ["--to", "/dev/null/out", "Not a directory"]),
        (["frobnicate"], ["frobnicate"]),
        ([], ["--help"]),
    ],
)
def test_wrong_use_is_one_line(data_dir: Path, arguments: list[str], named: list[str]) -> None:
    command = [*arguments, "--data-dir", str(data_dir)] if arguments else []
    with pytest.raises(WrongSetting) as caught:
        database.main(command)
    assert "\n" not in str(caught.value)
    for name in named:
        assert name in str(caught.value)


def _somebody_elses(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE accounts (id INTEGER)")
    file.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: None, "there is no database at"),
        (lambda path: path.write_text("something else" * 500), "is damaged: file is not a database"),
        (lambda path: path.touch(), "is empty"),
        (lambda path: path.mkdir(), "is a folder"),
        (_somebody_elses, "database of something else"),
    ],
)
def test_foreign_file_is_not_changed(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "agent.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError, match=message) as caught:
        database.main(["stats", "--data-dir", str(tmp_path)])
    assert "\n" not in str(caught.value)
    assert before is None or path.read_bytes() == before


def test_standalone_database_is_found(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --data-dir and a node's database, the command reads the one of --standalone."""
    directory = tmp_path / "state" / "headroom"
    directory.parent.mkdir()
    directory.symlink_to(data_dir)
    monkeypatch.setenv("XDG_STATE_HOME", str(directory.parent))
    monkeypatch.delenv("HEADROOM_AGENT_DATA_DIR", raising=False)
    monkeypatch.setattr(database, "SYSTEM_DATA_DIR", tmp_path / "none")
    assert database.main(["stats"]) == 0
    monkeypatch.setattr(database, "SYSTEM_DATA_DIR", data_dir)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert database.main(["stats"]) == 0
