"""`python -m bench [NAME ...]`: run the benchmarks and print what they measured beside budget and reference."""

import argparse
import math
import os
import pkgutil
import platform
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench import BENCHMARKS, GROUPS, manager, manager_table
from bench.measurement import Measurement
from devcluster.errors import DevClusterError

MANAGER = "manager"
"""Apart from the others: it needs the dev cluster's programs, takes long, and its table has a column per size."""
NOTE = "Quick runs show that everything runs; their figures mean nothing."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named benchmarks, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = [*BENCHMARKS, *GROUPS, MANAGER]
    everything = f"one of {', '.join(known)}; all but {MANAGER} without one"
    parser.add_argument("names", nargs="*", metavar="NAME", help=everything)
    parser.add_argument("--quick", action="store_true", help="a few seconds in all, to see that they run")
    parser.add_argument("--markdown", action="store_true", help="print the rows as a Markdown table")
    beside = parser.add_argument_group(f"{MANAGER}, on a dev cluster of etcd and API server")
    beside.add_argument("--nodes", type=_numbers, help="numbers of nodes, such as 500,1000")
    beside.add_argument("--minutes", type=_minutes, help="how long the nodes report after the first minute")
    beside.add_argument("--pods", type=int, help="bound pods per node")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no benchmark named {', '.join(unknown)}: choose from {', '.join(known)}")
    wanted = {name for given in options.names or BENCHMARKS for name in GROUPS.get(given, (given,))}
    console = Console()
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    console.print(machine, highlight=False)
    complete = MANAGER not in wanted or _measure_manager(options, console)
    if wanted != {MANAGER}:
        _measure_others(wanted, options, console)
    if options.quick:
        console.print(NOTE)
    if not complete:
        sys.exit(1)


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(each.isascii() and each.isdigit() and int(each) for each in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: write numbers like 500,1000")
    return sorted({int(each) for each in parts})


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: write a number above 0")
    return minutes


def _measure_manager(options: argparse.Namespace, console: Console) -> bool:
    """Print the table; whether every number of nodes could be measured."""
    given = {key: getattr(options, key) for key in ("nodes", "minutes", "pods") if getattr(options, key) is not None}
    plan = manager.Plan(**{**(manager.QUICK if options.quick else {}), **given})
    figures = {}
    try:
        with console.status("measuring the manager ..."):
            for count, found in manager.measure(plan):
                figures[count] = found
                console.print(f"measured {count:,} nodes", highlight=False)
    except (DevClusterError, OSError) as error:  # what was measured before is shown all the same
        console.print(f"no more nodes could be measured: {error}", markup=False)
    cells = [manager_table.header(sorted(figures)), *manager_table.lines(figures)]
    if options.markdown:
        print(manager_table.markdown(cells))
    else:
        table = Table(*cells[0], title="The manager beside its budgets")
        for row in cells[1:]:
            table.add_row(*map(escape, row))
        console.print(table)
    return len(figures) == len(plan.nodes)


def _measure_others(wanted: set[str], options: argparse.Namespace, console: Console) -> None:
    rows = _measured([name for name in BENCHMARKS if name in wanted], console, quick=options.quick)
    if options.markdown:
        _print_markdown(rows)
    else:
        table = Table("what", "measured", "budget", "reference", title="Measured beside the budgets")
        for row in rows:
            table.add_row(row.what, row.measured, row.budget, row.reference)
        console.print(table)


def _measured(names: Sequence[str], console: Console, *, quick: bool) -> Iterator[Measurement]:
    for name in names:
        with console.status(f"measuring {name} ..."):
            yield from pkgutil.resolve_name(BENCHMARKS[name])(quick=quick)


def _print_markdown(rows: Iterator[Measurement]) -> None:
    """Each row as soon as it is measured."""
    print("| what | measured | budget | reference |\n|---|---|---|---|", flush=True)
    for row in rows:
        cells = (row.what, row.measured, row.budget, row.reference)
        print(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |", flush=True)


if __name__ == "__main__":
    main()
