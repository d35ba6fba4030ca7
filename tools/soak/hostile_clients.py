"""Clients on loopback that mean no good: many, slow and never finished. What they cost each service is counted.

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
PIPELINED: Final = b"GET /metrics HTTP/1.1\r\n\r\n" * 2_500  # many questions whose answers nobody reads
PARAMETERS: Final = (b"GET /metrics?" + b"&".join(b"%x" % each for each in range(1500)) + b" HTTP/1.1\r\n\r\n") * 10
"""Questions with many parameters each."""
MANY: Final = 600
MOST_MIB: Final = 64.0  # what they may cost a service together
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
def strangers(port: int, count: int, said: bytes = UNFINISHED) -> Iterator[list[socket.socket]]:
    """So many connections that say this, and neither go on nor read; one that was shown out meanwhile is no error."""
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            try:
                each.sendall(said)
            except ConnectionError:
                continue
            found.append(each)
        yield found


def still_open(connections: list[socket.socket]) -> int:
    """How many have not been closed by the other side."""
    with selectors.DefaultSelector() as selector:
        for each in connections:
            selector.register(each, selectors.EVENT_READ)
        ended = 0
        for key, _ in selector.select(0):
            try:
                ended += not key.fileobj.recv(1, socket.MSG_PEEK)  # type: ignore[union-attr]
            except ConnectionError:
                ended += 1
        return len(connections) - ended


class Besieged:
    """A service of its own process, and the most that it has taken.

    Args:
        module: what is run.
        flag: how it is told where to listen for strangers.
        more: its other flags.
    """

    def __init__(self, module: str, flag: str, more: list[str]) -> None:
        self.port = free_port()
        words = [sys.executable, "-m", module, f"{flag}=127.0.0.1:{self.port}", *more]
        self._process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self.answers, f"{module} answering", START_SECONDS, pause_seconds=0.2)
        self._before = self._now()
        self.most = (0.0, 0, 0)  # beyond what it had at first: memory [MiB], threads, connections

    def _now(self) -> tuple[float, int, int]:
        process = psutil.Process(self._process.pid)
        ours = [each for each in process.net_connections("tcp") if each.status == psutil.CONN_ESTABLISHED]
        at_port = sum(1 for each in ours if each.laddr and each.laddr[1] == self.port)
        return process.memory_info().rss / 2**20, process.num_threads(), at_port

    def look(self) -> None:
        """Note what it takes now."""
        memory, threads, connections = self._now()
        found = (memory - self._before[0], threads - self._before[1], connections)
        self.most = max(self.most[0], found[0]), max(self.most[1], found[1]), max(self.most[2], found[2])

    def answers(self) -> bool:
        """Whether somebody who asks as kubelet does is answered.

        Raises:
            OSError: nobody is there.
        """
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/livez", timeout=30) as answer:
                return bool(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return True

    def end(self) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def services(folder: Path) -> Iterator[tuple[str, Besieged]]:
    """Each service with the port that anybody may reach, one after the other; it has ended when the next one comes."""
    login = folder / "kubeconfig"
    login.write_text(_KUBECONFIG)
    alone = ["--standalone", f"--data-dir={folder / 'data'}"]
    told = f"--kubeconfig={login}"
    for name, module, flag, more in (
        ("agent", "agent", "--listen", alone),
        ("manager", "manager", "--listen", [told]),
        ("manager's page", "manager", "--ui-listen", [told, "--listen=127.0.0.1:0"]),
        ("extender's metrics", "scheduler_plugins", "--metrics-listen", [told, "--listen=127.0.0.1:0"]),
    ):
        service = Besieged(module, flag, more)
        try:
            yield name, service
        finally:
            service.end()


def besiege(service: Besieged, goes_on: Callable[[], bool]) -> int:
    """Connect in all ways, again and again; how often somebody who asked properly meanwhile was not answered."""
    lost, first = 0, True
    while first or goes_on():
        first = False
        for said in (UNFINISHED, ENDLESS, PIPELINED, PARAMETERS, b"GET", b""):
            with strangers(service.port, MANY, said):
                try:
                    lost += not service.answers()
                except OSError:
                    lost += 1
                service.look()
    return lost


def trial(progress: Progress) -> None:
    """Keep hundreds of connections open to each service, and count what they cost it."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, service) in enumerate(services(Path(folder)), 1):
            progress.log(f"besieging the {name}")
            lost = besiege(service, lambda left=1 - SHARE * number: progress.left() > left * progress.seconds)  # type: ignore[misc]
            memory, threads, connections = service.most
            progress.check(
                f"{MANY} connections at a time cost the {name} at most {MOST_MIB:.0f} MiB and {MOST_THREADS} threads",
                f"{memory:.1f} MiB, {threads} threads; {connections} were kept",
                passed=memory <= MOST_MIB and threads <= MOST_THREADS and connections <= MOST_CONNECTIONS,
            )
            progress.check(f"the {name} answers others meanwhile", f"{lost} were not answered", passed=not lost)


if __name__ == "__main__":
    run(trial)
