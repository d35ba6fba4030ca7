"""`python -m bench [NAME ...]`: run the benchmarks and print what they measured beside budget and reference."""

import argparse
import os
import pkgutil
import platform

from rich.console import Console
from rich.table import Table

from bench import BENCHMARKS


def main() -> None:
    """Run the named benchmarks, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; all without one")
    names = parser.parse_args().names
    if unknown := sorted(set(names) - set(BENCHMARKS)):
        parser.error(f"no benchmark named {', '.join(unknown)}: choose from {', '.join(BENCHMARKS)}")
    console = Console()
    console.print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}", highlight=False)
    table = Table("what", "measured", "budget", "reference", title="Measured beside the budgets")
    for name in names or BENCHMARKS:
        with console.status(f"measuring {name} ..."):
            for row in pkgutil.resolve_name(BENCHMARKS[name])():
                table.add_row(row.what, row.measured, row.budget, row.reference)
    console.print(table)


if __name__ == "__main__":
    main()
