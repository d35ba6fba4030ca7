"""JSON over HTTP from a provider: with a deadline, a size limit, TLS, and a sentence for each failure."""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from headroom.kube.connection import tls_context
from headroom.kube.connector import connector, http_proxy
from headroom.kube.errors import LoginError
from headroom.kube.proxies import proxy_for
from scheduler_plugins.providers.provider import ProviderError
from scheduler_plugins.providers.spec import MetricProvider

BODY_LIMIT: Final = 64 * 2**20  # largest answer that is read: 5,000 nodes have about 5 MiB. [bytes]
BEARER: Final = "Authorization"  # the header that has a bearer token
_CHUNK: Final = 2**16
_OK: Final = 200
_REDIRECTS: Final = range(300, 400)
_SHOWN: Final = 200  # how much of an answer that is none is shown. [characters]
_VEIL: Final = "..."


@dataclass(frozen=True, slots=True)
class Site:
    """A provider's HTTP server."""

    address: str  # its URL
    settings: MetricProvider  # token, TLS, deadline
    login_header: str = BEARER  # the header that has the token; of this one it is a bearer token
    body_limit: int = BODY_LIMIT  # largest answer that is read. [bytes]

    @asynccontextmanager
    async def session(self) -> AsyncIterator["Session"]:
        """A session for one fetch: the files of authority and token are read again, so they may be renewed.

        Raises ProviderError: a file cannot be used, or the time is over.
        """
        tls, headers = await asyncio.to_thread(self._login)
        try:
            proxied = connector(proxy_for(self.address), ssl=tls)
        except LoginError as error:
            raise ProviderError(str(error)) from error
        try:
            async with (
                asyncio.timeout(self.settings.timeout_seconds),
                aiohttp.ClientSession(
                    headers=headers,
                    connector=proxied,
                    timeout=aiohttp.ClientTimeout(total=self.settings.timeout_seconds),
                ) as session,
            ):
                yield Session(self, session, headers.get(self.login_header, "").removeprefix("Bearer "))
        except TimeoutError as error:
            raise ProviderError(f"no answer within {self.settings.timeout_seconds:g} s") from error

    def _login(self) -> tuple[ssl.SSLContext, dict[str, str]]:
        settings = self.settings
        try:
            authority = Path(settings.ca_file) if settings.ca_file else None
            tls = tls_context(authority_file=authority, verify=not settings.insecure_skip_verify)
            token = Path(settings.token_file).read_text("ascii").strip() if settings.token_file else settings.token
        except LoginError as error:
            raise ProviderError(str(error)) from error
        except (OSError, UnicodeDecodeError) as error:
            raise ProviderError(f"the token file {settings.token_file} cannot be read: {_why(error)}") from error
        headers = {"Accept": "application/json"}
        if token:
            if not (token.isascii() and token.isprintable()):
                raise ProviderError("the token is not one line of plain text")
            headers[self.login_header] = f"Bearer {token}" if self.login_header == BEARER else token
        return tls, headers


class Session:
    """Requests of one fetch."""

    def __init__(self, site: Site, session: aiohttp.ClientSession, secret: str = "") -> None:
        self._site = site
        self._session = session
        self._secret = secret

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - any JSON
        """The JSON of an answer. Raises ProviderError: there is none."""
        url = self._site.address.rstrip("/") + path
        proxy = http_proxy(proxy_for(url))
        try:
            async with self._session.get(url, params=params, allow_redirects=False, proxy=proxy) as response:
                body = await self._read(response)
                if response.status != _OK:
                    message = _error_text(response, self._veiled(body.decode(errors="replace")).encode())
                    raise ProviderError(f"{path} answers {response.status}: {self._veiled(message)}")
        except TimeoutError as error:
            raise ProviderError(f"no answer within {self._site.settings.timeout_seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ProviderError(f"cannot be reached: {_why(error)}") from error
        try:
            return parsed(body)
        except ProviderError:
            if self._secret and self._secret.encode() in body:
                raise ProviderError("the answer is not JSON, and repeats the token") from None
            raise

    async def get_all(self, requests: Sequence[tuple[str, Mapping[str, str] | None]]) -> list[Any]:
        """The JSON of several answers at once, in order; none is still under way when one has failed.

        Raises ProviderError: there is none for one of them.
        """
        tasks = [asyncio.create_task(self.get(path, params)) for path, params in requests]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        return await bounded(response.content.iter_chunked(_CHUNK), self._site.body_limit)

    def _veiled(self, text: str) -> str:
        """Return the text without the token: a server may repeat it, and its response is logged."""
        return text.replace(self._secret, _VEIL) if self._secret else text


async def bounded(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    """All chunks in one. Raises ProviderError: they are too much."""
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise ProviderError(f"the answer has more than {limit / 2**20:g} MiB")
    return bytes(body)


def parsed(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """The JSON of a body. Raises ProviderError: it is none."""
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        pass  # Python's decoder accepts invalid JSON such as NaN; that value alone is refused
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProviderError(f"the answer is not JSON: {_shown(body)!r}") from error


def _error_text(response: aiohttp.ClientResponse, body: bytes) -> str:
    if response.status in _REDIRECTS:
        return "a redirection, which is not followed; give the address that it leads to"
    return _shown(body) or response.reason or "without a word"


def _shown(body: bytes) -> str:
    return " ".join(body[:_SHOWN].decode(errors="replace").split())


def _why(error: Exception) -> str:
    """Why, the same text each time: aiohttp's own names an object in memory."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        result = error.certificate_error
        why = getattr(result, "verify_message", "") or result
        return f"its certificate is refused ({why}); give its authority in caFile"
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return str(error) or type(error).__name__
