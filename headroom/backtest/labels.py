"""Labels beside points, none on another: tried around each point, near first, and moved away with a line if it must."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

_DISTANCES: Final = (8.0, 16.0, 28.0, 42.0, 60.0, 80.0)
"""How far from its point a label may be. [points]"""
_DIRECTIONS: Final = 12
_NEAR: Final = 10.0
_PAPER: Final = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}
_SIZE: Final = 8.0
_POINT: Final = 5.0
"""Half the side of the box that a point takes. [pixels]"""


def place_labels(axes: "Axes", points: Sequence[tuple[float, float, str]]) -> None:
    """Write a text beside each point, where none covers another, a point, the edge, or what is written already.

    Args:
        axes: already laid out, so that places are known.
        points: x, y and text of each.
    """
    from matplotlib.transforms import Bbox  # noqa: PLC0415 - only pictures pay for it

    frame = axes.get_window_extent()
    taken = [text.get_window_extent() for text in axes.texts]
    for x, y, _ in points:
        across, up = axes.transData.transform((x, y))
        taken.append(Bbox.from_extents(across - _POINT, up - _POINT, across + _POINT, up + _POINT))
    for x, y, text in sorted(points, key=lambda point: (point[1], point[0])):
        taken.append(_place(axes, (x, y), text, taken, frame))


def _place(axes: "Axes", point: tuple[float, float], text: str, taken: "Sequence[Bbox]", frame: "Bbox") -> "Bbox":
    """Where the label ended up."""
    label = axes.annotate(
        text, point, textcoords="offset points", xytext=(_NEAR, 0.0), fontsize=_SIZE, va="center", bbox=_PAPER
    )
    least: tuple[float, tuple[float, float]] | None = None
    for offset in _offsets():
        box = _moved(label, offset)
        outside = box.x0 < frame.x0 or box.x1 > frame.x1 or box.y0 < frame.y0 or box.y1 > frame.y1
        cost = sum(_shared(box, each) for each in taken) + (1e6 if outside else 0.0)
        if least is None or cost < least[0]:
            least = (cost, offset)
        if cost == 0.0:
            break
    offset = least[1] if least else (_NEAR, 0.0)
    box = _moved(label, offset)
    if math.hypot(*offset) > _NEAR:
        axes.annotate(
            "",
            point,
            textcoords="offset points",
            xytext=offset,
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 3},
        )
    return box


def _offsets() -> Iterator[tuple[float, float]]:
    for distance in _DISTANCES:
        for step in range(_DIRECTIONS):
            # To the right first, then by turns below and above it.
            angle = math.tau * ((step + 1) // 2) / _DIRECTIONS * (-1 if step % 2 else 1)
            yield distance * math.cos(angle), distance * math.sin(angle)


def _moved(label: "Annotation", offset: tuple[float, float]) -> "Bbox":
    across, _ = offset
    label.set_position(offset)
    label.set_horizontalalignment("left" if across > 1.0 else "right" if across < -1.0 else "center")
    return label.get_window_extent()


def _shared(one: "Bbox", other: "Bbox") -> float:
    """The area of both."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(width * height) if width > 0.0 and height > 0.0 else 0.0
