"""A manager beside a real API server with 5,000 nodes that report: what must be right, not how fast it is."""

import contextlib

from bench import manager as bench
from soak.telling import Telling, run

NODES, FEWEST = 5000, 200
NODES_A_SECOND = 9.0
"""So many nodes are tried per second of the time: making them, starting the load and ending take most of it."""
RSS_MIB = 1024
STALE_SECONDS = 60.0
"""A decrease reaches its Node within the minute until the next report, however busy the machine is."""


def trial(telling: Telling) -> None:
    """Run a manager with 5,000 nodes."""
    nodes = int(min(NODES, max(FEWEST, telling.seconds * NODES_A_SECOND)))
    telling.say(f"making {nodes:,} nodes, and reporting for them")
    ((_, figures),) = bench.measure(bench.Plan(nodes=(nodes,), minutes=1.0))
    found = {key: -1.0 if figure is None else figure for key, figure in figures.items()}
    peak, missed, stale = found["manager_rss_peak"], found["missed"], found["decrease_p99"]
    memory = f"the manager of {nodes:,} nodes stays within {RSS_MIB:,} MiB"
    telling.check(memory, f"{peak:.0f} MiB at most", passed=0 < peak <= RSS_MIB)
    shown = f"{missed:.0f} were missed of {found['reports']:.1f} reports a second"
    telling.check("every number is on its Node before the next report", shown, passed=missed == 0)
    fresh = f"decreases reach their Node within {STALE_SECONDS:.0f} s"
    telling.check(fresh, f"99 of 100 within {stale:.1f} s", passed=0 <= stale <= STALE_SECONDS)
    writes = found["restart_writes"]
    restart = f"{writes:.0f} writes, every node looked at after {found['restart']:.0f} s"
    telling.check("a restart with nothing changed writes nothing", restart, passed=writes == 0)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        run(trial)
