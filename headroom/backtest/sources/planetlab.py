"""PlanetLab's days: a file per day, in it a row per machine and a column per five minutes, CPU in percent of a core."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from headroom.backtest.sources import Options, Progress, grid
from headroom.backtest.sources.files import amounts, csv_rows, header, open_text
from headroom.backtest.trace import Trace, TraceError

DAY: Final = re.compile(r"([0-9]{8})\.csv(\.gz|\.xz)?")  # name of a day's file: YYYYMMDD
_PERCENT: Final = 0.01


def days(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if DAY.fullmatch(path.name) and path.is_file())


def read(paths: Sequence[Path], options: Options, progress: Progress) -> list[Trace]:
    """The traces of days, which do not follow one another: each is a trace of its own. 100 % of a core is the limit.

    Raises TraceError if a file cannot be read, or nothing of it is wanted.
    """
    if "cpu" not in options.resources:
        raise TraceError(f"{paths[0]}: PlanetLab's days have CPU only; give --resource cpu")
    found = []
    for number, path in enumerate(paths):
        progress(number / len(paths), f"reading {path.name}")
        found += _day(path, options)
    if not found:
        raise TraceError(f"{paths[0].parent}: no day is in the time given with --from and --until")
    return found


def _day(path: Path, options: Options) -> list[Trace]:
    start = _midnight(path)
    with open_text(path) as stream:
        lines = csv_rows(path, stream)
        columns = header(path, lines, "vm")
        if columns != tuple(f"s{number}" for number in range(len(columns))):
            raise TraceError(f"{path}: its columns after 'vm' must be s0, s1 ..., a column for each five minutes")
        names: list[str] = []
        rows: list[FloatArray] = []
        for line, row in lines:
            grid.check_size(len(columns), len(rows) + 1, str(path))
            names.append(row[0].strip() or f"line {line}")
            rows.append(amounts(row[1:], path, line, columns))
    if not rows:
        raise TraceError(f"{path}: has no rows")
    times = start + grid.STEP_SECONDS * np.arange(len(columns), dtype=np.float64)
    inside = np.array([options.has(time) for time in times.tolist()])
    if not inside.any():
        return []
    values = np.stack(rows, axis=1)[inside] * _PERCENT
    sparse = ~(grid.share_measured(values) > grid.COVERAGE)
    if sparse.all():
        raise TraceError(f"{path}: none of its {len(names)} machines was measured for more than 95 % of the time")
    notes = grid.left_out(names, sparse, "measured for 95 % of the time or less", "machines")
    kept = grid.unique(name for name, is_sparse in zip(names, sparse.tolist(), strict=True) if not is_sparse)
    table = grid.Table(kept, times[inside], np.ascontiguousarray(values[:, ~sparse]), tuple(notes))
    return [grid.machine_trace("cpu", table, np.ones(len(kept)), str(path))]


def _midnight(path: Path) -> float:
    match = DAY.fullmatch(path.name)
    try:
        return datetime.strptime(match[1] if match else "", "%Y%m%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise TraceError(
            f"{path}: is no day of PlanetLab's: its name must be the date, as in 20110303.csv.gz; of other traces give "
            "the folder"
        ) from None
