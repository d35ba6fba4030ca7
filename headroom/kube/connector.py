"""Connections through a proxy: http and https ones by aiohttp, SOCKS ones by a library that is not always there."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import aiohttp
from aiohttp.connector import NEEDS_CLEANUP_CLOSED

from headroom.kube.errors import LoginError

_SOCKS: Final = ("socks5://", "socks5h://")
_LIBRARY: Final = "aiohttp_socks"


def is_socks(proxy: str | None) -> bool:
    return bool(proxy) and str(proxy).lower().startswith(_SOCKS)


def check_proxy(proxy: str | None) -> None:
    """Raise LoginError: the proxy speaks SOCKS, and the library for that is not installed here."""
    if is_socks(proxy) and find_spec(_LIBRARY) is None:
        raise LoginError(
            f"The proxy {without_login(proxy)} needs the package aiohttp-socks, which is not installed here: "
            "our images leave it out. Name an http proxy."
        )


def connector(proxy: str | None, **options: Any) -> aiohttp.BaseConnector:  # noqa: ANN401 - aiohttp's options
    """Return the connector for requests through this proxy. Raises LoginError, as `check_proxy`."""
    check_proxy(proxy)
    options = {"enable_cleanup_closed": NEEDS_CLEANUP_CLOSED, **options}
    if not is_socks(proxy):
        return aiohttp.TCPConnector(**options)
    url = f"socks5://{str(proxy).partition('://')[2]}"
    # As in Go, the proxy resolves names.
    result: aiohttp.BaseConnector = import_module(_LIBRARY).ProxyConnector.from_url(url, rdns=True, **options)
    return result


def http_proxy(proxy: str | None) -> str | None:
    """Return the proxy that aiohttp itself connects to; None for a SOCKS one, which is the connector's."""
    return None if is_socks(proxy) else proxy


def without_login(proxy: str | None) -> str:
    """Return a proxy's URL for messages, without user and password."""
    scheme, separator, rest = str(proxy).partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
