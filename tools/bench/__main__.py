"""`python -m tools.bench [NAME ...]`: run the benchmarks and print what they measured beside budget and reference.

Without a name, all of them. Results, pictures and docs/performance.md are written as soon as a part has ended.
"""

import argparse
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tools.bench import page, results
from tools.bench.machine import ROOT
from tools.bench.parts import PARTS, chosen, duration, groups

PATIENCE: Final = 5.0  # a part that takes so many times as long as it should is ended
_LEAST_MINUTES: Final = 15.0
_END_SECONDS: Final = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, or all.

    Returns:
        The exit status: 0, 1 when a part failed, 2 for wrong use.
    """
    options = _options(arguments)
    if options.here:
        return _here(options.parts[0], quick=options.quick)
    console = Console(stderr=options.markdown)
    if options.list:
        for group, names in groups().items():
            for name in names:
                needs = "; starts a dev cluster" if PARTS[name].cluster else ""
                took = duration(PARTS[name].minutes)
                console.print(f"{group}: {name}: {PARTS[name].title}, about {took}{needs}", highlight=False)
        console.print(f"everything: about {duration(sum(part.minutes for part in PARTS.values()))}", highlight=False)
        return 0
    if options.quick and options.out is None:
        with tempfile.TemporaryDirectory(prefix="headroom-bench-") as folder:
            return _run(options, console, Path(folder))
    return _run(options, console, (options.out or page.RESULTS).absolute())


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    some = f"parts ({', '.join(PARTS)}) or groups of them ({', '.join(groups())})"
    parser.add_argument("names", nargs="*", metavar="NAME", help=some)
    parser.add_argument("--only", action="append", default=[], metavar="NAME,NAME", help="the same, in one word")
    parser.add_argument("--quick", action="store_true", help="smallest sizes, to see that they run; nothing is kept")
    parser.add_argument("--markdown", action="store_true", help="print the results as Markdown, with all tables")
    parser.add_argument("--list", action="store_true", help="say what there is and how long it takes, and end")
    parser.add_argument("--out", type=Path, help="folder for results.json and pictures (default: tools/bench/results)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # one part, in this process
    options = parser.parse_args(arguments)
    try:
        options.parts = chosen([*options.names, *(word for given in options.only for word in given.split(",") if word)])
    except ValueError as error:
        parser.error(str(error))
    return options


def _run(options: argparse.Namespace, console: Console, folder: Path) -> int:
    try:
        kept = results.load(folder)
    except ValueError as error:
        console.print(str(error), markup=False, highlight=False)
        return 2
    console.print(f"{results.machine()}\n{', '.join(options.parts)}", highlight=False)
    failed = []
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.parts:
        began, at = time.monotonic(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        items, problem = _measure(name, folder, quick=options.quick)
        took = round(time.monotonic() - began, 1)
        console.print(f"{name}: {problem or 'measured'}, {len(items)} results in {took:.0f} s", markup=False)
        if problem:
            failed.append(name)
            continue
        state = {"at": at, "seconds": took, "commit": results.commit(), "machine": results.machine()}
        kept[name] = {**state, "items": items}
        results.save(folder, kept)
        if folder == page.RESULTS:
            page.write(kept)
        _print(name, kept[name], console, markdown=options.markdown)
    if failed:
        console.print(f"not measured: {', '.join(failed)}", highlight=False)
    return 1 if failed else 0


def _measure(name: str, folder: Path, *, quick: bool) -> tuple[list[results.Record], str]:
    """What a part yields in a process of its own, and why there is nothing. It ends with all that it has started."""
    words = [sys.executable, "-m", "tools.bench", "--here", name, *(["--quick"] if quick else [])]
    log = folder / f"{name}.log"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, process_group=0
        ) as process,
    ):
        try:
            written, _ = process.communicate(timeout=60 * max(PARTS[name].minutes * PATIENCE, _LEAST_MINUTES))
        except subprocess.TimeoutExpired:
            return [], f"failed: it did not end in time (see {log})"
        finally:
            _end(process)
    items = [json.loads(line) for line in written.splitlines()]
    if process.returncode or not items:
        last = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
        return [], f"failed with {process.returncode}: {''.join(last) or 'it measured nothing'} (see {log})"
    log.unlink()
    return items, ""


def _end(process: subprocess.Popen[str]) -> None:
    """End a process, and then what is left of its group."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
    with suppress(ProcessLookupError, PermissionError):  # nobody is left
        os.killpg(process.pid, signal.SIGKILL)


def _here(name: str, *, quick: bool) -> int:
    """Measure one part in this process: a line of JSON for each item; what else is printed goes where errors go."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as written:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        for one in pkgutil.resolve_name(PARTS[name].function)(quick=quick):
            print(json.dumps(results.plain(one)), file=written, flush=True)
    return 0


def _print(name: str, record: results.Record, console: Console, *, markdown: bool) -> None:
    items = [results.item(one) for one in record["items"]]
    if markdown:
        print(f"{PARTS[name].title}\n\n{results.sections(items)}\n", flush=True)
        return
    table = Table(*results.HEAD)
    for row in results.cells(items):
        table.add_row(*row, style="bold red" if row[-1] == "no" else None)
    console.print(table)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as with Ctrl-C: the part that runs ends, too
    sys.exit(main())
