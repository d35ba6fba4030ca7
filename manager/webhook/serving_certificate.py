"""The certificate that is served: another one takes its place while the listener and its connections stay."""

import asyncio
import os
import ssl
import tempfile

from manager.webhook.certificates import Pair, UnusableError


class ServingCertificate:
    """What the listener serves with.

    Its own context has no certificate: it hands each new connection to the context of the certificate of the moment, so
    that an old one leaves no trace, whatever kind of key it had.
    """

    def __init__(self) -> None:
        self.ready = asyncio.Event()  # set once there is a certificate
        self.pair: Pair | None = None  # what is served
        self._current: ssl.SSLContext | None = None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # for the listener, for as long as it lives
        self.context.sni_callback = self._hand_over  # called for clients that name no server, too

    def load(self, pair: Pair) -> bool:
        """Serve another certificate from the next connection on; whether it is another one.

        Raises UnusableError: it cannot be served; what was served before still is.
        """
        if pair == self.pair:
            return False
        fresh = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Python reads certificates from files only, and a pod has nowhere to write: the file is in memory.
        in_memory = hasattr(os, "memfd_create")
        try:
            with os.fdopen(os.memfd_create("certificate"), "wb") if in_memory else tempfile.TemporaryFile() as file:
                file.write(pair.certificate + b"\n" + pair.key)
                file.flush()
                fresh.load_cert_chain(f"/dev/fd/{file.fileno()}", password="")  # so that none is asked for
        except (ssl.SSLError, OSError, ValueError) as error:
            raise UnusableError(f"it cannot be served: {error}") from None
        self.pair, self._current = pair, fresh
        self.ready.set()
        return True

    def _hand_over(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if self._current is not None:
            connection.context = self._current
