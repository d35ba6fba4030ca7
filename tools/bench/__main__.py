"""`python -m tools.bench [NAME ...]`: run the benchmarks and print what they measured beside budget and reference.

Without a name, all of them. Results, pictures and docs/performance.md are written as soon as a part has ended.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tools.bench import hardware, overview, page, table
from tools.bench.machine import ROOT
from tools.bench.parts import PARTS, chosen, groups
from tools.bench.records import MEASURED, Results, Run
from tools.bench.run import Runner, duration

OUT = ROOT / "tools/bench" / "results"
NOTE = "Quick runs show that everything runs; their figures mean nothing."
INTERRUPT_STATUS = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, or all.

    Returns:
        The exit status: 0, or 1 when a part failed, or 130 after Ctrl-C.
    """
    options = _options(arguments)
    console = Console(stderr=options.markdown)
    if options.list:
        _print_list(console)
        return 0
    with _folder(options) as folder:
        try:
            results = Results.load(folder)
            names = _begin(options, results)
        except ValueError as error:
            console.print(str(error), markup=False, highlight=False, style="red")
            return 2
        return _run(options, console, folder, results, names)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    some = f"parts ({', '.join(PARTS)}) or groups of them ({', '.join(groups())})"
    parser.add_argument("names", nargs="*", metavar="NAME", help=some)
    parser.add_argument("--only", action="append", default=[], metavar="NAME,NAME", help="the same, in one word")
    parser.add_argument("--resume", action="store_true", help="go on with the last run: what failed or is missing")
    parser.add_argument("--quick", action="store_true", help="smallest sizes, to see that they run; nothing is kept")
    parser.add_argument("--markdown", action="store_true", help="print the results as Markdown, with all tables")
    parser.add_argument("--list", action="store_true", help="say what there is and how long it takes, and end")
    parser.add_argument("--out", type=Path, help="folder for results.json and pictures (default: tools/bench/results)")
    options = parser.parse_args(arguments)
    options.names += [word for given in options.only for word in given.split(",") if word]
    try:
        options.parts = chosen(options.names)
    except ValueError as error:
        parser.error(str(error))
    if options.quick and options.resume and options.out is None:
        parser.error("a quick run keeps nothing to go on with, unless --out says where")
    return options


@contextmanager
def _folder(options: argparse.Namespace) -> Iterator[Path]:
    if options.quick and options.out is None:
        with tempfile.TemporaryDirectory(prefix="headroom-bench-") as folder:
            yield Path(folder)
    else:
        yield (options.out or OUT).absolute()


def _begin(options: argparse.Namespace, results: Results) -> list[str]:
    """The parts of this run.

    Raises:
        ValueError: there is no run to go on with.
    """
    if not options.resume:
        results.run = None
        return list(options.parts)
    run = results.run
    if run is None or run.quick != options.quick:
        raise ValueError("There is no run to go on with: leave --resume out")
    names = [name for name in run.names if name in PARTS and (not options.names or name in options.parts)]
    if not any(name in run.left for name in names):
        raise ValueError(f"The run that began at {run.began} is complete: leave --resume out")
    return names


def _run(options: argparse.Namespace, console: Console, folder: Path, results: Results, names: list[str]) -> int:
    runner, status = Runner(folder, options.quick), 0
    console.print(hardware.in_words(runner.machine), highlight=False)
    left = [name for name in names if results.run is None or name in results.run.left]
    total = f"about {duration(sum(PARTS[name].minutes for name in left))} on two CPUs that do nothing else"
    size = "the smallest sizes" if options.quick else total
    console.print(f"{len(left)} part{'s' * (len(left) != 1)}, {size}: {', '.join(left)}", highlight=False)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False)
        drawn = overview.picture(page.budgeted(results))
        (folder / f"{drawn.name}.svg").write_text(drawn.svg, encoding="utf-8")
        if folder == OUT:
            page.write(results)

    try:
        with console.status("measuring ..."):
            runner.run(names, results, say)
    except KeyboardInterrupt:
        status = INTERRUPT_STATUS
    run = results.run
    assert run is not None  # noqa: S101 - the runner made it
    _print(options, console, results, run, names)
    if options.quick:
        console.print(NOTE)
    failed = [name for name in names if run.outcomes.get(name) != MEASURED]
    if failed:
        again = (
            ""
            if options.quick
            else "; `python -m tools.bench --resume` (make bench BENCH_ARGS=--resume) goes on with them"
        )
        console.print(f"not measured: {', '.join(failed)}{again}", markup=False, highlight=False)
    if not options.quick:
        written = ", docs/performance.md" if folder == OUT else ""
        console.print(f"written: {folder}{written}", markup=False, highlight=False)
    return status or (1 if failed else 0)


def _print(options: argparse.Namespace, console: Console, results: Results, run: Run, names: list[str]) -> None:
    there = {name: results.parts[name].items for name in names if run.outcomes.get(name) == MEASURED}
    failed = {name: why for name, why in run.outcomes.items() if why != MEASURED and name in names}
    if options.markdown:
        for name, items in there.items():
            print(f"{PARTS[name].title}\n\n{table.sections(items)}\n", flush=True)
    elif there or failed:
        console.print(table.one_table(there, failed))


def _print_list(console: Console) -> None:
    for group, names in groups().items():
        console.print(f"{group}: about {duration(sum(PARTS[name].minutes for name in names))}", highlight=False)
        for name in names:
            part = PARTS[name]
            needs = "; starts a dev cluster" if part.cluster else ""
            console.print(f"  {name}: {part.title}, about {duration(part.minutes)}{needs}", highlight=False)
    console.print(f"everything: about {duration(sum(part.minutes for part in PARTS.values()))}", highlight=False)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as with Ctrl-C: the part that runs ends, too
    sys.exit(main())
