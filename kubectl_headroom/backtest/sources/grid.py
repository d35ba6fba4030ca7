"""Resamples onto steps of five minutes, fills gaps, leaves out series with too many of them; texts about them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from agent.api import BoolArray, FloatArray, IntArray
from kubectl_headroom.backtest.trace import Resource, Trace, TraceError

STEP_SECONDS: Final = 300.0  # steps are five minutes: models use 5-minute averages
MOST_VALUES: Final = 50_000_000
"""Most values that a trace may have: 400 MB of them. Finer samples are averaged as they are read."""
COVERAGE: Final = 0.95  # a machine counts when more than this share of its steps was measured
_SHOWN: Final = 5
_LONGEST_NAME: Final = 80
_LONGEST_TEXT: Final = 40
_NEAR: Final = 0.1  # how far from five minutes apart rows may be to be one row per step: a tenth


@dataclass(frozen=True, slots=True)
class Table:
    """A table on steps of five minutes."""

    names: tuple[str, ...]
    times: FloatArray  # shape (T,) [seconds since 1970]
    values: FloatArray  # shape (T, V), NaN where nothing was measured
    notes: tuple[str, ...]  # repaired data


@dataclass(slots=True)
class Steps:
    """Rows of a table of series on a grid of steps, added one after the other in any order.

    Rows about five minutes apart are a step each, from the first one on. Rows closer together are averaged over the
    five minutes, counted from 1970, that they fall in. Rows further apart are refused: their peaks are not known.
    """

    series: int
    where: str  # what messages begin with
    _origin: float = 0.0
    _offset: float = 0.0  # half a step where rows are a step each
    _merged: int = 0
    _out_of_order: int = 0
    _rows: dict[int, FloatArray] = field(default_factory=dict)
    _counts: dict[int, IntArray] = field(default_factory=dict)
    _last: float = -np.inf

    def begin(self, times: Sequence[float]) -> None:
        """Take the steps from the times of the first rows; raises TraceError if they are too far apart."""
        sorted_times = np.unique(np.asarray(times, dtype=np.float64))
        apart = float(np.median(np.diff(sorted_times))) if sorted_times.size > 1 else STEP_SECONDS
        if apart > STEP_SECONDS * (1 + _NEAR):
            raise TraceError(
                f"{self.where}: its rows are {apart:g} s apart; at most 300 s can be used, because models use "
                "5-minute averages"
            )
        if apart >= STEP_SECONDS * (1 - _NEAR):
            self._origin, self._offset = float(sorted_times[0]), STEP_SECONDS / 2
        else:
            self._origin = float(sorted_times[0] // STEP_SECONDS * STEP_SECONDS)

    def add(self, time: float, values: FloatArray) -> None:
        """Take a row, shape (V,), NaN where nothing was measured: it is kept, not copied. TraceError for too many."""
        self._out_of_order += time < self._last
        self._last = time
        step = int((time - self._origin + self._offset) // STEP_SECONDS)
        row = self._rows.get(step)
        if row is None:
            check_size(len(self._rows) + 1, self.series, self.where)
            self._rows[step] = values
            return
        self._merged += 1
        there, new = ~np.isnan(row), ~np.isnan(values)
        counts = self._counts.setdefault(step, there.astype(np.intp))
        row[new] = np.where(there, row, 0.0)[new] + values[new]
        counts += new

    def table(self) -> tuple[FloatArray, FloatArray]:
        """Times, shape (T,), and values, shape (T, V), NaN where nothing was measured; the steps are used up.

        Raises TraceError if there is nothing, or a time far from all others leads to too many steps.
        """
        if not self._rows:
            raise TraceError(f"{self.where}: has no rows, or none in the requested time")
        first, last = min(self._rows), max(self._rows)
        check_size(last - first + 1, self.series, self.where)
        values = np.full((last - first + 1, self.series), np.nan)
        for step in list(self._rows):
            counts = self._counts.pop(step, None)
            row = self._rows.pop(step)
            values[step - first] = row if counts is None else row / np.maximum(counts, 1)
        return self._origin + STEP_SECONDS * np.arange(first, last + 1, dtype=np.float64), values

    def notes(self) -> list[str]:
        """Return the repaired data."""
        result = []
        if self._out_of_order:
            result.append(f"{self.where}: {counted(self._out_of_order, 'row')} out of order, put in order.")
        if self._merged:
            result.append(
                f"{self.where}: rows of the same five minutes were averaged ({counted(self._merged, 'row')})."
            )
        return result


def machine_trace(resource: Resource, table: Table, limits: FloatArray, source: str) -> Trace:
    """A trace of machines that are there all the time: gaps filled, capped at the limits, every repair noted.

    The table has at least one sample in each column, in cores or bytes.
    """
    usage, gaps = filled(table.values)
    above = float((usage > limits).mean())
    np.minimum(usage, limits, out=usage)
    notes = list(table.notes)
    if gaps:
        notes.append(f"Gaps were filled linearly: {percent(gaps)} of the {resource} values.")
    if above:
        notes.append(f"Use above the limit counts as the limit: {percent(above)} of the {resource} values.")
    return Trace(resource, table.times, STEP_SECONDS, usage, limits, table.names, source=source, notes=tuple(notes))


def check_size(steps: int, series: int, where: str) -> None:
    """Refuse what does not fit in memory (TraceError)."""
    if steps * series > MOST_VALUES:
        raise TraceError(
            f"{where}: {series} series over {steps * STEP_SECONDS / 86400:.1f} days are more than the {MOST_VALUES:,} "
            "values that fit; shorten the time with --from and --until, or correct a wrong time in it"
        )


def filled(values: FloatArray) -> tuple[FloatArray, float]:
    """Fill gaps linearly, and before the first and after the last sample with the nearest one, in place.

    The values, shape (T, V), have at least one sample in each series. The share that was filled is the second answer.
    """
    missing = np.isnan(values)
    steps = np.arange(values.shape[0])
    for place in np.flatnonzero(missing.any(axis=0)):
        gaps = missing[:, place]
        values[gaps, place] = np.interp(steps[gaps], steps[~gaps], values[~gaps, place])
    return values, float(missing.mean()) if missing.size else 0.0


def share_measured(values: FloatArray) -> FloatArray:
    """Share of the steps with a sample, by series, shape (V,)."""
    share: FloatArray = 1.0 - np.isnan(values).mean(axis=0)
    return share


def left_out(names: Sequence[str], wrong: BoolArray, why: str, what: str) -> list[str]:
    """A note about those of the series that are left out; none where none is."""
    some = [name for name, is_wrong in zip(names, wrong.tolist(), strict=True) if is_wrong]
    shown_names = ", ".join(plain(name) for name in some[:_SHOWN])
    more = f" and {len(some) - _SHOWN} more" if len(some) > _SHOWN else ""
    return [f"{len(some)} of {len(names)} {what} left out, {why}: {shown_names}{more}."] if some else []


def plain(name: str) -> str:
    """A name that fits a line: printable, and not too long."""
    return name[:_LONGEST_NAME] if name.isprintable() else repr(name[:_LONGEST_NAME])


def shown(text: object) -> str:
    return repr(text[:_LONGEST_TEXT] if isinstance(text, str) else text)[: 2 * _LONGEST_TEXT]


def percent(share: float) -> str:
    """A share as people read it: 0.0123 -> "1.2 %"."""
    return f"{share * 100:.2g} %" if share < 1 else "100 %"


def counted(number: int, what: str) -> str:
    """A count with its noun: "1 row", "2 rows"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def place_title(places: Sequence[object]) -> str:
    return str(places[0]) if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """Names, each once: the second "a" is called "a (2)"."""
    counts: dict[str, int] = {}
    result = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        result.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return tuple(result)
