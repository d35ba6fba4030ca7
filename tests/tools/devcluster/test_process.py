"""The supervisor: programs start, are watched, and end with their user."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.devcluster.commands import DevClusterError
from tools.devcluster.process import Supervisor, wait_until

SECONDS = 120.0


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "logs") as supervisor:
        yield supervisor


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_missing_program_is_named(supervisor: Supervisor) -> None:
    with pytest.raises(DevClusterError, match="No such file or directory: '/no/such/program'"):
        supervisor.start("x", ["/no/such/program"])


def test_ended_program_shows_log(supervisor: Supervisor) -> None:
    process = supervisor.start("broken", ["sh", "-c", "echo port 1 is taken; exit 3"])
    with pytest.raises(DevClusterError, match=r"broken ended with 3(?s:.)*port 1 is taken"):
        wait_until(lambda: False, "serving", SECONDS, [process])


def test_closing_ends_in_order(tmp_path: Path) -> None:
    """Closing stops programs, then runs the clean-up, last given first, and can be done twice."""
    folder, observed = tmp_path / "folder", tmp_path / "seen"
    folder.mkdir()
    supervisor = Supervisor(tmp_path / "logs")
    supervisor.remove_at_exit(folder)
    supervisor.at_exit(["sh", "-c", f"ls -d {folder} > {observed}"])
    process = supervisor.start("sleeper", ["sleep", "100"])
    supervisor.close()
    supervisor.close()
    assert not _alive(process.pid)
    assert observed.read_text().strip() == str(folder)
    assert not folder.exists()
    with pytest.raises(DevClusterError, match="the cluster was stopped"):
        supervisor.start("late", ["true"])


USER = """
    import os, sys, threading
    from pathlib import Path
    from tools.devcluster.process import Supervisor
    logs, folder = Path(sys.argv[1]), Path(sys.argv[2])
    supervisor = Supervisor(logs)
    supervisor.remove_at_exit(folder)
    pids = [supervisor.pid]
    # Started by a thread that ends at once: the programs must not end with it.
    thread = threading.Thread(target=lambda: pids.append(supervisor.start("a", ["sleep", "1000"]).pid))
    thread.start(); thread.join()
    pids.append(supervisor.start("b", ["sleep", "1000"]).pid)
    assert supervisor.start("c", ["true"]).pid
    print(*pids, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("victim", ["user", "supervisor"])
def test_nothing_survives_sigkill(tmp_path: Path, victim: str) -> None:
    """When the user or the supervisor is killed, all programs end; after the user's death the clean-up runs too."""
    folder = tmp_path / "folder"
    folder.mkdir()
    command = [sys.executable, "-c", textwrap.dedent(USER), str(tmp_path / "logs"), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout
        supervisor_pid, *pids = map(int, user.stdout.readline().split())
        assert all(_alive(pid) for pid in pids)
        os.kill(user.pid if victim == "user" else supervisor_pid, signal.SIGKILL)
        wait_until(lambda: not any(_alive(pid) for pid in pids), "the end of all programs", SECONDS)
        if victim == "user":
            wait_until(lambda: not folder.exists(), "the clean-up", SECONDS)
            wait_until(lambda: not _alive(supervisor_pid), "the supervisor's end", SECONDS)
