"""Inspect the database while the agent runs: stats, query, export, verify."""

import argparse
import dataclasses
import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agent.numerics.aggregate import statistics
from agent.numerics.packing import CheckpointError
from agent.pod_metadata import PodMetadataStore
from agent.samples import CPU, MEMORY
from agent.settings import SYSTEM_DATA_DIR, state_dir
from agent.tsdb import checkpoints, export
from agent.tsdb.inspection import DatabaseReader
from agent.tsdb.schema import StoreError
from agent.tsdb.series import EMPTY, Series
from agent.tsdb.verification import verify
from crds.duration import DurationError, parse_duration
from headroom.runtime import option_types
from headroom.runtime.options import Parser, WrongSetting, variable
from headroom.runtime.text import joined

_FAILED, _MIB, _DAY = 1, float(1 << 20), 86400
_PERIODS: Final = {"raw": 0, "1m": 60, "5m": 300, "10m": 600, "30m": 1800, "1h": 3600, "6h": 21600, "1d": _DAY}
_UNITS: Final = {CPU: "cores", MEMORY: "bytes"}
PODS_FILE: Final = "pods.csv"  # where the pods of an export are described, in its folder
_TABLES: Final = (".csv", ".csv.gz")  # how names of files end
Row = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Run ``headroom-agent db``.

    Returns 0; 1 when `verify` finds something wrong. Raises WrongSetting: the command cannot be used like that.
    StoreError: There is no database, or none that can be read.
    """
    options = _parser().parse_args(joined(arguments))
    with DatabaseReader.open(Path(options.data_dir) / "agent.db") as database:
        run: Callable[[DatabaseReader, argparse.Namespace], int] = options.run
        try:
            code = run(database, options)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        if database.unreadable:
            raise StoreError(f"{len(database.unreadable)} chunks cannot be read: {next(iter(database.unreadable))}")
        return code


def _parser() -> Parser:
    parser = Parser(prog="headroom-agent db", description=__doc__, allow_abbrev=False)
    data_dir = _usual_data_dir(os.environ)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=Parser)

    def add(name: str, run: Callable[..., int], what: str, forms: str = "table json") -> Parser:
        one: Parser = commands.add_parser(name, help=what, description=what, allow_abbrev=False)
        one.set_defaults(run=run)
        one.add_argument("--data-dir", metavar="DIR", default=data_dir, help=f"the agent's (default: {data_dir})")
        if forms:
            one.add_argument("-o", "--output", choices=forms.split(), default="table", help="output format")
        return one

    add("stats", _stats, "Size, series, samples, bytes per sample, and how far back each resolution reaches.")
    one = add("query", _query, "Statistics of a window, or its points.", "table json csv")
    one.add_argument("metric", help="cpu, memory, …; a wrong one is answered with all")
    one.add_argument("entity", nargs="?", default="", help="node, sys or a pod's uid (default: each of them)")
    one.add_argument("--container", default="", help="this container of the pod")
    one.add_argument("--points", action="store_true", help="the points themselves")
    _add_window(one, "5m", "raw")
    one = add("export", _export, "Write CSV for the backtest: one row per time, one column per pod.", "")
    one.add_argument(
        "--metric", action="append", default=[], help="which metric; again for more (default: cpu, memory)"
    )
    one.add_argument("--entity", action="append", default=[], help="only this one; again for more (default: every pod)")
    one.add_argument("--aggregate", choices=("avg", "max"), default="avg", help="what a period is worth (default: avg)")
    one.add_argument(
        "--to",
        metavar="PATH",
        default="-",
        help="a folder, made if need be, a file .csv or .csv.gz, or - (the default)",
    )
    _add_window(one, "8d", "5m")
    add("verify", _verify, "Read everything and report faults; with any, the exit code is 1.")
    return parser


def _usual_data_dir(environment: Mapping[str, str]) -> str:
    """The one in the environment, else the node's, else the one of ``--standalone`` where that alone has a database."""
    if given := environment.get(variable("headroom-agent", "data-dir")):
        return given
    node, own = SYSTEM_DATA_DIR, state_dir(environment)
    return str(own if os.access(own / "agent.db", os.R_OK) and not os.access(node / "agent.db", os.F_OK) else node)


def _add_window(parser: Parser, window: str, resolution: str) -> None:
    parser.add_argument(
        "--window", metavar="TIME", default=window, help=f"how much, as 5m, 12h or 7d (default: {window})"
    )
    parser.add_argument("--end", metavar="WHEN", default="", help="its end, as 2026-01-31T12:00:00Z or seconds since 1970 (default: the last sample)")  # fmt: skip # noqa: E501
    parser.add_argument("--resolution", choices=tuple(_PERIODS), default=resolution, help=f"raw samples, or periods (default: {resolution})")  # fmt: skip # noqa: E501


