"""Start, watch and stop the programs of a cluster; all of them end with this process, also after SIGKILL.

The work is done by a child of ours (`supervisor.py`): a parent-death signal follows the thread that forks, and the
supervisor's only thread lives as long as the cluster, whichever thread of ours starts it.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from tools.devcluster.commands import DevClusterError

T = TypeVar("T")

SCRIPT = Path(__file__).with_name("supervisor.py")
GRACE_SECONDS = 5.0  # how long a program may take to end after SIGTERM before it is killed
CLOSE_SECONDS = 120.0  # how long the clean-up of a whole cluster may take
LAST_LINES = 15
LONGEST_LINE = 400


def last_lines(log: Path, count: int = LAST_LINES) -> str:
    """The end of a log file, indented, for an error message; empty if there is none."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join(f"    {line[:LONGEST_LINE]}" for line in lines[-count:])


@dataclass(frozen=True)
class Process:
    """A program that the supervisor started."""

    supervisor: "Supervisor"
    name: str
    pid: int
    log: Path

    @property
    def returncode(self) -> int | None:
        """Its exit code (negative: the signal that ended it), or None while it runs."""
        code: int | None = self.supervisor.request(op="poll", name=self.name)["returncode"]
        return code

    @property
    def running(self) -> bool:
        """Return whether it still runs."""
        return self.returncode is None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens when it has ended."""
        self.supervisor.request(op="signal", name=self.name, signal=int(number))

    def kill(self) -> None:
        """End it at once (SIGKILL) and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.stop()

    def stop(self, grace_seconds: float | None = None) -> int:
        """End it: SIGTERM, after the grace time SIGKILL. Returns its exit code."""
        code: int = self.supervisor.request(op="stop", name=self.name, grace_seconds=grace_seconds)["returncode"]
        return code

    def require_running(self) -> None:
        """Raise with the end of its log when it has ended."""
        code = self.returncode
        if code is not None:
            raise DevClusterError(f"{self.name} ended with {code}. The end of {self.log}:\n{last_lines(self.log)}")


class Supervisor:
    """Owns the processes of one cluster. A context manager: leaving it ends them and runs the clean-up."""

    def __init__(self, logs: Path, name: str = "supervisor", argv: Sequence[str] = ()) -> None:
        """Start it; its own output goes to `<logs>/<name>.log`; `argv` starts it in another way (see `sandbox.py`)."""
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self.log = logs / f"{name}.log"
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                argv or [sys.executable, "-I", "-S", str(SCRIPT), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C in a terminal reaches us, and we end the cluster in order
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The supervisor's process id: the parent of all programs."""
        return self._process.pid

    def request(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Ask the supervisor; for the classes of this module."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None or stdin.closed:
            raise DevClusterError("the cluster was stopped, so its processes do not respond")
        with self._lock:
            number = next(self._numbers)
            reply = self._exchange(stdin, stdout, number, request)
        if "error" in reply:
            raise DevClusterError(f"{request['op']} {request.get('name', '')}: {reply['error']}")
        return reply

    def _exchange(
        self, stdin: IO[bytes], stdout: IO[bytes], number: int, request: Mapping[str, object]
    ) -> dict[str, Any]:
        try:
            stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError as error:
            raise DevClusterError(
                f"the cluster's supervisor (pid {self.pid}) is gone, its processes with it"
            ) from error
        for line in stdout:
            reply: dict[str, Any] = json.loads(line)
            if reply["id"] == number:  # a lower number: Ctrl-C came between that question and its answer
                return reply
        raise DevClusterError(f"the cluster's supervisor (pid {self.pid}) is gone, its processes with it")

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        namespaces: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        grace_seconds: float = GRACE_SECONDS,
    ) -> Process:
        """Start a program in a session of its own; its output goes to `<logs>/<name>.log` (appended).

        Args:
            name: unique among what runs now; a program that has ended may be started again by the same name.
            argv: the program (absolute path, or found on PATH) and its arguments.
            namespaces: files such as `/proc/<pid>/ns/net`; the program enters them in this order before it starts.
            env: its whole environment; ours when not given.
            cwd: its working directory.
            grace_seconds: how long it gets between SIGTERM and SIGKILL when it is stopped.
        """
        log = self._logs / f"{name}.log"
        reply = self.request(
            op="start",
            name=name,
            argv=[str(word) for word in argv],
            log=str(log),
            namespaces=[str(path) for path in namespaces],
            env=None if env is None else dict(env),
            cwd=None if cwd is None else str(cwd),
            grace_seconds=grace_seconds,
        )
        return Process(self, name, int(reply["pid"]), log)

    def at_exit(self, argv: Sequence[str | Path]) -> None:
        """Run a command after all programs have ended, last given first, also when this process was killed."""
        self.request(op="cleanup", step={"argv": [str(word) for word in argv]})

    def remove_at_exit(self, directory: Path) -> None:
        """Remove a directory after all programs have ended, in order with the commands of `at_exit`."""
        self.request(op="cleanup", step={"remove": str(directory)})

    def close(self) -> None:
        """End all programs, last started first, run the clean-up, and wait for both."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None or stdin.closed:
            return
        stdin.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            stdout.close()


def wait_until(
    condition: Callable[[], T],
    what: str,
    timeout_seconds: float,
    processes: Sequence[Process] = (),
    pause_seconds: float = 0.05,
) -> T:
    """Ask until the answer is true, and return it.

    Args:
        condition: called repeatedly; an OSError or a false value means "not yet".
        what: completes the sentence "… did not happen within 30 s".
        timeout_seconds: when to give up.
        processes: programs without which it cannot happen; if one has ended, that is the error.
        pause_seconds: between two questions.
    """
    deadline = time.monotonic() + timeout_seconds
    reason = ""
    while True:
        try:
            answer = condition()
        except OSError as error:
            reason = f" ({error})"
        else:
            reason = ""
            if answer:
                return answer
        for process in processes:
            process.require_running()
        if time.monotonic() > deadline:
            logs = "".join(f"\nThe end of {p.log}:\n{last_lines(p.log)}" for p in processes)
            raise DevClusterError(f"{what} did not happen within {timeout_seconds:.0f} s{reason}{logs}")
        time.sleep(pause_seconds)
