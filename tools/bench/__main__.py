"""`python -m tools.bench [NAME ...]`: run the benchmarks; print measurement, budget and reference.

Without a name, all of them. Each is a process of its own and prints Markdown on its end; progress goes to stderr.
"""

import argparse
import os
import pkgutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from typing import Final

from tools.bench.rows import ROOT, machine, text

PATIENCE: Final = 5.0  # a part that takes so many times as long as it should is ended
_LEAST_MINUTES: Final = 15.0
_END_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Part:
    """A benchmark that runs in a process of its own."""

    group: str  # the name of a group selects all of its parts
    title: str  # the measured quantity
    minutes: float  # about how long it takes on two CPUs that do nothing else
    function: str  # module:function below `tools.bench`, of `quick`, that yields rows and tables
    cluster: bool = False  # whether it starts a dev cluster


PARTS: Final[dict[str, Part]] = {
    "process": Part("agent", "two whole agents, 110 pods", 1.6, "process:measure"),
    "tick": Part("agent", "a tick, step by step", 0.4, "tick:measure"),
    "training": Part("agent", "a training round", 0.1, "training_round:measure"),
    "store": Part("agent", "the store: appends, windows, size", 0.3, "store:measure"),
    "week": Part("agent", "a simulated week", 3.0, "week:measure"),
    "manager-memory": Part("manager", "the cache of 5,000 nodes", 0.4, "manager_memory:measure"),
    "manager-workloads": Part(
        "manager", "reports with and without workloads, 5,000 nodes", 30.0, "manager:workloads", cluster=True
    ),
    "webhook": Part("manager", "50 new pods a second through the webhook", 1.5, "webhook:part", cluster=True),
    "manager-cluster": Part("manager", "500 to 5,000 nodes on a real API server", 15.0, "manager:part", cluster=True),
    "scheduler-compute": Part("scheduler", "filters and scores of 5,000 nodes", 1.5, "extender:compute"),
    "growth": Part("scheduler", "the extender with 100 to 10,000 nodes", 1.5, "growth:measure"),
    "extender": Part("scheduler", "answers over HTTP", 0.5, "extender:http"),
    "placement": Part("scheduler", "hot node-hours by scheduler, a simulated week", 8.0, "placement:measure"),
    "large-pods": Part("scheduler", "memory of each service under pods of a mebibyte", 6.0, "large_pods:measure"),
    "scheduler-cluster": Part(
        "scheduler", "pods per second through a real kube-scheduler", 20.0, "scheduler:part", cluster=True
    ),
    "limits": Part("node", "requests of Prod pods beside Mid pods, on a real node", 9.0, "limits:part", cluster=True),
    "quota-admission": Part("quota", "admission by quotas", 1.0, "quota_admission:measure"),
    "quota-selection": Part("quota", "the choice of victims", 1.0, "quota_selection:measure"),
    "quota-cluster": Part(
        "quota", "waits for borrowed resources on a real kube-scheduler", 2.0, "quota_reclaim:part", cluster=True
    ),
    "quality": Part("backtest", "the default policy and every model on recorded usage", 2.0, "quality:measure"),
    "risk": Part(
        "backtest", "violation and savings by target, nodes of 12 to 98 pods, 1 to 24 h ahead", 8.0, "risk:measure"
    ),
    "replay": Part("backtest", "a month from sample to Node: agent, NodeMetric, manager, Mid", 9.0, "replay:measure"),
}
"""In the order in which they run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, or all.

    Returns:
        The exit status: 0, 1 when a part failed, 2 for wrong use.
    """
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    choices = f"parts ({', '.join(PARTS)}) or groups of them ({', '.join(_groups())})"
    parser.add_argument("names", nargs="*", metavar="NAME", help=choices)
    parser.add_argument("--only", action="append", default=[], metavar="NAME,NAME", help="the same, in one word")
    parser.add_argument("--quick", action="store_true", help="smallest sizes, to see that they run")
    parser.add_argument("--list", action="store_true", help="list the parts with their times, and end")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # one part, in this process
    options = parser.parse_args(arguments)
    try:
        parts = _chosen([*options.names, *(word for inputs in options.only for word in inputs.split(",") if word)])
    except ValueError as error:
        parser.error(str(error))
    if options.here:
        _here(parts[0], quick=options.quick)
        return 0
    if options.list:
        for name in parts:
            needs = "; starts a dev cluster" if PARTS[name].cluster else ""
            print(f"{PARTS[name].group}: {name}: {PARTS[name].title}, about {PARTS[name].minutes:g} min{needs}")
        print(f"all of these: about {sum(PARTS[name].minutes for name in parts):.0f} min")
        return 0
    print(machine(), flush=True)
    failed = [name for name in parts if not _run(name, quick=options.quick)]
    if failed:
        print(f"not measured: {', '.join(failed)}")
    return 1 if failed else 0


def _groups() -> list[str]:
    return list(dict.fromkeys(part.group for part in PARTS.values()))


def _chosen(words: Iterable[str]) -> list[str]:
    """Return the parts that names of parts and groups select, in order; all of them without a name.

    Raises:
        ValueError: a name is neither; the message has all that there are.
    """
    wanted = set(words)
    if unknown := sorted(wanted - {*PARTS, *_groups()}):
        raise ValueError(
            f"no benchmark named {', '.join(unknown)}: choose from {', '.join(PARTS)}, "
            f"or from the groups {', '.join(_groups())}"
        )
    return [name for name, part in PARTS.items() if not wanted or name in wanted or part.group in wanted]


def _run(name: str, *, quick: bool) -> bool:
    """Run one part in a process of its own, which prints its rows; it ends with all that it has started."""
    words = [sys.executable, "-m", "tools.bench", "--here", name, *(["--quick"] if quick else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    began = time.monotonic()
    print(f"\n## {name}: {PARTS[name].title}\n", flush=True)
    with subprocess.Popen(words, cwd=ROOT, env=environment, process_group=0) as process:
        try:
            process.wait(60 * max(PARTS[name].minutes * PATIENCE, _LEAST_MINUTES))
            problem = f"failed with {process.returncode}" if process.returncode else ""
        except subprocess.TimeoutExpired:
            problem = "failed: it did not end in time"
        finally:
            _end(process)
    print(f"\n{name}: {problem or 'measured'} in {time.monotonic() - began:.0f} s", flush=True)
    return not problem


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and then the rest of its group."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
    with suppress(ProcessLookupError, PermissionError):  # the group is empty
        os.killpg(process.pid, signal.SIGKILL)


def _here(name: str, *, quick: bool) -> None:
    """Measure one part in this process and print it; other output of it goes to stderr."""
    with redirect_stdout(sys.stderr):
        items = list(pkgutil.resolve_name(f"tools.bench.{PARTS[name].function}")(quick=quick))
    if not items:
        raise RuntimeError(f"{name} measured nothing")
    print(text(items), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as with Ctrl-C: the part that runs ends, too
    sys.exit(main())
