"""Hostile clients on loopback: many, slow and never finished. Each service's cost is counted.

They connect to the real services, which have no API server here and listen all the same. Their number and their time
are bounded, and they are gone at the end.
"""

import selectors
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil

from tools.devcluster.component import free_port
from tools.devcluster.process import wait_until
from tools.soak.progress import ROOT, Progress, run

UNFINISHED: Final = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Padding: " + b"x" * 7000
"""Headers that never end, shorter than any limit on them."""
ENDLESS: Final = b"GET /metrics HTTP/1.1\r\n" + b"X-Padding: x\r\n" * 15_000
"""Headers without an end, 200 KiB of them, each of them short."""
PIPELINED: Final = b"GET /metrics HTTP/1.1\r\n\r\n" * 2_500  # many requests with unread responses
PARAMETERS: Final = (b"GET /metrics?" + b"&".join(b"%x" % index for index in range(1500)) + b" HTTP/1.1\r\n\r\n") * 10
"""Questions with many parameters each."""
MANY: Final = 600
MOST_MIB: Final = 64.0  # their limit in a service
MOST_THREADS: Final = 8  # those that pages of the manager are made in; none of them is for a connection
MOST_CONNECTIONS: Final = 320  # how many of them a service has: 256, and those that it shows out at the moment
START_SECONDS: Final = 60.0
SHARE: Final = 0.22  # of the time, for each service
_KUBECONFIG: Final = """
apiVersion: v1
kind: Config
current-context: none
clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: none, user: {token: none}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
"""


@contextmanager
def hostile_clients(port: int, count: int, said: bytes = UNFINISHED) -> Iterator[list[socket.socket]]:
    """Open connections that send these bytes and stop; a closed one is no error."""
    with ExitStack() as stack:
        result = []
        for _ in range(count):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            try:
                each.sendall(said)
            except ConnectionError:
                continue
            result.append(each)
        yield result


def still_open(connections: list[socket.socket]) -> int:
    """Return how many have not been closed by the other side."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        ended = 0
        for key, _ in selector.select(0):
            try:
                ended += not key.fileobj.recv(1, socket.MSG_PEEK)  # type: ignore[union-attr]
            except ConnectionError:
                ended += 1
        return len(connections) - ended


@contextmanager
def _started(module: str, port: int, flags: list[str]) -> Iterator[psutil.Process]:
    """A service as a process of its own, once it answers."""
    words = [sys.executable, "-m", module, *flags]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _answers(port), f"{module} answering", START_SECONDS, pause_seconds=0.2)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(port: int) -> bool:
    """Return whether a client like kubelet gets a response.

    Raises:
        OSError: It gets none.
    """
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=30) as answer:
            return bool(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return True


def _costs(process: psutil.Process, port: int) -> tuple[float, int, int]:
    """Resident memory [MiB], threads, and connections at the port."""
    open_ones = [
        connection for connection in process.net_connections("tcp") if connection.status == psutil.CONN_ESTABLISHED
    ]
    at_port = sum(1 for open_one in open_ones if open_one.laddr and open_one.laddr[1] == port)
    return process.memory_info().rss / 2**20, process.num_threads(), at_port


def besiege(process: psutil.Process, port: int, goes_on: Callable[[], bool]) -> tuple[float, int, int, int]:
    """Connect in all ways, again and again.

    Returns:
        The most that it cost (memory [MiB], threads, connections), and how many proper requests got no answer.
    """
    before, memory, threads, connections, lost = _costs(process, port), 0.0, 0, 0, 0
    while True:
        for text in (UNFINISHED, ENDLESS, PIPELINED, PARAMETERS, b"GET", b""):
            with hostile_clients(port, MANY, text):
                try:
                    lost += not _answers(port)
                except OSError:
                    lost += 1
                now = _costs(process, port)
            memory, threads = max(memory, now[0] - before[0]), max(threads, now[1] - before[1])
            connections = max(connections, now[2])
        if not goes_on():
            return memory, threads, connections, lost


def trial(progress: Progress) -> None:
    """Keep hundreds of connections open to each service, and measure their cost."""
    with tempfile.TemporaryDirectory() as folder:
        login = Path(folder, "kubeconfig")
        login.write_text(_KUBECONFIG)
        cached, quiet = f"--kubeconfig={login}", "--listen=127.0.0.1:0"
        for number, (name, module, flag, more) in enumerate(
            (
                ("agent", "agent", "--listen", ["--standalone", f"--data-dir={folder}/data"]),
                ("manager", "manager", "--listen", [cached]),
                ("manager's page", "manager", "--ui-listen", [cached, quiet]),
                ("extender's metrics", "scheduler_plugins", "--metrics-listen", [cached, quiet]),
            ),
            1,
        ):
            progress.log(f"besieging the {name}")
            port, end = free_port(), (1 - SHARE * number) * progress.seconds
            with _started(module, port, [f"{flag}=127.0.0.1:{port}", *more]) as process:
                memory, threads, connections, lost = besiege(process, port, lambda end=end: progress.left() > end)  # type: ignore[misc]
            progress.check(
                f"{MANY} connections at a time cost the {name} at most {MOST_MIB:.0f} MiB and {MOST_THREADS} threads",
                f"{memory:.1f} MiB, {threads} threads; {connections} were kept",
                passed=memory <= MOST_MIB and threads <= MOST_THREADS and connections <= MOST_CONNECTIONS,
            )
            progress.check(f"the {name} answers others meanwhile", f"{lost} were not answered", passed=not lost)


if __name__ == "__main__":
    run(trial)
