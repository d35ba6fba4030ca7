"""The relay that holds back what is sent: answers go on, nothing is lost, and who leaves takes it back."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tools.soak.relay import Relay


@contextmanager
def served() -> Iterator[tuple[Relay, socket.socket, socket.socket]]:
    """A relay, a client, and the server's end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = Relay(listener.getsockname()[1])
        client = socket.create_connection(("127.0.0.1", int(relay.url.rpartition(":")[2])))
        server, _ = listener.accept()
        server.settimeout(10)
        with client, server:
            client.settimeout(10)
            yield relay, client, server
        relay.close()


def test_passes_both_ways() -> None:
    """What is sent and answered arrives, and the end of it."""
    with served() as (_, client, server):
        client.sendall(b"asked")
        assert server.recv(10) == b"asked"
        server.sendall(b"answered")
        assert client.recv(10) == b"answered"
        client.close()
        assert server.recv(10) == b""


def test_held_back_arrives_in_order() -> None:
    """While it holds back, answers arrive; afterwards everything does that was sent."""
    with served() as (relay, client, server):
        relay.hold()
        client.sendall(b"one ")
        server.sendall(b"news")
        assert client.recv(10) == b"news"
        client.sendall(b"two")
        server.setblocking(False)
        try:
            early = server.recv(10)
        except BlockingIOError:
            early = b""
        server.settimeout(10)
        relay.release()
        assert early == b""
        got = b""
        while len(got) < len(b"one two"):
            got += server.recv(10)
        assert got == b"one two"


def test_who_leaves_takes_it_back() -> None:
    """Of a client that has closed meanwhile nothing arrives but the end."""
    with served() as (relay, client, server):
        relay.hold()
        client.sendall(b"write")
        client.close()
        threading.Timer(0.2, relay.release).start()
        assert server.recv(10) == b""