def _stats(database: DatabaseReader, given: argparse.Namespace) -> int:
    result = database.stats()
    resolutions = [
        {**dataclasses.asdict(resolution), "bytes_per_point": resolution.bytes_per_point}
        for resolution in result.resolutions
    ]
    if given.output == "json":
        _print_json(_camel(dataclasses.asdict(result)) | {"resolutions": [_camel(row) for row in resolutions]})
        return 0
    sizes = (result.file_bytes, result.log_bytes, result.used_bytes)
    file, log, used = (f"{size / _MIB:.1f} MiB" for size in sizes)
    _print_line(f"{result.path}: {file}, log {log}, in use {used}, schema {result.schema}")
    learned = f"{result.checkpoints} parts, {result.checkpoint_bytes / 1024:.0f} KiB"
    _print_line(f"{result.series} series; checkpoint: {learned}\n")
    rows = [
        {
            "resolution": row["name"],
            "series": row["series"],
            "points": row["points"],
            "bytes": row["size"],
            "bytes/point": "" if row["bytes_per_point"] is None else f"{row['bytes_per_point']:.2f}",
            "first": _when(row["first"]),
            "last": _when(row["last"]),
        }
        for row in resolutions
    ]
    _print_table(lambda: rows)
    return 0


def _query(database: DatabaseReader, given: argparse.Namespace) -> int:
    start, end = _window(database, given)
    period, unit = _PERIODS[given.resolution], _UNITS.get(given.metric.split("_", maxsplit=1)[0], "ratio")
    entities = _entities(database, given, start, end)
    result = {
        entity: export.SeriesExport(database, given.metric, start, end, period, (entity,), given.container)
        for entity in entities
    }

    def points() -> Iterator[Row]:
        """Return them one at a time: many weeks of them do not fit into the memory of the agent's container."""
        for entity, extract in result.items():
            for series in (column for columns in extract.slices() for column in columns.values()):
                for time, value in zip(series.times.tolist(), series.values.tolist(), strict=True):
                    yield {"entity": entity, "time": _when(time), "value": value}

    if given.points:
        _print_rows(points, given.output)
        return 0
    rows = []
    for entity, extract in result.items():
        series = extract.read(start, end).get(entity, EMPTY)
        if len(series) or (given.entity and not period):
            rows.append({"entity": entity, "unit": unit, **_statistics(series)})
    _print_rows(lambda: rows, given.output)
    return 0


def _check_metric(database: DatabaseReader, metric: str) -> None:
    metrics = database.metrics()
    if metric not in metrics:
        raise WrongSetting(f"there is no metric {metric!r}; there are: {', '.join(metrics) or 'none'}")


def _entities(database: DatabaseReader, given: argparse.Namespace, start: float, end: float) -> list[str]:
    """The selected entities that have samples in the window; an error for one that does not exist."""
    if not given.container:
        _check_metric(database, given.metric)
    if not given.entity:
        return export.SeriesExport(database, given.metric, start, end, _PERIODS[given.resolution]).names()
    if not database.has_series(given.metric, given.entity, given.container):
        of = f" of container {given.container!r}" if given.container else ""
        raise WrongSetting(
            f"there is no {given.metric}{of} of {given.entity!r}; `db query {given.metric}` lists the entities"
        )
    return [given.entity]


def _statistics(series: Series) -> Row:
    if not len(series):
        return {"count": 0}
    result = dataclasses.asdict(statistics(series.times, series.values))
    return {"count": result.pop("count"), "span": result.pop("span_seconds"), **result}


def _export(database: DatabaseReader, given: argparse.Namespace) -> int:
    start, end = _window(database, given)
    period, target = _PERIODS[given.resolution], Path(given.to)
    if database.metrics():  # an empty database exports headers
        for metric in given.metric or ():
            _check_metric(database, metric)
    metrics = given.metric or [CPU, MEMORY]
    uids: set[str] = set()
    if given.to.endswith("/") or (len(metrics) > 1 and given.to != "-" and not target.name.endswith(_TABLES)):
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongSetting(f"--to: cannot make folder {target}: {error.strerror}") from error
    if len(metrics) > 1 and not target.is_dir():
        raise WrongSetting("--to must be a folder, because several metrics are a file each; or give one --metric")
    for metric in metrics:
        extract = export.SeriesExport(database, metric, start, end, period, highest=given.aggregate == "max")
        exported = extract.names()
        wanted = given.entity or export.pods(exported)
        missing = [entity for entity in wanted if entity not in exported]
        if missing:
            raise WrongSetting(
                f"there is no {metric} of {missing[0]!r} in this window; `db query {metric}` lists the entities"
            )
        uids.update(export.pods(wanted))
        lines = extract.rows(set(wanted))
        if given.to == "-":
            export.write_to(sys.stdout.buffer, lines)
        else:
            _write(target / export.file_name(metric) if target.is_dir() else target, lines, f"{len(wanted)} columns")
    if target.is_dir():
        _write(target / PODS_FILE, _metadata(database).rows(uids), "their names, requests and limits")
    return 0


