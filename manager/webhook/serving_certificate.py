"""The certificate that is served: another one takes its place while the listener and its connections stay.

The listener's own context has no certificate. It hands each new connection to the context of the certificate of the
moment, so an old one leaves no trace, whatever kind of key it had.
"""

import asyncio
import os
import ssl
import tempfile
from typing import Final

from manager.webhook.certificates import Pair, UnusableError

_IN_MEMORY: Final = hasattr(os, "memfd_create")


class Serving:
    """What the listener serves with."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()  # set once there is a certificate
        self.pair: Pair | None = None  # what is served
        self._current: ssl.SSLContext | None = None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # for the listener, for as long as it lives
        self.context.sni_callback = self._hand_over  # called for clients that name no server, too

    def load(self, pair: Pair) -> bool:
        """Serve another certificate from the next connection on; whether it is another one.

        Raises:
            UnusableError: it cannot be served; what was served before still is.
        """
        if pair == self.pair:
            return False
        fresh = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            _load(fresh, pair.certificate + b"\n" + pair.key)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise UnusableError(f"it cannot be served: {error}") from None
        new = self.pair is None or (self.pair.certificate, self.pair.key) != (pair.certificate, pair.key)
        self.pair, self._current = pair, fresh
        self.ready.set()
        return new

    def _hand_over(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if self._current is not None:
            connection.context = self._current


def _load(context: ssl.SSLContext, text: bytes) -> None:
    """Python reads certificates from files only; a pod has nowhere to write, so the file is in memory if possible."""
    if not _IN_MEMORY:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(text)
            file.flush()
            context.load_cert_chain(file.name, password="")
        return
    descriptor = os.memfd_create("webhook-certificate")
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password="")  # a password, so that none is asked for
