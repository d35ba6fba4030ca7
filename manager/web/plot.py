"""Lines over time as SVG: no script is needed to see them. What the script shows under the pointer comes along."""

import json
import math
from collections.abc import Callable
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from manager.web import figures
from manager.web.history import RINGS, Floats, Plot, Series
from manager.web.html import Html, join, tag

_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 712, 12, 246
_WIDTH, _HEIGHT = 720, 272
_TICKS: Final = 4
_NICE: Final = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 10)
_FEWEST: Final = 13  # so many points fit on the axis of a plot that has just begun


class Line(NamedTuple):
    """How a series is drawn: its name for people, and its class in the style sheet, a colour and a stroke."""

    series: Series
    name: str
    style: str


LINES: Final = (
    Line(Series.ALLOCATABLE, "Allocatable", "allocatable"),
    Line(Series.REQUESTED, "Requested by Prod", "requested"),
    Line(Series.PUBLISHED, "Mid published", "published"),
    Line(Series.ALLOCATED, "Mid allocated", "allocated"),
    Line(Series.PEAK, "Predicted peak of Prod", "peak"),
    Line(Series.USED, "Used by all", "used"),
    Line(Series.USED_BY_PROD, "Used by Prod and system", "prod"),
)
"""Drawn in this order: what is measured lies on top."""


def figure(subject: str, resource: str, length: str, plot: Plot) -> Html:
    """All lines of one resource over one of `RINGS`; the subject is for those who do not see it."""
    plot = plot.trimmed(_FEWEST)
    values = {line: plot.of(line.series, resource) for line in LINES}
    largest = np.nanmax(np.append(plot.values[[line.series * 2 + (resource == "memory") for line in LINES]], 0.0))
    top, title, unit = _top(float(largest)), figures.TITLES[resource], figures.UNITS[resource]
    last = {line: _last(each) for line, each in values.items()}
    known = [f"{line.name} {figures.amount(resource, each)}" for line, each in last.items() if each is not None]
    hours, words = RINGS[length].seconds // 3600, ", ".join(known) or "nothing is known yet"
    legend = [
        tag(
            "li",
            tag("svg", tag("path", class_=f"line {line.style}", d="M1 6 H25"), viewBox="0 0 26 12", aria_hidden="true"),
            tag("span", line.name, class_="name"),
            tag("b", figures.amount(resource, last[line]), data_style=line.style),
        )
        for line in LINES
    ]
    picture = tag(
        "svg",
        _grid(unit, RINGS[length].step_seconds * (len(plot.times) - 1), top),
        *(_draw(line, each, top) for line, each in values.items()),
        None if known else tag("text", "Nothing is known yet", class_="middle", x=_x(0.5), y=_y(top / 2, top) - 8),
        tag("line", class_="cursor", x1=_LEFT, x2=_LEFT, y1=_TOP, y2=_BOTTOM, visibility="hidden"),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=f"{title} of {subject} over the last {hours} hours. Last: {words}.",
    )
    return tag(
        "figure",
        tag("figcaption", title, tag("small", f" {unit}"), tag("time", class_="at", aria_hidden="true")),
        picture,
        tag("ul", *legend, class_="legend"),
        class_="plot",
        data_left=_LEFT,
        data_right=_RIGHT,
        data_width=_WIDTH,
        data_resource=resource,
        data_times=json.dumps(plot.times.tolist(), separators=(",", ":")),
        data_values=json.dumps({line.style: _rounded(each) for line, each in values.items()}, separators=(",", ":")),
    )


def bullet(resource: str, number: Callable[[Series, str], float | None], label: str) -> Html | None:
    """A node's numbers on one bar as long as what is allocatable; None where that is not known.

    Args:
        resource: cpu or memory.
        number: by series and resource. [cores, GiB]
        label: the same in words.
    """
    whole = number(Series.ALLOCATABLE, resource)
    if not whole:
        return None
    width = {each: round(100 * min((number(each, resource) or 0.0) / whole, 1.0), 2) for each in Series}
    peak, published = width[Series.PEAK], width[Series.PUBLISHED]
    told = f"{figures.TITLES[resource]}: {label}"
    parts = [
        tag("rect", class_="whole", width=100, height=10),
        tag("rect", class_="requested", width=width[Series.REQUESTED], height=10),
        tag("rect", class_="published", x=min(peak, 100.0 - published), width=published, height=10)
        if published
        else None,
        tag("rect", class_="used", y=3, width=width[Series.USED], height=4),
    ]
    if number(Series.PEAK, resource) is not None:
        parts.append(tag("rect", class_="peak", x=round(max(peak - 0.6, 0), 2), width=1.2, height=10))
    look = {"class_": "bullet", "viewBox": "0 0 100 10", "preserveAspectRatio": "none", "role": "img"}
    return tag("svg", tag("title", told), *parts, **look, aria_label=told)


def _rounded(line: Floats) -> list[float | None]:
    return [None if math.isnan(each) else float(f"{each:.4g}") for each in line.tolist()]


def _last(line: Floats) -> float | None:
    """The newest number; of the last two steps, since the present one may have just begun."""
    return next((each for each in line[:-3:-1].tolist() if not math.isnan(each)), None)


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


def _grid(unit: str, seconds: int, top: float) -> Html:
    parts: list[Html] = []
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = _y(value, top)
        side = "first" if tick == 0 else "last" if tick == _TICKS else "middle"
        ago = _ago(seconds * (_TICKS - tick) / _TICKS / 60)
        parts.append(tag("line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y, y2=y))
        parts.append(tag("text", figures.digits(value), class_="y", x=_LEFT - 8, y=y + 4))
        parts.append(tag("text", ago, class_=f"x {side}", x=_x(tick / _TICKS), y=_BOTTOM + 20))
    return tag("g", *parts, aria_hidden="true", data_unit=unit)


def _ago(minutes: float) -> str:
    """How long ago: "30 min", "2 h", "now"."""
    if minutes < 1:
        return "now"
    return f"{figures.digits(round(minutes / 60, 1))} h" if minutes > 120 else f"{minutes:.0f} min"  # noqa: PLR2004 - 2 h


def _draw(line: Line, values: Floats, top: float) -> Html:
    """A line, parted where points are missing; what is published has the area below tinted."""
    last, strokes, areas, dots = len(values) - 1, list[str](), list[str](), list[str]()
    points = enumerate(values.tolist())
    for missing, run in groupby(points, key=lambda point: math.isnan(point[1])):
        if missing:
            continue
        known = [(_x(index / last), _y(value, top)) for index, value in run]
        path = "M" + " L".join(f"{x} {y}" for x, y in known)
        if len(known) == 1:  # a line of no length is drawn as a dot: after a cold start there is but one point
            dots.append(f"{path} h0.01")
            continue
        strokes.append(path)
        areas.append(f"{path} L{known[-1][0]} {_BOTTOM} L{known[0][0]} {_BOTTOM} Z")
    drawn = (("area", areas if line.series is Series.PUBLISHED else []), ("line", strokes), ("line dot", dots))
    return join(*(tag("path", class_=f"{kind} {line.style}", d=" ".join(paths)) for kind, paths in drawn if paths))
