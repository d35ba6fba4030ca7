"""Which clusters run on this machine: one file a cluster in its state folder, written by its owner."""

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.devcluster.commands import DevClusterError
from tools.devcluster.places import clusters_directory, state_directory

FILE = "cluster.json"
START_TIME_FIELD = 19
"""Index of the start time in /proc/<pid>/stat, counted after the closing parenthesis of the program's name."""

PAUSE_SECONDS = 0.1
SETTLE_SECONDS = 60.0


@dataclass(frozen=True)
class ClusterState:
    """The public facts of a cluster."""

    name: str  # its name
    pid: int  # the process that owns it: the cluster lives as long as this one
    pid_start: int  # its start, in clock ticks since boot: distinguishes it from a later process with that pid
    kubernetes: str  # the minor version of its components, such as `1.36`
    real_node: str | None  # the name of its real node, or None
    kwok_nodes: int  # how many kwok nodes it was started with
    supervisor: int = 0  # the process that cleans up when the owner was killed; 0 before there is one
    ready: bool = False  # whether its start is complete

    @property
    def directory(self) -> Path:
        """Its state folder."""
        return state_directory(self.name)

    @property
    def kubeconfig(self) -> Path:
        """Its administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def alive(self) -> bool:
        """Return whether its owner still runs."""
        return process_start(self.pid) == self.pid_start

    def write(self) -> None:
        """Publish it; readers see the old or the new file, never a half."""
        partial = self.directory / f".{FILE}"
        partial.write_text(json.dumps(asdict(self)))
        partial.rename(self.directory / FILE)


def process_start(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 when there is none, or it is not reaped yet."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] == "Z" else int(fields[START_TIME_FIELD])


def claim(name: str, kubernetes: str, real_node: str | None, kwok_nodes: int) -> ClusterState:
    """Make the state folder of a new cluster of this process."""
    directory = state_directory(name)
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        old = read(name)
        if old is None or old.alive:
            raise DevClusterError(
                f"a cluster named {name!r} runs (folder {directory}): stop it with "
                f"`python -m tools.devcluster down {name}`, or choose another name"
            ) from None
        _remove_left(old)
        directory.mkdir(mode=0o700)
    state = ClusterState(name, os.getpid(), process_start(os.getpid()), kubernetes, real_node, kwok_nodes)
    state.write()
    return state


def read(name: str) -> ClusterState | None:
    """The state of a cluster, or None when there is none, or none yet."""
    with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
        return ClusterState(**json.loads((state_directory(name) / FILE).read_text()))
    return None


def clusters() -> Iterator[ClusterState]:
    """The state of every cluster of this user, by name; also without an owner."""
    for file in sorted(clusters_directory().glob(f"*/{FILE}")):
        state = read(file.parent.name)
        if state is not None:
            yield state


def end(cluster: ClusterState, timeout_seconds: float) -> None:
    """End a cluster by ending its owner, and wait until its folder is gone."""
    if cluster.alive:
        os.kill(cluster.pid, signal.SIGTERM)
    _wait_while(lambda: cluster.alive, timeout_seconds)
    if cluster.alive:
        raise DevClusterError(
            f"the cluster {cluster.name} has not ended within {timeout_seconds:.0f} s: pid {cluster.pid}"
        )
    _remove_left(cluster)


def _remove_left(cluster: ClusterState) -> None:
    """Clean up after a cluster without an owner, after its supervisor."""
    _wait_while(lambda: bool(cluster.supervisor and process_start(cluster.supervisor)), SETTLE_SECONDS)
    remove(cluster.name)


def _wait_while(condition: Callable[[], bool], timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while condition() and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)


def remove(name: str) -> None:
    """Remove the state folder of a cluster that does not run."""
    shutil.rmtree(state_directory(name), ignore_errors=True)
