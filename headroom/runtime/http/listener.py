"""HTTP for pages: one listener, with or without TLS."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Final

from headroom.runtime.http.connection import Connection, Limits, ListenerState
from headroom.runtime.http.pages import Pages
from headroom.runtime.http.tls_socket import TlsSocket, bind
from headroom.runtime.tls import context

_HANDSHAKE_SECONDS: Final = 10.0
_BACKLOG: Final = 128
_LOG_SECONDS: Final = 60.0

_NO_PASSWORD: Final = ""
"""For keys: an encrypted one is refused. Without it OpenSSL prompts on the terminal, if there is one, and waits."""
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The files of a listener with TLS, as PEM."""

    certificate: Path
    """The certificate and its chain. When it changes on disk, new connections get the new one."""
    key: Path
    client_ca: Path | None = None
    """The authority of client certificates, which are required then; None: any client may connect."""


class CertificateError(Exception):
    """A certificate, key or CA cannot be used; the message has the files and the reason."""


class Served:
    """A listener."""

    def __init__(self, server: asyncio.Server, shared: ListenerState, certificates: "_Certificates | None") -> None:
        self._server, self._shared, self._certificates = server, shared, certificates
        self._upkeep = asyncio.get_running_loop().create_task(self._keep_up())
        self.port: int = server.sockets[0].getsockname()[1]

    async def close(self, grace_seconds: float = 5.0) -> None:
        """Stop listening, finish requests in progress, and close all connections.

        Args:
            grace_seconds: time for requests in progress. [s]
        """
        self._server.close()
        self._shared.closing = True
        for connection in list(self._shared.connections):
            connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while self._shared.connections:
                    self._shared.left.clear()
                    await self._shared.left.wait()
        for connection in list(self._shared.connections):
            connection.abort()
        self._upkeep.cancel()
        with suppress(asyncio.CancelledError):
            await self._upkeep
        await asyncio.sleep(0)  # the next iteration of the loop reports the aborts

    async def _keep_up(self) -> None:
        """Update the date, close connections beyond their timeouts, reload certificates."""
        while True:
            self._shared.date = formatdate(usegmt=True)
            now = time.monotonic()
            for connection in [connection for connection in self._shared.connections if connection.deadline < now]:
                connection.overdue(now)
            if self._certificates is not None:
                self._certificates.refresh()
            await asyncio.sleep(self._shared.limits.timeout_check_seconds)


async def serve(
    pages: Pages, host: str, port: int, tls: ServerTls | None = None, limits: Limits | None = None
) -> Served:
    """Answer for these pages from now on.

    Raises:
        CertificateError: a file cannot be read, holds no certificate or key, or they do not belong together.
        OSError: the address cannot be listened on.
    """
    certificates = _Certificates(tls) if tls is not None else None
    return await listen(pages, bind(host, port), certificates, limits)


async def listen(
    pages: Pages,
    door: TlsSocket,
    tls: "_Certificates | ssl.SSLContext | None" = None,
    limits: Limits | None = None,
    refused: Callable[[int, str], None] | None = None,
) -> Served:
    """Answer for these pages on a bound socket, which is closed when it cannot be listened on.

    Raises:
        OSError: another program listens there.
    """
    certificates = tls if isinstance(tls, _Certificates) else None
    shared = ListenerState(pages, limits or Limits(), formatdate(usegmt=True), refused or _Refusals().log, door.settled)
    try:
        if shared.limits.kernel_bytes is not None:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # connections inherit them
                door.setsockopt(socket.SOL_SOCKET, option, shared.limits.kernel_bytes)
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(shared),
            sock=door,
            ssl=certificates.context if certificates else tls,  # type: ignore[arg-type]
            ssl_handshake_timeout=_HANDSHAKE_SECONDS if tls else None,
            backlog=_BACKLOG,
        )
    except BaseException:
        door.close()
        raise
    return Served(server, shared, certificates)


class _Refusals:
    """Logs refused requests, at a limited rate: any client could fill the log otherwise."""

    def __init__(self) -> None:
        self._not_before, self._suppressed = 0.0, 0

    def log(self, status: int, why: str) -> None:
        """Count a refused request."""
        now = time.monotonic()
        self._suppressed += 1
        if now < self._not_before:
            return
        more = f" ({self._suppressed - 1} more since the last such line)" if self._suppressed > 1 else ""
        _LOG.warning("A request was refused with %d: %s%s", status, why, more)
        self._not_before, self._suppressed = now + _LOG_SECONDS, 0


class _Certificates:
    """A TLS context that follows its files."""

    def __init__(self, tls: ServerTls) -> None:
        self._tls, self._logged = tls, False
        try:
            self.context = context(tls.client_ca, purpose=ssl.Purpose.CLIENT_AUTH)
            """For new connections."""
            self.context.load_cert_chain(tls.certificate, tls.key, _NO_PASSWORD)
            self._seen = self._versions()
        except OSError as error:  # ssl.SSLError is one
            files = ", ".join(str(path) for path in (tls.certificate, tls.key, tls.client_ca) if path)
            raise CertificateError(f"The TLS files ({files}) cannot be used: {error.strerror or error}") from error
        if tls.client_ca is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED

    def _versions(self) -> tuple[int, int]:
        return self._tls.certificate.stat().st_mtime_ns, self._tls.key.stat().st_mtime_ns

    def refresh(self) -> None:
        """Take a certificate that was renewed; keep the old one while the new pair is not complete."""
        try:
            versions = self._versions()
            if versions == self._seen:
                return
            # Into a context apart first: a half-written pair must not spoil the one in use.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                self._tls.certificate, self._tls.key, _NO_PASSWORD
            )
            self.context.load_cert_chain(self._tls.certificate, self._tls.key, _NO_PASSWORD)
        except OSError as error:  # ssl.SSLError is one
            if not self._logged:
                path = self._tls.certificate
                _LOG.warning("The TLS certificate %s cannot be read, the last one stays: %s", path, error)
            self._logged = True
        else:
            self._seen, self._logged = versions, False
            _LOG.info("The TLS certificate %s was renewed", self._tls.certificate)
