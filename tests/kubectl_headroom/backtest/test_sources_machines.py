import gzip
from pathlib import Path

import numpy as np
import pytest

from kubectl_headroom.backtest.sources import OptionError, Options, grid
from kubectl_headroom.backtest.trace import TraceError
from tests.kubectl_headroom.backtest.trace_files import MIB, SIZES, START, STEP, machines, steady, trace, traces, write

HEADER = "ts,vm1,vm2"
WHOLE = {"1": "2,1024,1.0", "2": "1,2048,0.999"}


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_machines_are_read(tmp_path: Path, ending: str) -> None:
    """Cores and bytes, limits of vms.csv, compressed or not."""
    folder = machines(tmp_path, [HEADER, *steady(3, 500, 250)], WHOLE, f"cpu_millicores.csv{ending}")
    write(folder / f"mem_mib.csv{ending}", "\n".join([HEADER, *steady(3, 100, 2000)]))
    cpu, memory = traces("trace", folder)
    assert (cpu.resource, memory.resource) == ("cpu", "memory")
    assert cpu.times.tolist() == [START, START + STEP, START + 2 * STEP]
    assert cpu.usage.tolist() == [[0.5, 0.25]] * 3
    assert (cpu.limits.tolist(), memory.limits.tolist()) == ([2.0, 1.0], [1024.0 * MIB, 2048.0 * MIB])
    assert memory.usage[0].tolist() == [100.0 * MIB, 2000.0 * MIB]
    assert (cpu.names, cpu.lifetimes, cpu.notes) == (("vm1", "vm2"), None, ())


def test_machines_that_do_not_count(tmp_path: Path) -> None:
    """Coverage must be above 0.95 and the limit above 0; each is left out with its reason."""
    sizes = {"1": "1,1,0.95", "2": "0,1,1.0", "3": "1,1,0.9501", "4": "1,1,"}
    rows = ["ts,vm1,vm2,vm3,vm4,vm5", *steady(40, 1, 2, 3, 4, 5)]
    result = trace("trace", machines(tmp_path, rows, sizes))
    assert result.names == ("vm3", "vm4")
    assert result.notes == (
        "1 of 5 machines left out, not in vms.csv: vm5.",
        "1 of 5 machines left out, cpu limit 0: vm2.",
        "1 of 5 machines left out, measured for 95 % of the time or less: vm1.",
    )


def test_coverage_is_measured_where_not_stated(tmp_path: Path) -> None:
    """Without the column it is counted; and a machine that has nothing never counts, whatever the column says."""
    rows = [f"{START + STEP * number},{'' if number == 3 else 7},{'' if number < 4 else 8}," for number in range(40)]
    write(tmp_path / "cpu_millicores.csv", "\n".join(["ts,1,2,3", *rows]))
    write(tmp_path / "vms.csv", "vm,cores,mem_capacity_mib\n1,1,1\n2,1,1\n3,1,1\n")
    assert trace("trace", tmp_path).names == ("1",)  # 39 of 40 steps; 36 of 40; none
    write(tmp_path / "vms.csv", SIZES + "1,1,1,1\n2,1,1,1\n3,1,1,1\n")
    assert trace("trace", tmp_path).names == ("1", "2")


def test_gaps_are_filled_linearly(tmp_path: Path) -> None:
    """Between samples linearly, a missing row too, and at the ends with the nearest; use above the limit is capped."""
    rows = ["ts,vm1,vm2", f"{START},,5000", f"{START + 300},100,1", f"{START + 900},400,1", f"{START + 1200},500,1"]
    result = trace("trace", machines(tmp_path, rows, WHOLE))
    assert result.usage[:, 0] == pytest.approx([0.1, 0.1, 0.25, 0.4, 0.5])
    assert result.usage[:, 1].tolist() == [1.0, 0.001, 0.001, 0.001, 0.001]
    assert result.notes == (
        "Gaps were filled linearly: 30 % of the cpu values.",
        "Use above the limit counts as the limit: 10 % of the cpu values.",
    )


def test_rows_in_any_order(tmp_path: Path) -> None:
    """Rows out of order are put in order, those of one step are averaged, and both is noted."""
    rows = [HEADER, f"{START + 300},20,2", f"{START},10,1", f"{START + 300},40,", f"{START + 600},50,5"]
    result = trace("trace", machines(tmp_path, rows, WHOLE))
    assert result.usage[:, 0] == pytest.approx([0.01, 0.03, 0.05])
    assert result.usage[:, 1] == pytest.approx([0.001, 0.002, 0.005])
    assert [note.split(": ", 1)[1] for note in result.notes] == [
        "1 row out of order, put in order.",
        "rows of the same five minutes were averaged (1 row).",
    ]


