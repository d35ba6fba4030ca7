"""Requests to the API server: get, list in pages, create, patch, delete, and the raw stream of a watch."""

import asyncio
import copy
import json
import logging
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from headroom.kube.connection import ActsAs, Connection
from headroom.kube.connector import connector, http_proxy
from headroom.kube.decoding import Decode, undecoded_page
from headroom.kube.errors import ApiError, ApiUnavailable, LoginError
from headroom.kube.gathering import Gathering, at_once
from headroom.kube.paging import PAGE_SIZE, Paging
from headroom.kube.server_clock import ServerClock
from headroom.kube.time_slices import in_slices

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
_NOT_PRINTABLE: Final = re.compile("[\x7f-\uffff]")
_METADATA_ALONE: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

TIMEOUT_SECONDS: Final = 30.0  # how long one request may take, lists page by page

_LOG: Final = logging.getLogger(__name__)
_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500
_FIRST_ERROR: Final = 400

Json = dict[str, Any]
Body = Mapping[str, Any] | Sequence[Any]
Params = Mapping[str, str | int]


@dataclass(slots=True)
class _Login:
    """The login that all views of one session share."""

    connection: Connection


def _encoded(body: Any) -> bytes:  # noqa: ANN401 - JSON
    """Encode JSON that is also YAML, which server-side apply parses; YAML has no escape for half a surrogate pair."""
    text = json.dumps(body, ensure_ascii=False)
    return _NOT_PRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


class _Body(aiohttp.BytesPayload):
    """A body that is not sent once writes are forbidden; nor is its head."""

    def __init__(self, content: bytes, may_write_for: Callable[[], float] | None) -> None:
        super().__init__(content)
        self._may_write_for = may_write_for

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if self._may_write_for is not None:
            self._may_write_for()
        await super().write_with_length(writer, content_length)


