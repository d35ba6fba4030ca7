"""Every figure that has a budget in one drawing: how much of it is used."""

from collections.abc import Iterable
from typing import Final

from tools.bench.drawing import drawing
from tools.bench.measurement import Measurement, Picture

NAME: Final = "budgets"
TITLE: Final = "How much of each budget is used; left of the line it is kept"
_LONGEST: Final = 74
_LEAST: Final = 0.003
"""The shortest bar, for figures of nothing."""


def used(one: Measurement) -> float | None:
    """How much of its budget a figure uses: 1 is all of it; None where there is no budget, or none but nothing."""
    bound = one.bound
    if bound is None or one.value is None:
        return None
    at_most, limit = bound
    share, whole = (one.value, limit) if at_most else (limit, one.value)
    return max(share / whole, _LEAST) if whole > 0 else None


def _short(what: str) -> str:
    """Without the middle where it is long: sizes are in the middle, and what tells lines apart at both ends."""
    return what if len(what) <= _LONGEST else f"{what[: _LONGEST // 2]} ... {what[-_LONGEST // 2 :]}"


def picture(items: Iterable[Measurement]) -> Picture:
    """A bar for each figure that has a budget, in their order."""
    shares = [(one.what, share, one.within) for one in items if (share := used(one)) is not None]
    names = [_short(what) for what, _, _ in shares]
    with drawing(size=(10.0, 0.6 + 0.24 * max(len(shares), 1))) as (axes, finish):
        colours = ["#4c78a8" if within else "#e45756" for _, _, within in shares]
        places = range(len(shares))
        axes[0].barh(places, [share for _, share, _ in shares], height=0.6, color=colours)
        axes[0].set_yticks(places, names)
        axes[0].invert_yaxis()
        axes[0].set_xscale("log")
        axes[0].grid(visible=False, axis="y")
        axes[0].axvline(1.0, color="black", linewidth=0.8, linestyle="--")
        axes[0].set_xlabel("of the budget")
        return finish(NAME, TITLE)