def test_rows_in_no_order(tmp_path: Path) -> None:
    """Rows of a month that were shuffled are five minutes apart, too, though the first few of them are not."""
    rows = steady(3000, 500, 250)
    mixed = np.random.default_rng(3).permutation(rows).tolist()
    result = trace("trace", machines(tmp_path, [HEADER, *mixed], WHOLE))
    assert (result.steps, result.times[0], result.usage.min(axis=0).tolist()) == (3000, START, [0.5, 0.25])
    assert "out of order, put in order." in result.notes[0]
    assert len(result.notes) == 1
    half = trace("trace", tmp_path, options=Options(resources=("cpu",), until=START + 1500.0 * STEP))
    assert half.steps == 1500


def test_times_that_are_not_even(tmp_path: Path) -> None:
    """Rows about five minutes apart are a step each, however they waver, from the first one on."""
    times = [START + 176, START + 476, START + 770, START + 1081, START + 1376]
    rows = [HEADER, *(f"{time},{number},1" for number, time in enumerate(times))]
    result = trace("trace", machines(tmp_path, rows, WHOLE))
    assert result.times.tolist() == [START + 176 + STEP * number for number in range(5)]
    assert result.usage[:, 0] == pytest.approx([0.0, 0.001, 0.002, 0.003, 0.004])


def test_finer_rows_are_averaged(tmp_path: Path) -> None:
    """A row a minute becomes the average of each five minutes since 1970."""
    rows = [HEADER, *(f"{START + 60 * number},{number},1" for number in range(10))]
    result = trace("trace", machines(tmp_path, rows, WHOLE))
    assert result.times.tolist() == [START, START + STEP]
    assert result.usage[:, 0] == pytest.approx([0.002, 0.007])


def test_window_is_cut(tmp_path: Path) -> None:
    """Only the requested time is read: from since on, before until, and of that the last seconds."""
    folder = machines(tmp_path, [HEADER, *(f"{START + STEP * n},{n},1" for n in range(20))], WHOLE)
    options = Options(resources=("cpu",), since=START + 1, until=START + 10 * STEP)
    assert (trace("trace", folder, options=options).usage[:, 0] * 1000).round().tolist() == list(range(1, 10))
    options = Options(resources=("cpu",), until=START + 10 * STEP, last_seconds=600.0)
    result = trace("trace", folder, options=options)
    assert (result.times[0], result.usage[:, 0].tolist()) == (START + 8 * STEP, pytest.approx([0.008, 0.009]))
    with pytest.raises(TraceError, match="has no rows, or none in the requested time"):
        trace("trace", folder, options=Options(resources=("cpu",), since=START + 20 * STEP))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "is empty"),
        (["time,vm1", "1,2"], "must be a header that begins with 'ts'"),
        (["ts;vm1", "1;2"], "has commas between its columns, got: 'ts;vm1'"),
        (["1375308000,1,2"], "must be a header"),
        (["ts", "1"], "has no column but 'ts'"),
        (["ts,vm1,", "1,2,3"], "column 3 of its header has no name"),
        (["ts,vm1,vm1", "1,2,3"], "column 'vm1' is there twice"),
        (["ts,vm1\x07", "1,2"], "column 'vm1\\x07' of its header is no name"),
        (["ts," + "v" * 254, "1,2"], "of its header is no name"),
        ([HEADER], "has no rows"),
        ([HEADER, "1,2,3", "2,3"], "line 3 has 2 columns, its header has 3"),
        ([HEADER, "1,2,3,4"], "line 2 has 4 columns, its header has 3"),
        ([HEADER, "1,2,-3"], "line 2, column 'vm2': '-3' is negative"),
        ([HEADER, "1,2,inf"], "line 2, column 'vm2': 'inf' is infinite"),
        ([HEADER, "1,2,1e999"], "is infinite"),
        ([HEADER, "1,x,"], "line 2, column 'vm1': 'x' is no number; leave the cell empty"),
        ([HEADER, "2026-01-01T00:00:00Z,1,2"], "must be in seconds since 1970"),
        ([HEADER, ",1,2"], "line 2, column 'ts': '' is no time"),
        ([HEADER, "nan,1,2"], "is no time"),
        ([HEADER, "-5,1,2"], "is no time"),
        ([HEADER, "1375308000000,1,2"], "looks like milliseconds"),
        ([HEADER, *steady(9, 1, 2, step=900)], "its rows are 900 s apart; at most 300 s can be used"),
        ([HEADER, *steady(300, 1, 2), "9000000000,1,2"], "correct a wrong time"),
        ([HEADER, *("x" * 200_000,)], "is no CSV: field larger"),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, rows: list[str], says: str) -> None:
    folder = machines(tmp_path, rows, WHOLE)
    if not rows:
        write(folder / "cpu_millicores.csv", "")
    with pytest.raises(TraceError) as caught:
        trace("trace", folder)
    assert says in str(caught.value)
    assert str(folder / "cpu_millicores.csv") in str(caught.value)


