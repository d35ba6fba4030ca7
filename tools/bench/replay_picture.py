"""A picture of one replayed node: what Prod used, and what was left for it when Mid was published."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.numerics.arrays import FloatArray
from tools.bench.drawing import drawing
from tools.bench.measurement import Picture
from tools.bench.replay_node import STEP_SECONDS, UNITS, ReplayedNode
from tools.bench.replay_publisher import Publisher
from tools.bench.replay_run import STEPS_PER_DAY

NAME: Final = "replay"
TITLE: Final = (
    "One replayed node, its last week: what Prod used (grey), and what was left of the node for Prod beside the Mid "
    "that each policy published. Where grey stands above a line, more was published than was free"
)
SHOWN_DAYS: Final = 7
USED: Final = "used by Prod"
_SCALES: Final = {"cpu": (1000.0, "cores"), "memory": (float(1 << 30), "GiB")}
_SIZE: Final = (11.0, 4.2)
_GREY: Final = "0.75"


@dataclass(frozen=True, slots=True)
class Line:
    """The course of one thing on one node."""

    resource: str  # cpu or memory
    name: str  # a policy, or `USED`
    values: FloatArray  # shape (T,), one for each step: what was left for Prod, or what it used [milli-cores or bytes]
    allocatable: int  # what the node has [milli-cores or bytes]


def lines_of(node: ReplayedNode, publishers: Sequence[Publisher]) -> list[Line]:
    """What there is to draw of a node: its use, and what each policy left for Prod in the middle of each step."""
    middles = node.start + STEP_SECONDS * (np.arange(node.steps, dtype=np.float64) + 0.5)
    found = []
    for resource in UNITS:
        all_of_it = node.allocatable[resource]
        found.append(Line(resource, USED, node.used(resource), all_of_it))
        found += [
            Line(resource, publisher.variant.name, all_of_it - publisher.published(middles, resource), all_of_it)
            for publisher in publishers
        ]
    return found


def draw(lines: Sequence[Line]) -> Picture:
    """CPU and memory side by side."""
    with drawing(columns=2, size=_SIZE) as (parts, finish):
        for axes, (resource, (scale, unit)) in zip(parts, _SCALES.items(), strict=True):
            for line in lines:
                if line.resource != resource:
                    continue
                values = line.values[-SHOWN_DAYS * STEPS_PER_DAY :] / scale
                days = (len(line.values) - len(values) + np.arange(len(values))) / STEPS_PER_DAY
                if line.name == USED:
                    axes.fill_between(days, values, color=_GREY, linewidth=0.0, label=USED)
                    axes.axhline(line.allocatable / scale, color="black", linewidth=0.8, label="requested by Prod")
                else:
                    axes.step(days, values, where="mid", linewidth=0.9, label=f"left by {line.name}")
            axes.set(xlabel="day of the trace", ylabel=f"{resource} [{unit}]")
            axes.set_ylim(
                bottom=0.0, top=1.35 * max(line.allocatable for line in lines if line.resource == resource) / scale
            )
            axes.legend(fontsize=7, ncols=2, loc="upper left")
        return finish(NAME, TITLE)
