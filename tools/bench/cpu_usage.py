"""CPU time of processes, and of the machine beside them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class CpuUsage:
    """CPU time at a moment."""

    at: float  # when, by a clock that only runs forward [s]
    seconds: Mapping[str, float]  # of each process, and of the whole machine as "machine" [s]

    @classmethod
    def of(cls, processes: Mapping[str, int]) -> "CpuUsage":
        """Now; by name of the process, of its pid."""
        seconds = {name: float(sum(psutil.Process(pid).cpu_times()[:2])) for name, pid in processes.items()}
        whole = psutil.cpu_times()
        return cls(time.monotonic(), {**seconds, "machine": sum(whole) - whole.idle - whole.iowait})

    def since(self, before: "CpuUsage") -> dict[str, float]:
        """What each spent since then; "other" is the machine without the processes that are known. [s]"""
        spent = {name: total - before.seconds[name] for name, total in self.seconds.items()}
        return {**spent, "other": max(spent.pop("machine") - sum(spent.values()), 0.0)}