class ApiServer:
    """A session with one API server; use it as `async with ApiServer(connection, user_agent=...) as api`.

    Every request raises `ApiError` when the server refuses it, and `ApiUnavailable` when the server cannot be
    reached, is overloaded, or does not behave like one.
    """

    def __init__(self, connection: Connection, user_agent: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._login = _Login(connection)
        self._user_agent = user_agent
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self.server_time = ServerClock()  # the server's time, by its last response
        self.on_page: Callable[[str, int, int | None], None] | None = None
        """Callback for each page of a list: its path, objects so far, and their total (None: not known;
        the same as so far: this was the last page)."""
        self.traces: list[aiohttp.TraceConfig] = []  # callbacks for each request, set before the session begins
        self.acts_as: ActsAs = ()
        """The user to impersonate: see `headroom.kube.connection.acts_as`."""
        self._session: aiohttp.ClientSession | None = None
        self._may_write_for: Callable[[], float] | None = None

    @property
    def ahead_seconds(self) -> float:
        """The offset of our wall clock to the server's; positive: ahead. [s]"""
        return self.server_time.ahead_seconds

    @property
    def connection(self) -> Connection:
        """The login in use; another object after it was renewed."""
        return self._login.connection

    @connection.setter
    def connection(self, fresh: Connection) -> None:
        self._login.connection = fresh

    def guarded(self, may_write_for: Callable[[], float]) -> Self:
        """Return the same session for a caller that may lose the right to write.

        Args:
            may_write_for: called before each write and again before its first byte is sent: the time that a write may
                take from now on [s]. It raises `ApiUnavailable` when no write may begin.
        """
        view = copy.copy(self)
        view._may_write_for = may_write_for  # noqa: SLF001 - it is one of us
        return view

    async def __aenter__(self) -> Self:
        headers = {"User-Agent": self._user_agent, "Accept": "application/json"}
        # A watch that is cancelled closes TLS gracefully, and waits for the server: no longer than the session lasts.
        link = connector(self.connection.proxy_in_use)
        self._session = aiohttp.ClientSession(headers=headers, connector=link, trace_configs=self.traces)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str, params: Params | None = None) -> Json:
        return await self._request("GET", path, params=params)

    async def metadata(self, path: str) -> Json:
        """Read the metadata of one object and nothing else of it, to learn cheaply whether the rest has changed.

        It comes from the server's cache, which may be a moment behind.
        """
        result = await self._request("GET", path, accept=_METADATA_ALONE, params={"resourceVersion": "0"})
        return dict(result.get("metadata") or {})

    async def list(
        self,
        path: str,
        params: Params | None = None,
        keep: Callable[[Any], Any] | None = None,
        decode: Decode | None = None,
    ) -> tuple[list[Any], str]:
        """Read all objects under a path, page by page, as of one moment.

        Args:
            path: path of the collection.
            params: query parameters, such as `fieldSelector`; `limit` is the most objects of a page.
            keep: reduces each object as its page arrives: the JSON of 150,000 pods does not fit into memory.
            decode: makes each object from its JSON; None: all of it becomes plain objects.

        Returns:
            The objects (or their reduced forms), and the version of that moment for a watch to start from.
        """
        query: dict[str, str | int] = {**(params or {})}
        paging, items = Paging(int(query.get("limit", PAGE_SIZE))), list[Any]()
        while True:
            try:
                text = await self._text("GET", path, params={**query, "limit": paging.limit})
            except ApiError as error:
                if not (error.gone and "continue" in query):
                    raise
                paging.expired()
                items, query = [], {**(params or {})}
                continue
            result, count, metadata = self._page(text, path, decode)
            paging.came(count, len(text))
            if keep is None:
                items += result
            else:
                await in_slices(result, keep, items)
            if self.on_page is not None:
                self.on_page(path, len(items), _in_all(len(items), metadata))
            if not metadata.get("continue"):
                return items, str(metadata.get("resourceVersion", ""))
            query["continue"] = metadata["continue"]

    async def create(self, path: str, body: Body, params: Params | None = None) -> Json:
        return await self._request("POST", path, body=body, content_type="application/json", params=params)

    async def replace(self, path: str, body: Body, params: Params | None = None) -> Json:
        """Write a whole object; refused as a conflict when its resourceVersion is not the current one."""
        return await self._request("PUT", path, body=body, content_type="application/json", params=params)

    async def patch(
        self,
        path: str,
        body: Body,
        content_type: str = MERGE_PATCH,
        params: Params | None = None,
    ) -> Json:
        """Change parts of an object.

        Args:
            path: the object, or its `/status`.
            body: as the content type requires: an object, or a list of operations for `JSON_PATCH`.
            content_type: `MERGE_PATCH`, `JSON_PATCH`, `STRATEGIC_MERGE_PATCH` or `APPLY`.
            params: query parameters, such as `fieldManager`.
        """
        return await self._request("PATCH", path, body=body, content_type=content_type, params=params)

    async def delete(self, path: str, body: Body | None = None) -> Json:
        """Delete an object; `body` may be DeleteOptions with preconditions."""
        return await self._request("DELETE", path, body=body, content_type="application/json")

    @asynccontextmanager
    async def stream(
        self, path: str, params: Params, silence_seconds: float, gather: Callable[[], float] = at_once
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a long response and yield its bytes; one that is silent for longer is dropped. See `Gathering`. [s]"""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout.total, sock_read=silence_seconds)
        async with self._answer("GET", path, params=params, timeout=timeout) as response:
            yield self._chunks(response, Gathering(gather))

    async def _chunks(self, response: aiohttp.ClientResponse, gathering: Gathering) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                gathering.begin(response.connection and response.connection.transport, chunk.count(b"\n"))
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    async def _request(self, method: str, path: str, **given: Any) -> Json:  # noqa: ANN401 - as `_text` has it
        return self._parsed(await self._text(method, path, **given))

    async def _text(
        self,
        method: str,
        path: str,
        *,
        body: Body | None = None,
        content_type: str = "",
        accept: str = "",
        params: Params | None = None,
    ) -> bytes:
        types = {"Content-Type": content_type, "Accept": accept}
        headers = {name: value for name, value in types.items() if value}
        async with self._answer(method, path, params=params, body=body, headers=headers) as response:
            try:
                return await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise self._unreachable(error) from error

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout | None = None,  # noqa: ASYNC109 - aiohttp's own type
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Return a successful response; a rejected login or certificate is renewed once."""
        if self._session is None:
            raise RuntimeError("use `async with ApiServer(...) as api`")
        for attempt in (1, 2):
            login = self.connection
            header = await asyncio.to_thread(login.authorization)
            login_header = {"Authorization": header} if header else {}
            try:
                response = await self._session.request(
                    method,
                    login.server + path,
                    params={name: str(value) for name, value in (params or {}).items()},
                    data=None if body is None else _Body(_encoded(body), self._may_write_for),
                    headers=[*{**(headers or {}), **login_header}.items(), *(self.acts_as or login.acts_as)],
                    timeout=timeout or self._timeout_of(method),
                    ssl=login.tls or True,
                    server_hostname=login.server_hostname,
                    proxy=http_proxy(login.proxy_in_use),
                    allow_redirects=False,
                )
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                refused = isinstance(error, aiohttp.ClientConnectorCertificateError)
                if refused and attempt == 1 and login.renewed is not None:
                    await self.renew(login)
                    continue
                self._timeout_of(method)  # raises if the right to write was lost meanwhile
                raise self._unreachable(error) from error
            async with response:
                self.server_time.learn(response.headers.get("Date"))
                if response.status == _UNAUTHORIZED and attempt == 1:
                    await self.renew(login)
                    continue
                if response.status >= _FIRST_ERROR:
                    raise await self._refusal(response)
                yield response
                return

    def _timeout_of(self, method: str) -> aiohttp.ClientTimeout:
        if method == "GET" or self._may_write_for is None:
            return self._timeout
        return aiohttp.ClientTimeout(total=min(self._may_write_for(), self._timeout.total or TIMEOUT_SECONDS))

    async def renew(self, used: Connection) -> None:
        """Read the login again, unless another request has done so meanwhile; one that is unusable is not taken."""
        if self.connection is not used:
            return
        if used.renewed is None:
            await asyncio.to_thread(used.forget_authorization)
            return
        try:
            fresh = await asyncio.to_thread(used.renewed)
        except LoginError as error:
            _LOG.debug("The login could not be read again: %s", error)
            return
        if fresh.server == used.server:  # another server is another cluster
            self.connection = fresh

    async def _refusal(self, response: aiohttp.ClientResponse) -> ApiError | ApiUnavailable:
        try:
            text = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            text = b""
        try:
            status = json.loads(text)
        except (ValueError, RecursionError):
            status = None
        if not isinstance(status, dict):
            status = {"message": text[:200].decode(errors="replace").strip() or response.reason or ""}
        message, reason = str(status.get("message", "")), str(status.get("reason", ""))
        if response.status == _UNAUTHORIZED:  # the server gives no further reason
            message = f"the login of {self.connection.origin or 'this client'} is not accepted, it may have expired"
        if response.status == _NOT_FOUND and not reason:  # for a missing object there is a reason
            message = f"{message} at {response.url.path}: is the definition (CRD) of that kind installed?"
        if response.status == _TOO_MANY_REQUESTS or response.status >= _SERVER_ERROR:
            return ApiUnavailable(
                f"The {self.connection.peer} at {self.connection.server} answers {response.status}: {message}",
                status=response.status,
                retry_after=_seconds(response.headers.get("Retry-After")),
            )
        return ApiError(response.status, reason, message)

    def _page(self, text: bytes, path: str, decode: Decode | None) -> tuple[Iterable[Any], int, Json]:
        """The objects of one page of a list, how many they are, and the list's metadata."""
        if decode is not None and (raws := undecoded_page(text)) is not None:
            return map(decode, raws.items or ()), len(raws.items or ()), raws.metadata or {}
        page = self._parsed(text)
        result, metadata = page.get("items") or [], page.get("metadata") or {}
        if decode is not None or not (isinstance(result, list) and isinstance(metadata, dict)):
            raise ApiUnavailable(f"{self.connection.server} returned no list for {path}")
        return result, len(result), metadata

    def _parsed(self, text: bytes) -> Json:
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            shown = text[:80].decode(errors="replace")
            raise ApiUnavailable(f"{self.connection.server} does not behave like {_a(self.connection.peer)}: {shown!r}")
        return parsed

    def _unreachable(self, error: Exception) -> ApiUnavailable:
        why, result = _reason(error), ""
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            certificate_error = error.certificate_error
            result = str(getattr(certificate_error, "verify_message", "") or certificate_error)
            origin = self.connection.origin or "use"
            why = f"its certificate is refused ({result}); check the certificate authority in {origin}"
        text = f"The {self.connection.peer} at {self.connection.server} cannot be reached: {why}"
        return ApiUnavailable(text, bad_certificate=result)


def _in_all(so_far: int, metadata: Json) -> int | None:
    """Return the number of objects of a list, from one page; with a selector the server does not count them."""
    if not metadata.get("continue"):
        return so_far
    rest = metadata.get("remainingItemCount")
    return so_far + rest if isinstance(rest, int) else None


def _reason(error: Exception) -> str:
    """Return why there is no response, as the same text each time: aiohttp's own names an object in memory."""
    if isinstance(error, TimeoutError):
        return "no response in time"
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return str(error) or type(error).__name__


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOUaeiou' else 'a'} {noun}"


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() else None
