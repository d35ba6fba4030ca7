"""Pictures of results: what a policy saves against how often it is wrong. Needs matplotlib."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from crds.duration import format_span
from kubectl_headroom.backtest.engine import ORACLE
from kubectl_headroom.backtest.score import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS: Final = (".png", ".svg")  # what a picture's file may end in
TARGETS: Final[Mapping[tuple[str, int], tuple[float, float]]] = {
    ("cpu", 86400): (1.8, 63.2),
    ("memory", 86400): (2.0, 65.6),
}
"""Resource and horizon [s] -> violation not above, savings not below, for the policy that ships. [percent]"""
_LONGEST_LABEL: Final = 34
_MARKERS: Final = "osD^vPX<>phd"
_TICKS: Final = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_GREY: Final = "0.35"
_POINT: Final[Any] = {"linestyle": "none", "markersize": 8, "markeredgecolor": "white"}
_NOTE: Final[Any] = {"textcoords": "offset points", "fontsize": 8}
STYLE: Final[Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9.0,
    "grid.alpha": 0.3,
    "svg.fonttype": "path",
    "svg.hashsalt": "headroom",
}
_Styles = Mapping[str, dict[str, Any]]


class PlotError(ValueError):
    """A picture that cannot be drawn; the message gives the reason and the remedy."""


def check(file: Path) -> None:
    """Check a picture's file before anything is computed; raises PlotError if none could be written there."""
    if file.suffix.lower() not in ENDINGS:
        raise PlotError(f"{file} must end in {' or '.join(ENDINGS)}")
    if file.is_dir():
        raise PlotError(f"{file} is a folder")
    if not file.parent.is_dir():
        raise PlotError(f"there is no folder {file.parent}")
    if find_spec("matplotlib") is None:
        raise PlotError("pictures need matplotlib, which is not installed here: pipx inject kube-headroom matplotlib")


def draw(results: Sequence[Result], file: Path, title: str = "") -> None:
    """Write a picture: for each resource and horizon a panel. The same results make the same bytes.

    It is violation against savings: the front that no policy beats is a line, the oracle and our targets are in it.
    Raises PlotError if it cannot be written.
    """
    check(file)
    from matplotlib import colormaps, rc_context  # noqa: PLC0415 - only plots pay for it
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.lines import Line2D  # noqa: PLC0415

    groups: dict[tuple[str, int], list[Result]] = {}
    for outcome in results:
        groups.setdefault((outcome.resource, outcome.horizon_seconds), []).append(outcome)
    colours = [*colormaps["tab10"].colors, *colormaps["Dark2"].colors]  # type: ignore[attr-defined]
    names = [name for name in dict.fromkeys(result.policy for result in results) if name != ORACLE]
    styles = {
        name: {"color": colours[index % len(colours)], "marker": _MARKERS[index % len(_MARKERS)]}
        for index, name in enumerate(names)
    }
    metadata: dict[str, Any] = {"Date": None} if file.suffix.lower() == ".svg" else {"Software": None}
    with rc_context(STYLE):
        figure = Figure(figsize=(10.0, 4.8 * len(groups) + 0.7), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(len(groups), 1, squeeze=False)[:, 0]
        for axes, ((resource, horizon), group) in zip(panels, groups.items(), strict=True):
            about = f"{resource}, horizon {format_span(horizon)}"
            _front(axes, group, styles, TARGETS.get((resource, horizon)), about)
        points = [Line2D([], [], label=_short(name), **_POINT, **style) for name, style in styles.items()]
        figure.legend(handles=points, loc="outside lower center", ncols=min(max(len(points), 1), 4), frameon=False)
        if title:
            figure.suptitle(title)
        try:
            figure.savefig(file, dpi=110, metadata=metadata)
        except OSError as error:
            raise PlotError(f"{file} cannot be written: {error.strerror or error}") from error


def _front(
    axes: "Axes", group: Sequence[Result], styles: _Styles, target: tuple[float, float] | None, about: str
) -> None:
    """Each policy as a point beside its name; the points that none is left of and above are joined as steps."""
    points = []
    for outcome in group:
        violated, saved = outcome.violation_percent.mean, outcome.savings_percent
        if outcome.policy == ORACLE:
            axes.axhline(saved, color=_GREY, linewidth=1.0, linestyle="--")
            place: dict[str, Any] = {
                "xycoords": ("axes fraction", "data"),
                "xytext": (-2, 3),
                "ha": "right",
                "color": _GREY,
            }
            axes.annotate(f"oracle: 0 % at {saved:.1f} %", (1.0, saved), **place, **_NOTE)
        else:
            axes.plot(violated, saved, **_POINT, **styles[outcome.policy])
            axes.annotate(_short(outcome.policy), (violated, saved), xytext=(8, 0), va="center", **_NOTE)
            points.append((violated, saved))
    best: list[tuple[float, float]] = []
    for violated, saved in sorted(points, key=lambda point: (point[0], -point[1])):
        if not best or saved > best[-1][1]:
            best.append((violated, saved))
    for (left, low), (right, high) in pairwise(best):
        axes.plot([left, right, right], [low, low, high], color=_GREY, linewidth=1.0, alpha=0.5, zorder=1)
    widest = max([violated for violated, _ in points], default=0.0)
    # Violations to 1 % in proportion, beyond in powers: the candidates lie close together.
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.6)
    ticks = [tick for tick in _TICKS if tick <= max(2.0, 1.6 * widest)]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(-0.08, max(2.0, 1.6 * widest))
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.06 * (high - low), high + 0.08 * (high - low))
    if target is not None:
        _target(axes, *target)
    axes.set_xlabel("mean violation [% of steps]")
    axes.set_ylabel("savings [% of limits]")
    axes.set_title(f"{about}: savings against violation")


def _target(axes: "Axes", violated: float, saved: float) -> None:
    """The corner in which the policy that ships should be."""
    left, right = axes.get_xlim()
    low, high = axes.get_ylim()
    right, high = max(right, 1.6 * violated), max(high, saved + 0.12 * (saved - low))
    axes.fill_between([left, violated], saved, high, color="tab:green", alpha=0.08, linewidth=0.0, zorder=0)
    corner = [left, violated, violated], [saved, saved, high]
    axes.plot(*corner, color="tab:green", linewidth=1.0, linestyle=":", zorder=1)
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)
    text = f"target of the default: {violated:g} % at {saved:g} %"
    axes.annotate(text, (left, high), xytext=(3, -3), va="top", color="tab:green", **_NOTE)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"
