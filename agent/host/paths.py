"""Where the machine's files are: a parameter, so that a recorded tree is a machine like any other."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class HostPaths:
    """Roots of the two file systems that describe a machine."""

    proc: Path  # the machine's /proc
    cgroup: Path  # the machine's /sys/fs/cgroup

    @classmethod
    def under(cls, root: Path | str) -> Self:
        """The usual places below a root: ``/`` for this machine, a mount point or a recorded tree for another."""
        return cls(proc=Path(root) / "proc", cgroup=Path(root) / "sys/fs/cgroup")
