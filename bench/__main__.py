"""`python -m bench [NAME ...]`: run the benchmarks and print what they measured beside budget and reference."""

import argparse
import os
import pkgutil
import platform
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from bench import BENCHMARKS, GROUPS
from bench.measurement import Measurement

NOTE = "Quick runs show that everything runs; their figures mean nothing."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named benchmarks, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = [*BENCHMARKS, *GROUPS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}; all without one")
    parser.add_argument("--quick", action="store_true", help="a few seconds in all, to see that they run")
    parser.add_argument("--markdown", action="store_true", help="print the rows as a Markdown table")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"no benchmark named {', '.join(unknown)}: choose from {', '.join(known)}")
    wanted = {name for given in options.names or BENCHMARKS for name in GROUPS.get(given, (given,))}
    console = Console()
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    console.print(machine, highlight=False)
    rows = _measured([name for name in BENCHMARKS if name in wanted], console, quick=options.quick)
    if options.markdown:
        _print_markdown(rows)
    else:
        table = Table("what", "measured", "budget", "reference", title="Measured beside the budgets")
        for row in rows:
            table.add_row(row.what, row.measured, row.budget, row.reference)
        console.print(table)
    if options.quick:
        console.print(NOTE)


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
