"""A relay before the API server that can hold back what one client sends it, while the answers go on arriving."""

import contextlib
import select
import socket
import threading

_CHUNK = 1 << 16


class Relay:
    """Passes bytes on. A client that gives up by closing takes back what was held back.

    Args:
        port: of the server, on this machine.
    """

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._passing = threading.Event()
        self._passing.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Where clients find the server."""
        return f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def hold(self) -> None:
        """Hold back what is sent from now on."""
        self._passing.clear()

    def release(self) -> None:
        """Send what was held back, and all else."""
        self._passing.set()

    def close(self) -> None:
        """Take no more clients."""
        self.release()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self._server) as server:
            answers = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
            answers.start()
            while sent := client.recv(_CHUNK):
                if not self._passing.is_set():
                    self._passing.wait()
                    if _has_left(client):
                        break
                server.sendall(sent)
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            answers.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while answered := source.recv(_CHUNK):
            target.sendall(answered)
        target.shutdown(socket.SHUT_RDWR)


def _has_left(client: socket.socket) -> bool:
    """Whether a client has closed its end. It may have sent more before that."""
    watch = select.poll()
    watch.register(client, select.POLLRDHUP)
    return bool(watch.poll(0))
