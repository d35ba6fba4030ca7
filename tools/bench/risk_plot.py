"""Draws the fronts of the models: violation against savings, by number of pods on a node.

`python -m tools.bench.risk_plot FILE` evaluates the first cases of `tools.bench.risk` and writes a picture.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kubectl_headroom.backtest.engine import ORACLE
from kubectl_headroom.backtest.plot import STYLE
from kubectl_headroom.backtest.score import Result
from tools.bench import risk

SEEDS: Final = (0, 1, 2)
TICKS: Final = (0, 1, 2, 5, 10, 20)
FAMILIES: Final[Mapping[str, tuple[str, str, str]]] = {
    "coincidence:": ("coincidence, target 0.5 to 5 %", "tab:green", "o"),
    "diversity:windowDays=7": ("diversity, 7 days, lambdaMin 0.6 to 0.2", "tab:blue", "s"),
    "diversity:windowDays=14": ("diversity, 14 days, lambdaMin 0.6 to 0.2", "tab:purple", "D"),
    "nsigma-v2": ("nsigma-v2, n 8 to 3", "tab:orange", "^"),
    "percentile": ("percentile of Koordinator", "tab:red", "X"),
}
"""The begin of a policy's name -> label, colour and marker of its front."""


def main(arguments: Sequence[str]) -> int:
    """Write the picture; the argument is its file."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    cases = [case for case in risk.cases() if case.models == risk.FRONTS]
    traces = list(risk.traces())
    with rc_context(STYLE):
        figure = Figure(figsize=(3.2 * len(cases), 3.0 * len(traces) + 0.9), layout="constrained")
        FigureCanvasAgg(figure)
        rows = figure.subplots(len(traces), len(cases), squeeze=False, sharex=True, sharey="row")
        for row, trace in zip(rows, traces, strict=True):
            for axes, case in zip(row, cases, strict=True):
                _front(axes, risk.evaluate(trace, case, SEEDS))
                axes.set_title(f"{trace.resource}, {case.name}")
            row[0].set_ylabel("savings [% of limits]")
        for axes in rows[-1]:
            axes.set_xlabel("violation [% of predictions]")
        figure.legend(*rows[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(Path(arguments[0]), metadata={"Date": None})
    return 0


def _front(axes: Axes, results: Sequence[Result]) -> None:
    """Draw a line through the points of each family, and the oracle."""
    for start, (label, colour, marker) in FAMILIES.items():
        chosen = [result for result in results if result.policy.startswith(start)]
        points = sorted((result.violation_percent.mean, result.savings_percent) for result in chosen)
        axes.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=4, linewidth=1.2, label=label)
    oracle = next(result for result in results if result.policy == ORACLE)
    axes.axhline(oracle.savings_percent, color="0.35", linewidth=1.0, linestyle="--", label="oracle, violation 0 %")
    axes.set_xscale("symlog", linthresh=2.0)
    axes.set_xticks(TICKS, [str(tick) for tick in TICKS])
    axes.set_xticks([], minor=True)
    axes.set_xlim(-0.15, 30.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
