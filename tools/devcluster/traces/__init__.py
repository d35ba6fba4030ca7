"""Series of real CPU and memory use, as shares of a limit; see README.md for where they come from."""

import csv
import functools
import gzip
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
FILES = ("bitbrains.csv.gz", "daily.csv.gz", "planetlab.csv.gz")
STEP_SECONDS = 300.0  # time between two values of a series
UNIT = 1000.0  # the files hold thousandths


@dataclass(frozen=True)
class Series:
    """A machine's use over time, as shares of its limit. It starts again where it ends."""

    name: str  # such as `bitbrains-46`
    cpu: Sequence[float]  # CPU over the limit, every 300 s [0..1]
    memory: Sequence[float]  # memory over the limit, every 300 s; empty where the trace has none [0..1]

    def cpu_share(self, seconds: float) -> float:
        """CPU at a time since the start of the series, linear between its values. [0..1]"""
        return at(self.cpu, seconds)

    def memory_share(self, seconds: float) -> float:
        """Memory at a time since the start of the series; half the limit where the trace has none. [0..1]"""
        return at(self.memory, seconds) if self.memory else 0.5


def at(values: Sequence[float], seconds: float) -> float:
    """The value of a series at a time, linear between its values, from the start again after its end."""
    position = seconds / STEP_SECONDS % len(values)
    index = int(position)
    part = position - index
    return values[index] * (1 - part) + values[(index + 1) % len(values)] * part


@functools.cache
def load() -> Mapping[str, Series]:
    """Every series by name."""
    columns: dict[str, list[float]] = {}
    for name in FILES:
        rows = csv.reader(io.StringIO(gzip.decompress((FOLDER / name).read_bytes()).decode()))
        header, *body = list(rows)
        for column, values in zip(header, zip(*body, strict=True), strict=True):
            columns[column] = [int(value) / UNIT for value in values]
    names = [column.removesuffix(".cpu") for column in columns if column.endswith(".cpu")]
    return {name: Series(name, columns[f"{name}.cpu"], columns.get(f"{name}.memory", [])) for name in names}


def choose(key: str, family: str = "bitbrains") -> tuple[Series, float]:
    """The series and the time in it where something starts: the same for the same key, spread over all keys.

    Args:
        key: names the thing, a pod's namespace and name for instance.
        family: the trace, the first part of the series' names.

    Returns:
        The series, and where to start in it. [seconds]
    """
    names = sorted(name for name in load() if name.startswith(f"{family}-"))
    digest = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    series = load()[names[digest % len(names)]]
    return series, digest // len(names) % len(series.cpu) * STEP_SECONDS
