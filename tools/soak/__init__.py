"""What must hold for hours or a month, tried within an hour: each step tells what it tried, and passes or fails."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Step:
    """A trial that runs as a process of its own, with a time at which it ends."""

    module: str
    """What is run, as `python -m MODULE --seconds N`."""
    minutes: float
    """Its time when the whole hour is given. [min]"""
    what: str
    """What it tries, in one line."""
    longer_seconds: float = 0.0
    """What it may take beyond its time to find that something does not come; one that passes does not need it. [s]"""


STEPS: Final[dict[str, Step]] = {
    "fuzz": Step("tools.soak.fuzz", 6, "10,000 new inputs for each parser, 1,000 for every other property"),
    "manager": Step(
        "tools.soak.manager", 11, "a manager with 5,000 nodes that report: memory, stalls, floods, edits, quiet restart"
    ),
    "month": Step(
        "tools.soak.month",
        18,
        "31 simulated days of an agent with 110 pods and 2,000 of jobs a day: memory and database stay flat",
    ),
    "api-server": Step(
        "tools.soak.api_server",
        7,
        "a real API server is killed and restarted below agents, manager, extender",
        longer_seconds=420,
    ),
    "quotas": Step(
        "tools.soak.quotas", 4, "extenders and kube-schedulers are killed, paused and held back: quotas hold"
    ),
    "large-objects": Step(
        "tools.soak.large_objects",
        3,
        "each service reads 1,000 large objects, each unlike the last: memory stays bounded",
    ),
    "kills": Step(
        "tools.soak.kills", 2, "a writing store is killed 1,000 times: no sample is lost, doubled or reordered"
    ),
    "strangers": Step(
        "tools.soak.hostile_clients",
        1,
        "hundreds of clients that never finish, at every open port: memory, threads, connections",
    ),
}
"""The steps in order, by name; what finds most comes first. What is missing to the hour is what steps need to end."""
HOUR: Final = 60.0
"""The time that the steps' minutes are meant for. [min]"""
