"""A picture of pods that come and go: what each cold period saves, and how often it is wrong then."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tools.bench.drawing import drawing
from tools.bench.measurement import Picture

NAME: Final = "churn"
TITLE: Final = (
    "Pods that come and go: violation against savings of the default policy, a point per cold period; dashed where "
    "9 of 10 pods come back as the same workload and its history is remembered"
)
_SIZE: Final = (9.6, 4.2)
_SIZE_OF_LABELS: Final = 6.5


@dataclass(frozen=True, slots=True)
class Curve:
    """One life and setting of one resource."""

    resource: str  # cpu or memory
    name: str  # in the legend
    points: Sequence[tuple[float, float]]  # savings and violation [percent]
    labels: Sequence[str]  # the cold period of each point
    dashed: bool  # whether workloads are remembered


def draw(curves: Sequence[Curve]) -> Picture:
    """Both resources side by side; curves of one life have one colour."""
    lives = list(dict.fromkeys(curve.name.split(",")[0] for curve in curves))
    with drawing(columns=2, size=_SIZE) as (parts, finish):
        for axes, resource in zip(parts, ("cpu", "memory"), strict=True):
            for curve in curves:
                if curve.resource != resource:
                    continue
                colour = f"C{lives.index(curve.name.split(',')[0])}"
                style = "--" if curve.dashed else "-"
                axes.plot(
                    *zip(*curve.points, strict=True), marker="o", markersize=3, ls=style, color=colour, label=curve.name
                )
                if not curve.dashed:
                    for point, label in zip(curve.points, curve.labels, strict=True):
                        axes.annotate(
                            label, point, xytext=(-3, 3), textcoords="offset points", ha="right", size=_SIZE_OF_LABELS
                        )
            axes.set(xlabel=f"savings of {resource} [%]", ylabel="violation [% of the time]")
            axes.margins(x=0.1)
            axes.set_ylim(bottom=0)
            axes.legend(fontsize=_SIZE_OF_LABELS + 0.5, title="mean life", loc="upper left")
        return finish(NAME, TITLE)
