"""A manager beside a real API server with 5,000 nodes that report: what must be right, not how fast it is.

After that come an edit of the configuration with 100 entries, stalls of the API server and of the manager, and a node
that floods the manager: no other node may be forgotten, and the Lease not be lost to a flood.
"""

from tools.bench import manager as bench
from tools.bench.manager_trouble import FLOOD_WRITES
from tools.soak.progress import Progress, run

NODES, FEWEST = 5000, 200
NODES_A_SECOND = 11.0
"""So many nodes are tried per second of the time beyond what any number of them takes: making them and their pods, and
the first report of each, 40 a second."""
FIXED_SECONDS = 200.0
"""What any number takes: a minute of first reports, one of steady ones, the starts of cluster and managers."""
SETTLE_SHARE = 0.2
"""Of the time: so long every Node may take at the end to show what was reported last. Increases hold for half a minute;
a busy machine takes its time with the rest."""
LEAST_SETTLE_SECONDS = 60.0
MINUTE_SECONDS, SHORT_MINUTE_SECONDS = 60.0, 20.0
"""How often a node reports; more often where there is not enough time for minutes."""
RSS_MIB = 1024


def size(seconds: float) -> tuple[int, float]:
    """How many nodes there is time for, and how often each reports. [s]

    Args:
        seconds: The time of the step. [s]
    """
    spare = seconds - FIXED_SECONDS
    nodes = int(min(NODES, max(FEWEST, spare * NODES_A_SECOND)))
    return nodes, MINUTE_SECONDS if spare > 0 else SHORT_MINUTE_SECONDS


def trial(progress: Progress) -> None:
    """Run a manager with 5,000 nodes."""
    nodes, minute = size(progress.seconds)
    progress.log(f"making {nodes:,} nodes, and reporting for each every {minute:.0f} s")
    settle = max(progress.seconds * SETTLE_SHARE, LEAST_SETTLE_SECONDS)
    plan = bench.Plan(nodes=(nodes,), minutes=1.0, minute_seconds=minute, settle_seconds=settle, trouble=True)
    ((_, figures),) = bench.measure(plan)
    found = {key: -1.0 if figure is None else figure for key, figure in figures.items()}
    fast = figures["decrease_p99"]
    times = "no decrease was timed" if fast is None else f"99 of 100 decreases were on their Node within {fast:.1f} s"
    progress.log(f"{times}; {found['missed']:.0f} numbers came after the next report of their node")
    peak, behind, writes = found["manager_rss_peak"], found["behind"], found["restart_writes"]
    memory = f"the manager of {nodes:,} nodes stays within {RSS_MIB:,} MiB"
    progress.check(memory, f"{peak:.0f} MiB at most", passed=0 < peak <= RSS_MIB)
    shown = f"{behind:.0f} Nodes do not, after {found['reports']:.1f} reports a second"
    progress.check(f"within {settle:.0f} s every Node shows what was reported last", shown, passed=behind == 0)
    restart = f"{writes:.0f} writes, every node looked at after {found['restart']:.0f} s"
    progress.check("a restart with nothing changed writes nothing", restart, passed=writes == 0)
    _judge_trouble(progress, found)


def _judge_trouble(progress: Progress, found: dict[str, float]) -> None:
    """What became of the other nodes. A figure that is missing is below zero."""
    edit = f"it took {found['edit']:.0f} s; the loop stood still for {found['edit_pause']:.0f} ms at most"
    progress.check("an edit with 100 entries reaches every NodeMetric", edit, passed=found["edit"] >= 0)
    lost = found["stall_lost"]
    progress.check("stalls lose no node's turn", f"{lost:.0f} Nodes do not follow", passed=lost == 0)
    others = (
        f"{found['hostile_lost']:.0f} others do not follow; the Lease changed hands {found['lease_lost']:.0f} times"
    )
    others += f"; the loop stood still for {found['hostile_pause']:.0f} ms at most"
    unharmed = found["hostile_lost"] == 0 and found["lease_lost"] == 0
    progress.check("a node that floods the manager harms no other", others, passed=unharmed)
    events = found["hostile_events"]
    few = 0 <= events <= FLOOD_WRITES
    progress.check("and is told about now and then", f"{events:.0f} events about it", passed=few)


if __name__ == "__main__":
    run(trial)
