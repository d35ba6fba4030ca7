"""Recorded machines that move: a working copy of a capture, advanced from instant to instant as a kernel would."""

import json
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.collectors.base import Machine
from agent.host.cgroup import CgroupTree, detect
from agent.host.procfs import HostPaths

ARCHIVES = Path(__file__).parent.parent / "fixtures/host"
KINDS = ("v1-cgroupfs", "v1vm-systemd", "v2-cgroupfs", "v2-cgroupfs-nomem", "v2-systemd")
WITH_MEMORY = tuple(kind for kind in KINDS if kind != "v2-cgroupfs-nomem")
RECREATED = "b4"


def unpack(kind: str, folder: Path) -> Path:
    with tarfile.open(ARCHIVES / f"{kind}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / kind


@dataclass
class RecordedMachine:
    source: Path  # the unpacked capture
    live: Path  # the working copy, which `advance` moves
    now: float = 0.0  # monotonic time of the instant that the copy shows. [s]

    @property
    def expected(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.source / "expected.json").read_text())
        return content

    def pod_path(self, name: str) -> str:
        return str(self.expected["objects"][name]["cgroup"])

    def uid(self, name: str) -> str:
        return str(self.expected["objects"][name]["pod_uid"])

    def advance(self, instant: str, at: float | None = None) -> None:
        """Make the copy show an instant: contents change in place, cgroups come and go."""
        tree = self.source / instant
        recorded = json.loads((tree / "capture.json").read_text())["monotonic_ns"] / 1e9
        self.now = recorded if at is None else at
        if instant >= "t060":
            for cgroup in self.live.glob(f"sys/fs/cgroup/**/*00{RECREATED}*"):
                shutil.rmtree(cgroup, ignore_errors=True)
        for folder in ("proc", "sys"):
            _mirror(tree / folder, self.live / folder)

    def machine(self) -> Machine:
        paths = HostPaths.under(self.live)
        return Machine(paths, CgroupTree(detect(paths.cgroup)), lambda: self.now, 100.0)


Make = Callable[[str], RecordedMachine]
"""Makes a recorded machine of a kind, at its first instant."""


def _mirror(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    there = {entry.name for entry in source.iterdir()}
    for entry in list(target.iterdir()):
        if entry.name not in there:
            entry.unlink() if entry.is_symlink() or entry.is_file() else shutil.rmtree(entry)
    for entry in source.iterdir():
        if entry.is_symlink():
            if not (target / entry.name).is_symlink():
                (target / entry.name).symlink_to(entry.readlink())
        elif entry.is_dir():
            _mirror(entry, target / entry.name)
        else:
            (target / entry.name).write_bytes(entry.read_bytes())