def _metadata(database: DatabaseReader) -> PodMetadataStore:
    result = PodMetadataStore()
    try:
        result.restore(checkpoints.load(database.connection))
    except CheckpointError as error:
        sys.stderr.write(f"{database.path}: {error}; pods are exported without their names\n")
    return result


def _write(path: Path, lines: Iterable[list[str]], what: str) -> None:
    try:
        count = export.write(path, lines)
    except OSError as error:
        raise WrongSetting(f"--to: cannot write {path}: {error.strerror}") from error
    sys.stderr.write(f"{path}: {count} rows, {what}\n")


def _verify(database: DatabaseReader, given: argparse.Namespace) -> int:
    result = verify(database)
    database.unreadable.clear()  # they are among the findings
    if given.output == "json":
        _print_json({**_camel(dataclasses.asdict(result)), "sound": result.is_sound})
    else:
        for finding in result.findings:
            _print_line(finding)
        state = "sound" if result.is_sound else f"{len(result.findings)} findings"
        _print_line(
            f"{database.path}: {state}: {result.blocks} blocks, {result.chunks} chunks, {result.samples} samples"
        )
    return 0 if result.is_sound else _FAILED


def _window(database: DatabaseReader, given: argparse.Namespace) -> tuple[float, float]:
    """The requested window. [seconds since 1970]"""
    text = given.window
    try:
        seconds = float(text[:-1]) * _DAY if text.endswith("d") else parse_duration(text)
    except (DurationError, ValueError):
        seconds = math.nan
    if not 0 < seconds <= option_types.YEAR_SECONDS:
        raise WrongSetting(f"--window must be a time such as 5m, 12h or 7d, at most a year, got: {text!r}")
    end = _moment(given.end) if given.end else database.last_time() + (1 if _PERIODS[given.resolution] else 0)
    return end - seconds, end


def _moment(text: str) -> float:
    try:
        if text.replace(".", "", 1).isdecimal():
            return float(text)
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        raise WrongSetting(f"--end must be a time such as 2026-01-31T12:00:00Z, got: {text!r}") from None


def _when(seconds: float | None) -> str:
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(round(seconds, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return f"{seconds:.3f}"


def _print_rows(rows: Callable[[], Iterable[Row]], form: str) -> None:
    """Print rows as they come; a table takes them twice, the first time for its widths."""
    if form == "csv":
        export.write_to(sys.stdout.buffer, _csv_lines(rows()))
    elif form == "table":
        _print_table(lambda: ({name: _shown(value) for name, value in row.items()} for row in rows()))
    else:
        before = "[\n"
        for row in rows():
            text = json.dumps(_camel(row), indent=2, ensure_ascii=False)
            sys.stdout.write(before + textwrap.indent(text, "  "))
            before = ",\n"
        _print_line("[]" if before == "[\n" else "\n]")


def _csv_lines(rows: Iterable[Row]) -> Iterator[list[str]]:
    names: list[str] = []
    for row in rows:
        if not names:
            names = list(row)
            yield names
        yield [_plain(row.get(name)) for name in names]


def _print_table(rows: Callable[[], Iterable[Row]]) -> None:
    """Columns of equal width; numbers to the right."""
    widths: dict[str, int] = {}
    for row in rows():
        for name in row:
            widths[name] = max(widths.get(name, len(name)), len(str(row[name])))
    if not widths:
        _print_line("nothing")
        return
    _print_line("  ".join(name.ljust(width) for name, width in widths.items()).rstrip())
    for row in rows():
        cells = ((str(row.get(name, "")), width) for name, width in widths.items())
        _print_line("  ".join(f"{text:{'>' if text[:1].isdigit() else '<'}{width}}" for text, width in cells).rstrip())


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _print_json(content: object) -> None:
    _print_line(json.dumps(content, indent=2, ensure_ascii=False))


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else _plain(value)  # noqa: PLR2004 - digits


def _plain(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _camel(row: Row) -> Row:
    return {re.sub(r"_(.)", lambda found: found[1].upper(), name): value for name, value in row.items()}
