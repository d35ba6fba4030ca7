"""Command line: python -m tests.golden [DIR] [--only FILE]."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.golden.runner import FileReport, Outcome, run_file

VECTORS = Path(__file__).parent / "vectors"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the vectors of a folder and print a line for each file."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument(
        "directory", nargs="?", type=Path, default=VECTORS, metavar="DIR", help="folder of vector files"
    )
    parser.add_argument("--only", metavar="FILE", help="run one file, such as histogram.json")
    options = parser.parse_args(arguments)
    files = sorted(options.directory.glob("*.json")) if options.directory.is_dir() else []
    if options.only:
        name = Path(options.only).name
        wanted = {name, f"{name}.json"}
        files = [file for file in files if file.name in wanted]
    if not files:
        what = options.only or "vector file (*.json)"
        print(f"There is no {what} in {options.directory}.", file=sys.stderr)
        return 2
    failed = False
    for file in files:
        report = run_file(file)
        _print(report)
        failed = failed or bool(report.failures)
    return int(failed)


def _print(report: FileReport) -> None:
    print(f"{report.file:32}", "  ".join(f"{report.count(outcome):4} {outcome}" for outcome in Outcome))
    for failure in report.failures:
        print(f"    FAILED {failure.name}: {failure.detail}")


if __name__ == "__main__":
    sys.exit(main())
