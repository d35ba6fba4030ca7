"""An API server's front on loopback whose certificate can be changed: it ends TLS and begins it again behind."""

import asyncio
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import yaml

from tools.devcluster.certs import KeyPair

_CHUNK = 1 << 22
"""Most bytes of a piece: much, since a slow server is not one that says little at a time."""


def kubeconfig(folder: Path, server: str) -> Path:
    """A kubeconfig in a folder for a server; the authority and the token are files beside it: ca.crt and token."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": {"tokenFile": "token"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


class TlsFront:
    """Passes bytes on to a server, in a thread of its own; use it in a `with` block.

    Args:
        target: URL of the server behind; its certificate is not checked.
        pair: the certificate that clients are shown.
    """

    def __init__(self, target: str, pair: KeyPair) -> None:
        url = urlsplit(target)
        self._target = (str(url.hostname), int(url.port or 443))
        self._pair = pair
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.delay_seconds = 0.0
        """How long each piece of an answer is kept back. [s]"""

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen(self._pair))
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"https://127.0.0.1:{self.port}"

    def show(self, pair: KeyPair) -> None:
        """Cut all connections and show another certificate from now on."""
        self._do(self._close())
        self._do(self._listen(pair))

    def _do(self, coroutine: object) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(120)  # type: ignore[arg-type]

    async def _listen(self, pair: KeyPair) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.cert, pair.key)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with suppress(OSError, asyncio.CancelledError):
            back_reader, back_writer = await asyncio.open_connection(*self._target, ssl=context, limit=_CHUNK)
            self._open |= {writer, back_writer}
            await asyncio.gather(self._pass_on(reader, back_writer), self._pass_on(back_reader, writer, slow=True))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, slow: bool = False) -> None:
        try:
            while data := await reader.read(_CHUNK):
                await asyncio.sleep(self.delay_seconds if slow else 0.0)
                writer.write(data)
                await writer.drain()
        finally:
            self._open.discard(writer)
            writer.transport.abort()