@pytest.mark.parametrize("gap", ["", " ", "nan", "NaN"])
def test_gaps_may_be_written_so(tmp_path: Path, gap: str) -> None:
    """An empty cell is a gap, and so is what other programs write for one; a byte order mark and CRLF do no harm."""
    text = "\ufeff" + "\r\n".join([HEADER, f"{START},1,1", f"{START + 300},{gap},1", f"{START + 600},3,1", ""])
    folder = machines(tmp_path, [HEADER], WHOLE)
    (folder / "cpu_millicores.csv").write_text(text, newline="")
    assert trace("trace", folder).usage[:, 0] == pytest.approx([0.001, 0.002, 0.003])


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ("", "has no column 'vm'; it needs vm, cores, mem_capacity_mib"),
        ("vm,cores\n1,1\n", "has no column 'mem_capacity_mib'"),
        (SIZES + "1,x,1,1\n", "line 2, column 'cores': 'x' must be a number of at least 0"),
        (SIZES + "1,-1,1,1\n", "'-1' must be a number of at least 0"),
        (SIZES + "1,1,1,99\n", "line 2, column 'coverage': '99' must be a share from 0 to 1"),
        (SIZES + "1,1\n", "line 2, column 'mem_capacity_mib': '' must be"),
        (SIZES + "1,1,1,1\n1,1,1,1\n", "line 3: machine '1' is there twice"),
        (SIZES + ",1,1,1\n", "line 2 names no machine"),
        (
            SIZES + "7,1,1,1\n",
            "none of its 2 machines can be used. 2 of 2 machines left out, not in vms.csv: vm1",
        ),
    ],
)
def test_wrong_sizes_are_refused(tmp_path: Path, sizes: str, says: str) -> None:
    folder = machines(tmp_path, [HEADER, *steady(3, 1, 2)], WHOLE)
    (folder / "vms.csv").write_text(sizes)
    with pytest.raises(TraceError) as caught:
        trace("trace", folder)
    assert says in str(caught.value)


TABLE = "\n".join([HEADER, *steady(300, 1, 2)]).encode()
SIZE = f"{SIZES}1,2,1024,1.0\n".encode()


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"cpu_millicores.csv": TABLE}, "has no vms.csv, with the size of each machine"),
        ({"cpu_millicores.csv.gz": gzip.compress(TABLE)[:-20], "vms.csv": SIZE}, "is cut off; copy it again"),
        ({"cpu_millicores.csv.gz": TABLE, "vms.csv": SIZE}, "cannot be unpacked: Not a gzipped file"),
        ({"cpu_millicores.csv.xz": TABLE, "vms.csv": SIZE}, "cannot be unpacked: Input format not supported"),
        ({"cpu_millicores.csv": b"ts,\xff\xfe\n", "vms.csv": SIZE}, "is no text in UTF-8"),
        ({"mem_mib.csv": TABLE, "vms.csv": SIZE}, "has no cpu_millicores.csv[.gz|.xz]"),
        ({}, "has no trace: it must have cpu_millicores.csv or mem_mib.csv, and vms.csv"),
        (None, "there is no such folder"),
    ],
)
def test_wrong_folders_are_refused(tmp_path: Path, files: dict[str, bytes] | None, says: str) -> None:
    for name, content in (files or {}).items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TraceError) as caught:
        trace("trace", tmp_path if files is not None else tmp_path / "nowhere")
    assert says in str(caught.value)


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace beyond the memory bound is rejected while it is read, with the way out; a shorter time fits."""
    monkeypatch.setattr(grid, "MOST_VALUES", 20)
    folder = machines(tmp_path, [HEADER, *steady(11, 1, 2)], WHOLE)
    with pytest.raises(TraceError, match="shorten the time with --from and --until"):
        trace("trace", folder)
    assert trace("trace", folder, options=Options(resources=("cpu",), since=START + STEP)).steps == 10


def test_layouts_are_not_mixed(tmp_path: Path) -> None:
    """Two folders of machines, or a folder and a file, are not one trace."""
    one = machines(tmp_path / "one", [HEADER, *steady(3, 1, 2)], WHOLE)
    with pytest.raises(TraceError, match="one folder of machines at a time"):
        trace("trace", one, one)
    with pytest.raises(TraceError, match="is no folder"):
        trace("trace", one, one / "cpu_millicores.csv")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"basis": "usage"}, "'usage' is no basis; there are: requests, limits"),
        ({"queries": {"ram": "x"}}, "there is no query 'ram'; there are: cpu, memory, cpu-requests"),
        ({"token_file": "t", "user": "u", "password_file": "p"}, "two logins"),
        ({"user": "u"}, "needs both"),
        ({"client_key": "k"}, "give --client-cert"),
        ({"since": 2.0, "until": 2.0}, "--from must be before --until"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options(**options)  # type: ignore[arg-type]
    assert says in str(caught.value)


def test_filling_leaves_samples_alone() -> None:
    values = np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, 5.0], [8.0, np.nan]])
    result, share = grid.filled(values.copy())
    assert result.tolist() == [[2.0, 1.0], [2.0, 3.0], [5.0, 5.0], [8.0, 5.0]]
    assert share == 0.5
