"""Lines over time as SVG: no script is needed to see them. What the script shows under the pointer comes along."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from manager.web import figures
from manager.web.history import RINGS, Floats, Plot, Series
from manager.web.html import Html, join, tag

_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 712, 12, 246
_WIDTH, _HEIGHT = 720, 272
_TICKS: Final = 4
_NICE: Final = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 10)
_DIGITS: Final = 4
_FEWEST: Final = 13
"""So many points fit on the axis of a plot that has just begun."""
_MINUTES_AN_HOUR: Final = 60


@dataclass(frozen=True, slots=True)
class Line:
    """How a series is drawn."""

    series: Series
    """Which."""
    name: str
    """How people call it."""
    style: str
    """Class in the style sheet; beside its colour each has a stroke of its own."""
    filled: bool = False
    """Whether the area below is tinted."""


LINES: Final = (
    Line(Series.ALLOCATABLE, "Allocatable", "allocatable"),
    Line(Series.REQUESTED, "Requested by Prod", "requested"),
    Line(Series.OFFERED, "Mid published", "offered", filled=True),
    Line(Series.BOUGHT, "Mid allocated", "bought"),
    Line(Series.PEAK, "Predicted peak of Prod", "peak"),
    Line(Series.USED, "Used by all", "used"),
    Line(Series.USED_BY_PROD, "Used by Prod and system", "prod"),
)
"""Drawn in this order: what is measured lies on top."""


def figure(subject: str, resource: str, length: str, plot: Plot) -> Html:
    """All lines of one resource.

    Args:
        subject: what it is about, for those who do not see it.
        resource: cpu or memory.
        length: a key of `RINGS`.
        plot: the numbers.
    """
    plot = plot.trimmed(_FEWEST)
    values = {line: plot.of(line.series, resource) for line in LINES}
    top = _top(max((float(np.nanmax(each)) for each in values.values() if np.isfinite(each).any()), default=0.0))
    drawn = [_draw(line, each, top) for line, each in values.items()]
    title = figures.TITLES[resource]
    known = [
        (line.name, figures.amount(resource, _last(each))) for line, each in values.items() if _last(each) is not None
    ]
    told = ", ".join(f"{name} {number}" for name, number in known) or "nothing is known yet"
    picture = tag(
        "svg",
        _grid(resource, RINGS[length].step_seconds * (len(plot.times) - 1), top),
        *drawn,
        None if known else tag("text", "Nothing is known yet", class_="middle", x=_x(0.5), y=_y(top / 2, top) - 8),
        tag("line", class_="cursor", x1=_LEFT, x2=_LEFT, y1=_TOP, y2=_BOTTOM, visibility="hidden"),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=f"{title} of {subject} over the last {RINGS[length].seconds // 3600} hours. Last: {told}.",
    )
    return tag(
        "figure",
        tag(
            "figcaption",
            title,
            tag("small", f" {figures.UNITS[resource]}"),
            tag("time", class_="at", aria_hidden="true"),
        ),
        picture,
        _legend(resource, values),
        class_="plot",
        data_left=_LEFT,
        data_right=_RIGHT,
        data_width=_WIDTH,
        data_resource=resource,
        data_times=json.dumps([int(each) for each in plot.times], separators=(",", ":")),
        data_values=json.dumps({line.style: _rounded(each) for line, each in values.items()}, separators=(",", ":")),
    )


def bullet(resource: str, numbers: dict[Series, float | None], label: str) -> Html | None:
    """A node's numbers on one bar as long as what is allocatable; None where that is not known.

    Args:
        resource: cpu or memory.
        numbers: by series. [cores, GiB]
        label: the same in words.
    """
    whole = numbers.get(Series.ALLOCATABLE)
    if not whole:
        return None

    def width(series: Series) -> float:
        return round(100 * min((numbers.get(series) or 0.0) / whole, 1.0), 2)

    peak, offered = numbers.get(Series.PEAK), width(Series.OFFERED)
    start = min(width(Series.PEAK), 100.0 - offered)
    parts = [
        tag("rect", class_="whole", width=100, height=10),
        tag("rect", class_="requested", width=width(Series.REQUESTED), height=10),
        tag("rect", class_="offered", x=start, width=offered, height=10) if offered else None,
        tag("rect", class_="used", y=3, width=width(Series.USED), height=4),
        tag("rect", class_="peak", x=round(max(width(Series.PEAK) - 0.6, 0), 2), width=1.2, height=10)
        if peak is not None
        else None,
    ]
    return tag(
        "svg",
        tag("title", f"{figures.TITLES[resource]}: {label}"),
        *parts,
        class_="bullet",
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{figures.TITLES[resource]}: {label}",
    )


def _rounded(line: Floats) -> list[float | None]:
    return [None if math.isnan(each) else float(f"{each:.{_DIGITS}g}") for each in line.tolist()]


def _last(line: Floats) -> float | None:
    """The newest number; of the last two steps, since the present one may have just begun."""
    known = [each for each in line[-2:].tolist() if not math.isnan(each)]
    return known[-1] if known else None


def _top(largest: float) -> float:
    """Where the axis ends: a round number a little above the largest."""
    if largest <= 0:
        return 1.0
    step = largest * 1.02 / _TICKS
    unit = 10.0 ** math.floor(math.log10(step))
    return _TICKS * unit * next(each for each in _NICE if each * unit >= step * (1 - 1e-9))


def _x(share: float) -> float:
    return round(_LEFT + share * (_RIGHT - _LEFT), 1)


def _y(value: float, top: float) -> float:
    return round(_BOTTOM - value / top * (_BOTTOM - _TOP), 1)


def _grid(resource: str, seconds: int, top: float) -> Html:
    parts: list[Html] = []
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = _y(value, top)
        parts.append(tag("line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y, y2=y))
        parts.append(tag("text", figures.digits(value), class_="y", x=_LEFT - 8, y=y + 4))
    for tick in range(_TICKS + 1):
        side = "first" if tick == 0 else "last" if tick == _TICKS else "middle"
        ago = _ago(seconds * (_TICKS - tick) / _TICKS / 60)
        parts.append(tag("text", ago, class_=f"x {side}", x=_x(tick / _TICKS), y=_BOTTOM + 20))
    return tag("g", *parts, aria_hidden="true", data_unit=figures.UNITS[resource])


def _ago(minutes: float) -> str:
    """How long ago: "30 min", "2 h", "now"."""
    if minutes < 1:
        return "now"
    if minutes > 2 * _MINUTES_AN_HOUR:
        return f"{figures.digits(round(minutes / _MINUTES_AN_HOUR, 1))} h"
    return f"{minutes:.0f} min"


def _draw(line: Line, values: Floats, top: float) -> Html:
    runs = list(_runs(values))
    last = len(values) - 1
    strokes = " ".join(_path(run, last, top) for run in runs if len(run) > 1)
    # A line of no length is drawn as a dot: after a cold start there is but one point.
    dots = " ".join(f"M{_x(index / last)} {_y(value, top)} h0.01" for ((index, value), *more) in runs if not more)
    parts = [tag("path", class_=f"line {line.style}", d=strokes)] if strokes else []
    parts += [tag("path", class_=f"line dot {line.style}", d=dots)] if dots else []
    if line.filled:
        areas = " ".join(
            f"{_path(run, last, top)} L{_x(run[-1][0] / last)} {_BOTTOM} L{_x(run[0][0] / last)} {_BOTTOM} Z"
            for run in runs
            if len(run) > 1
        )
        parts.insert(0, tag("path", class_=f"area {line.style}", d=areas))
    return join(*parts)


def _path(run: Sequence[tuple[int, float]], last: int, top: float) -> str:
    points = [f"{_x(index / last)} {_y(value, top)}" for index, value in run]
    return f"M{points[0]} " + " ".join(f"L{each}" for each in points[1:])


def _runs(values: Floats) -> Iterator[list[tuple[int, float]]]:
    """The known points, parted where some are missing."""
    run: list[tuple[int, float]] = []
    for index, value in enumerate(values.tolist()):
        if not math.isnan(value):
            run.append((index, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _legend(resource: str, values: dict[Line, Floats]) -> Html:
    rows = [
        tag(
            "li",
            tag("svg", tag("path", class_=f"line {line.style}", d="M1 6 H25"), viewBox="0 0 26 12", aria_hidden="true"),
            tag("span", line.name, class_="name"),
            tag("b", figures.amount(resource, _last(each)), data_style=line.style),
        )
        for line, each in values.items()
    ]
    return tag("ul", *rows, class_="legend")
