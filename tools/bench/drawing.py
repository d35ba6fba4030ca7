"""Drawings as SVG that are the same for the same figures."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tools.bench.measurement import Picture

SIZE: Final = (7.2, 3.4)  # width and height of a drawing [inches]
_FEW: Final = 3  # series whose legend fits into the drawing
_STYLE: Final[Any] = {
    "svg.fonttype": "none",  # letters stay letters, which is a fifth of the size
    "svg.hashsalt": "headroom",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}

Points = Sequence[tuple[float, float]]


@contextmanager
def drawing(columns: int = 1, size: tuple[float, float] = SIZE) -> Iterator[tuple[Any, Callable[[str, str], Picture]]]:
    """Axes to draw on, one beside the other, and what makes a picture of a name and a title of them.

    Args:
        columns: how many.
        size: of the whole. [inches]
    """
    # A figure of its own needs no window and no global state; it is loaded only where something is drawn.
    from matplotlib import rc_context  # noqa: PLC0415 - takes half a second and 30 MiB
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    with rc_context(_STYLE):
        figure = Figure(figsize=size)

        def finish(name: str, title: str) -> Picture:
            text = io.StringIO()
            figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
            return Picture(name, title, text.getvalue())

        yield figure.subplots(1, columns, squeeze=False)[0], finish


def lines(axes: Any, series: Mapping[str, Points], across: str, up: str, *, powers: bool = False) -> None:  # noqa: ANN401 - matplotlib has no types
    """Points with lines between them, and a legend where there are several.

    Args:
        axes: where.
        series: name -> its points; those that are missing are not among them.
        across: what the horizontal axis has.
        up: what the vertical one has; it begins at zero.
        powers: whether it has powers of ten in place of that.
    """
    for name, points in series.items():
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    axes.set(xlabel=across, ylabel=up)
    if powers:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if len(series) > _FEW:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    elif len(series) > 1:
        axes.legend()


def bars(axes: Any, ranges: Mapping[str, tuple[float, float, float]], across: str, *, named: bool = True) -> None:  # noqa: ANN401 - as above
    """Horizontal bars with a line from the smallest to the largest.

    Args:
        axes: where.
        ranges: name -> the figure, the smallest, the largest; the first is on top.
        across: what the axis has.
        named: whether the names stand beside.
    """
    names = list(ranges)
    middle = [ranges[name][0] for name in names]
    low, high = ([abs(ranges[name][at] - ranges[name][0]) for name in names] for at in (1, 2))
    axes.barh(names, middle, xerr=[low, high], height=0.6, capsize=2, color="#4c78a8", ecolor="#333333")
    axes.invert_yaxis()
    axes.set_xlabel(across)
    axes.tick_params(axis="y", labelleft=named)
    axes.grid(visible=False, axis="y")
