"""When a kube-scheduler has no more to ask of its extender."""

import time

from tests.scheduler_plugins.extenders import Extender, until


def metric(extender: Extender, name: str) -> float:
    lines = extender.ask("/metrics").decode().splitlines()
    wanted = f"headroom_scheduler_{name}"
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.partition(" ")[0].partition("{")[0] == wanted)


def quiet(extender: Extender) -> None:
    """Wait until kube-scheduler asks no more: it tries a pod twice, as its own note in the pod's status wakes it."""
    name, seen = "request_seconds_count", [-1.0, float("inf")]

    def calm() -> bool:
        seen.append(metric(extender, name))
        time.sleep(3)  # its back-off is 1 s after the first attempt and 2 s after the second
        return seen[-1] == seen[-2]

    until(calm, "kube-scheduler asking no more")
