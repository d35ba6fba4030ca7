"""A program of the control plane: ports that are taken, restarts, and what it needs."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.devcluster import component
from tools.devcluster.component import Component
from tools.devcluster.errors import DevClusterError
from tools.devcluster.process import Supervisor

SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        server.accept()[0].close()
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor with nothing started."""
    with Supervisor(tmp_path) as supervisor:
        yield supervisor


def _answers(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True


def _server(supervisor: Supervisor, port: int = 0) -> Component:
    return Component(supervisor, "server", lambda port: [sys.executable, "-c", SERVER, str(port)], _answers, port)


def test_port_stays_after_restart(supervisor: Supervisor) -> None:
    """A free port is chosen once; stopped, killed and started again, the program is at the same one."""
    server = _server(supervisor)
    server.start()
    port = server.port
    server.restart()
    server.kill()
    assert not server.running
    server.start()
    assert (server.running, server.port, _answers(port)) == (True, port, True)


def test_taken_port_is_replaced(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """When somebody takes the port between its choice and its use, another one is tried."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken, free = holder.getsockname()[1], component.free_port()
        ports = iter([taken, free])
        monkeypatch.setattr(component, "free_port", lambda: next(ports))
        server = _server(supervisor)
        # Whoever holds the port may answer there, so readiness must ask for more than a connection: here, for the port.
        server.ready = lambda port: port == free and _answers(port)
        server.start()
        assert server.port == free


def test_fixed_port_is_named(supervisor: Supervisor) -> None:
    """A port that was asked for is not replaced: after some attempts the error says that it is in use."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        server = _server(supervisor, holder.getsockname()[1])
        server.ready = lambda _: False
        with pytest.raises(DevClusterError, match=r"server ended with 1(?s:.)*Address already in use"):
            server.start()


def test_ended_need_is_the_error(supervisor: Supervisor) -> None:
    """When something that it needs has ended, that is what the error says."""
    store = Component(supervisor, "store", lambda _: ["sh", "-c", "echo disk is full; exit 1"])
    store.launch()
    server = _server(supervisor)
    server.ready, server.needs = lambda _: False, [store]
    with pytest.raises(DevClusterError, match=r"store ended with 1(?s:.)*disk is full"):
        server.start()


def test_unstarted_is_named(supervisor: Supervisor) -> None:
    """Stopping what was never started says so."""
    with pytest.raises(DevClusterError, match="server was never started"):
        _server(supervisor).stop()
