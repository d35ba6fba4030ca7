"""A recording that a test writes, and what a replay shows of one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.capture import replay

A, B = "0a1b2c3d-0001-4000-8000-0000000000aa", "f0e1d2c3b4a5968778695a4b3c2d1e0f"
MEMORY = "inactive_anon 100\nactive_anon 20\nunevictable 3\ninactive_file 4000\nactive_file 500\npgfault {faults}\n"


def shown(folder: Path) -> dict[str, Any]:
    return replay.as_json(replay.replay(folder))


def gaps(interval: Mapping[str, Any], uid: str, metric: str = "cpu") -> list[str]:
    return [gap["reason"] for gap in interval["gaps"] if (gap["uid"], gap["metric"]) == (uid, metric)]


class Made:
    """A recording that a test writes: version 2, pods A and B, both with half a core."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def instant(self, seconds: int, *, slept: float = 0.0, paths: Mapping[str, str] | None = None) -> Path:
        """Write one instant: every counter is in step with the seconds."""
        root = self.folder / f"t{seconds:03d}"
        paths = {A: f"kubepods/pod{A}", B: f"kubepods/burstable/pod{B}"} if paths is None else paths
        cpu, kilobytes = 100 * seconds, 1 << 20
        files = {
            "proc/stat": f"cpu  {cpu} 0 {cpu} 5 5 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0\ncpu1 1 0 0 0 0 0 0\n",
            "proc/meminfo": f"MemTotal: {kilobytes} kB\nMemFree: 1024 kB\nMemAvailable: {kilobytes - 8} kB\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
        }
        for path in paths.values():
            files[f"sys/fs/cgroup/{path}/cpu.stat"] = f"usage_usec {500_000 * seconds}\nuser_usec 1\n"
            files[f"sys/fs/cgroup/{path}/memory.stat"] = MEMORY.format(faults=seconds)
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)
        start = 1_000_000_000 * (1000 + seconds)
        facts = {"monotonic_ns": start, "boottime_ns": start + round(slept * 1e9), "clk_tck": 100}
        (root / "capture.json").write_text(json.dumps(facts))
        (root / "times.tsv").write_text("".join(f"{start}\t{start + 2000}\t/{path}\n" for path in files))
        return root

    def interval(self, name: str = "t000-t001") -> dict[str, Any]:
        result: dict[str, Any] = shown(self.folder)["intervals"][name]
        return result
