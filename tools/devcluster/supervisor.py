"""The process that owns every process of one cluster, so that all of them die when their user does.

Started by `process.Supervisor` as a script of its own (standard library only, one thread). It reads requests as JSON
lines from its standard input and answers each with one JSON line. When that pipe ends, or its parent has
changed, the user is gone, also after SIGKILL: it stops its children, last started first, runs the clean-up
commands it was given, and ends. Its children carry a parent-death signal, so they do not outlive it either.

One thread matters twice: the parent-death signal follows the thread that forks, and `preexec_fn` is safe only then.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.5
CLEANUP_SECONDS = 60.0

Request = dict[str, Any]


def before_exec(supervisor_pid: int, namespaces: list[int]) -> None:
    """Run in the child between fork and exec: bind its life to the supervisor's, enter its namespaces."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor_pid:  # the supervisor died before the signal was armed
        os._exit(1)
    for descriptor in namespaces:
        if LIBC.setns(descriptor, 0) != 0:
            number = ctypes.get_errno()
            os.write(2, f"cannot enter a namespace: {os.strerror(number)}\n".encode())
            os._exit(1)


class Children:
    """The processes that this supervisor started, in the order of their start."""

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._grace_seconds: dict[str, float] = {}

    def collect(self, pid: int) -> bool:
        """Take note that a process has ended; False when it is none of ours."""
        for process in self._processes.values():
            if process.pid == pid:
                return process.poll() is not None
        return False

    def start(self, request: Request) -> Request:
        """Start a program; its output is appended to the log file."""
        name = request["name"]
        old = self._processes.get(name)
        if old is not None and old.poll() is None:
            return {"error": f"{name} runs already (pid {old.pid})"}
        supervisor_pid = os.getpid()
        with contextlib.ExitStack() as files:
            log = files.enter_context(Path(request["log"]).open("ab"))
            namespaces = [files.enter_context(Path(path).open("rb")).fileno() for path in request["namespaces"]]
            self._processes.pop(name, None)  # an ended one moves to the end of the order
            self._processes[name] = subprocess.Popen(
                request["argv"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=request.get("cwd"),
                env=request.get("env"),
                start_new_session=True,
                preexec_fn=lambda: before_exec(supervisor_pid, namespaces),  # noqa: PLW1509 - one thread only
            )
        self._grace_seconds[name] = request["grace_seconds"]
        return {"pid": self._processes[name].pid}

    def poll(self, request: Request) -> Request:
        """Return whether a program still runs: its return code, or None."""
        return {"returncode": self._processes[request["name"]].poll()}

    def signal(self, request: Request) -> Request:
        """Send a signal to a program if it still runs."""
        self._processes[request["name"]].send_signal(request["signal"])
        return {}

    def stop(self, request: Request) -> Request:
        """Ask a program to end, then make it."""
        name = request["name"]
        process = self._processes[name]
        grace_seconds = request.get("grace_seconds")
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(self._grace_seconds[name] if grace_seconds is None else grace_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return {"returncode": process.returncode}

    def stop_all(self) -> None:
        """Stop every program, last started first."""
        for name in reversed(list(self._processes)):
            self.stop({"name": name})


def run_cleanup(commands: list[Request]) -> None:
    """Run the clean-up steps, last given first: programs, then their leftovers."""
    for step in reversed(commands):
        try:
            if "remove" in step:
                shutil.rmtree(step["remove"], ignore_errors=True)
            else:
                subprocess.run(step["argv"], check=False, timeout=CLEANUP_SECONDS, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"clean-up step {step} failed: {error}", file=sys.stderr, flush=True)


def answer(operations: Mapping[str, Callable[[Request], Request]], line: bytes) -> Request:
    """Carry out one request; what goes wrong becomes the answer."""
    request = json.loads(line)
    try:
        reply = operations[request["op"]](request)
    except (OSError, subprocess.SubprocessError, KeyError) as error:
        reply = {"error": str(error)}
    return reply | {"id": request["id"]}


def serve(operations: Mapping[str, Callable[[Request], Request]], parent_pid: int, between: Callable[[], None]) -> None:
    """Answer requests until the user closes the pipe or dies."""
    pending = b""
    while os.getppid() == parent_pid:
        between()
        if not select.select([0], [], [], POLL_SECONDS)[0]:
            continue
        data = os.read(0, 1 << 16)
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            os.write(1, json.dumps(answer(operations, line)).encode() + b"\n")


def run(parent_pid: int, between: Callable[[Children], None] = lambda _: None) -> None:
    """Serve, then clean up, whatever ended the service."""
    children, cleanup = Children(), list[Request]()

    def add_cleanup(request: Request) -> Request:
        cleanup.append(request["step"])
        return {}

    def leave(*_: object) -> None:
        raise SystemExit

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, leave)
    operations = {
        "ready": lambda _: {},
        "start": children.start,
        "poll": children.poll,
        "signal": children.signal,
        "stop": children.stop,
        "cleanup": add_cleanup,
    }
    started = time.monotonic()
    try:
        serve(operations, parent_pid, lambda: between(children))
    except (SystemExit, BrokenPipeError):
        pass  # both end the service; the clean-up below follows
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        children.stop_all()
        run_cleanup(cleanup)
        print(f"cleaned up after {time.monotonic() - started:.0f} s of service", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(int(sys.argv[1]))
