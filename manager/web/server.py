"""The page's listener: an address of its own, so that readers of metrics need no access to the page."""

import asyncio
import ipaddress
import logging
from typing import Final

from headroom.kube import ApiServer
from manager.context import Context
from manager.http import HttpServer, parse_address
from manager.web.api_reader import ApiReader
from manager.web.application import Application
from manager.web.recorder import record

FLAG: Final = "--ui-listen"
_AGAIN_SECONDS: Final = 10.0
_LOG: Final = logging.getLogger(__name__)


class UiServer(HttpServer):
    """Serves the page at host:port; port 0 takes a free one.

    Raises:
        ListenError: the address is not free, or not one.
    """

    def __init__(self, address: str, context: Context) -> None:
        self._context, self._reader = context, ApiReader()
        super().__init__(address, Application(context, self._reader, local=is_loopback(address)).pages(), FLAG)

    async def keep(self, api: ApiServer) -> None:
        """Record the nodes' history until cancelled, and read from the API server by this session."""
        self._reader.attach(api, asyncio.get_running_loop())
        while True:
            try:
                await record(self._context)
            except Exception:  # noqa: BLE001 - the outer runner: a malformed node must not break the page
                _LOG.exception("The page's memory of nodes broke off, starting over; please report it")
            await asyncio.sleep(_AGAIN_SECONDS)


def is_loopback(address: str) -> bool:
    """Return whether an address can be reached from its own machine alone.

    Raises:
        ListenError: it is no address.
    """
    host, _ = parse_address(address, FLAG)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
