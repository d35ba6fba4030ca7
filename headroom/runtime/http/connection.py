"""An HTTP/1.x connection: parses requests, calls pages, sends replies in order. The parser is httptools' (llhttp)."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Final, NamedTuple, cast
from urllib.parse import parse_qsl, unquote

import httptools

from headroom.runtime.http.pages import Pages, Reply, Request, reply_to

_PIPELINED: Final = 16
"""Requests of one connection that wait for their turn; a few bytes each, they take twenty times that once read."""
_PARAMETERS: Final = 16  # parameters of a request's query, which take a hundred times their text
_STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for clients."""

    body_bytes: int = 32 * 2**20  # largest body that is read; 5,000 full Node objects have about half of it [bytes]
    head_bytes: int = 32 * 2**10  # longest request line and headers [bytes]
    buffered_bytes: int = 128 * 2**20
    """The limit of all unfinished and queued requests of all connections together. [bytes]"""
    unsent_bytes: int = 128 * 2**20  # the limit of all unsent replies together [bytes]
    kernel_bytes: int | None = None
    """The socket buffer of a connection in either direction, which counts as the service's memory in its
    cgroup; None: the kernel's default, some MiB. [bytes]"""
    connections: int = 256  # connections at a time. A further one closes the one that was idle longest.
    request_seconds: float = 30.0
    """Time from the first byte of a request to its last, and for a client to read a reply. [s]"""
    idle_seconds: float = 180.0
    """Time that a connection may be idle. Twice that of Go's client, so that the client
    closes it: a request that meets a closing server is lost. [s]"""
    linger_seconds: float = 2.0
    """Time for which input is discarded after a refusal, so that the client can read the refusal. [s]"""
    timeout_check_seconds: float = 1.0  # interval of the checks of these timeouts [s]


@dataclass(slots=True)
class ListenerState:
    """The common state of all connections of a listener."""

    pages: Pages
    limits: Limits
    date: str = ""  # the present time as a header, written once a second
    refused: Callable[[int, str], None] = lambda _status, _why: None
    """Called with the status and the reason of each request that is refused before a page sees it."""
    settled: Callable[[asyncio.Transport], None] = lambda _: (
        None
    )  # called once per connection, with its first HTTP request
    buffered: int = 0  # the size of unfinished and queued requests [bytes]
    connections: dict["Connection", None] = field(default_factory=dict)
    """The open ones, the one that was idle longest first."""
    closing: bool = False  # whether further requests are refused
    left: asyncio.Event = field(default_factory=asyncio.Event)  # set when a connection has ended


class _Refused(NamedTuple):
    status: int
    text: str


class _QueuedRequest(NamedTuple):
    request: Request
    keep_alive: bool
    old: bool
    size: int


@lru_cache(maxsize=32)
def _target(url: bytes) -> tuple[str, Mapping[str, str]]:
    """The path and the query of a request's target, which is the same for all of most clients."""
    parsed = httptools.parse_url(url)
    text = (parsed.query or b"").decode("latin-1")
    query = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_PARAMETERS))
    return unquote((parsed.path or b"/").decode("latin-1")), query


class Connection(asyncio.Protocol):
    """A connection."""

    def __init__(self, shared: ListenerState) -> None:
        self._shared, self._limits = shared, shared.limits
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[_QueuedRequest] = deque()
        self._task: asyncio.Task[None] | None = None
        self._answering, self._may_write, self._lingers = False, True, False
        self._refused: _Refused | None = None
        self.deadline = time.monotonic() + self._limits.idle_seconds
        """When it is closed unless something happens. [s, monotonic]"""
        self._forget_message()

    def _forget_message(self) -> None:
        self._size, self._in_head, self._begun = 0, True, False
        self._url, self._body = b"", bytearray()
        self._expects, self._length, self._host, self._received = False, 0, b"", 0.0

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self._transport = cast("asyncio.Transport", transport)
        self._shared.settled(self._transport)
        connections = self._shared.connections
        if len(connections) >= self._limits.connections:
            quiet = next((connection for connection in connections if not connection.busy), None)
            (quiet or self).abort()
        connections[self] = None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """The client is gone, or we closed."""
        self._shared.connections.pop(self, None)
        self._shared.left.set()
        self._shared.buffered -= self._size
        self._size, self._transport = 0, None
        self._drop_waiting()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._lingers or self._refused is not None or self._transport is None:
            return
        self._active()
        self._take(len(data))
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the request is answered as HTTP, and the connection closes after it
        except httptools.HttpParserError as error:
            self._refused = self._refused or _Refused(400, f"this is not HTTP: {error}")
        self._check_size()
        if self._refused is not None:
            self._next()
        elif self._waiting:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """The client has closed its side; it still gets the replies to its requests.

        Returns:
            Whether to keep the connection open.
        """
        return not self._lingers and (self._answering or bool(self._waiting))

    def pause_writing(self) -> None:
        """The client reads its replies too slowly."""
        self._may_write = False
        self.deadline = time.monotonic() + self._limits.request_seconds
        slow = [connection for connection in self._shared.connections if connection is not self and connection.unsent]
        held = [connection.unsent for connection in slow]
        excess = sum(held) + self.unsent - self._limits.unsent_bytes
        for connection, size in zip(slow, held, strict=True):  # the one that was idle longest closes first
            if excess <= 0:
                break
            excess -= size
            connection.abort()

    def resume_writing(self) -> None:
        """The client has read its replies."""
        self._may_write = True
        self._rest()
        self._next()

    # The parser's side

    def on_message_begin(self) -> None:
        self._begun, self._received = True, time.perf_counter()
        self.deadline = time.monotonic() + self._limits.request_seconds

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        name = name.lower()
        if name == b"expect":
            self._expects = value.lower() == b"100-continue"
        elif name == b"content-length" and value.isdigit():
            self._length = int(value)
        elif name == b"host":
            self._host = value

    def on_headers_complete(self) -> None:
        """Now comes the body."""
        self._in_head = False
        if self._length > self._limits.body_bytes:
            self._too_large()
        elif self._expects and self._transport is not None and not self._shared.closing and self._refused is None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if len(self._body) + len(body) > self._limits.body_bytes:
            self._too_large()
        else:
            self._body += body

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._refused is not None or self._lingers:
            return
        if len(self._waiting) >= _PIPELINED:
            self._refused = _Refused(503, f"more than {_PIPELINED} requests wait for their turn")
            return
        method = self._parser.get_method().decode("latin-1")
        try:
            path, query = _target(self._url)
        except (httptools.HttpParserInvalidURLError, ValueError):
            self._refused = _Refused(400, f"the request's target is no URL, or has more than {_PARAMETERS} parameters")
            return
        queued = Request(method, path, dict(query), bytes(self._body), self._host.decode("latin-1"), self._received)
        keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        old = self._parser.get_http_version() == "1.0"
        size = len(self._url) + len(self._body)
        self._take(size - self._size)
        self._waiting.append(_QueuedRequest(queued, keep_alive, old, size))
        self._forget_message()
        self._rest()
        self._next()

    # Limits

    @property
    def busy(self) -> bool:
        return self._answering or bool(self._waiting)

    @property
    def unsent(self) -> int:
        """The size of its unsent replies. [bytes]"""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def held(self) -> int:
        """The size of its unfinished and queued requests. [bytes]"""
        waiting = sum(queued.size for queued in self._waiting)
        return waiting if self._lingers or self._refused is not None else waiting + self._size

    def too_much(self) -> None:
        """Give these requests up, so that others can be read."""
        self._refused, self._body = _Refused(503, "too much is being sent at once"), bytearray()
        self._shared.buffered -= self._size
        self._size = 0
        self._drop_waiting()
        self._next()

    def _drop_waiting(self) -> None:
        self._shared.buffered -= sum(queued.size for queued in self._waiting)
        self._waiting.clear()

    def _take(self, count: int) -> None:
        self._size += count
        self._shared.buffered += count

    def _check_size(self) -> None:
        if not self._begun:
            self._shared.buffered -= self._size
            self._size = 0
        elif self._refused is not None:
            return
        elif self._in_head and self._size > self._limits.head_bytes:
            self._refused = _Refused(431, f"the headers are longer than {self._limits.head_bytes} bytes")
        elif self._size > 2 * self._limits.body_bytes + self._limits.head_bytes:  # chunks and their frames
            self._too_large()
        if self._shared.buffered > self._limits.buffered_bytes:
            max(self._shared.connections, key=lambda each: each.held).too_much()

    def _too_large(self) -> None:
        self._refused = self._refused or _Refused(413, f"the body is larger than {self._limits.body_bytes} bytes")
        self._body = bytearray()

    def overdue(self, now: float) -> None:
        """The deadline has passed."""
        if self._answering or (self._waiting and self._may_write):
            self.deadline = now + self._limits.request_seconds  # that is our own time
        elif self._begun and not self._lingers and self._may_write:
            self._refused = _Refused(408, "the request takes too long to arrive")
            self._next()
        else:
            self.abort()

    def _active(self) -> None:
        self._shared.connections.pop(self, None)
        self._shared.connections[self] = None

    def _rest(self) -> None:
        self.deadline = time.monotonic() + self._limits.idle_seconds

    # Answers

    def _next(self) -> None:
        """Answer what waits, one after the other."""
        while self._waiting and self._may_write and not self._answering and self._transport is not None:
            queued = self._waiting.popleft()
            self._shared.buffered -= queued.size
            made = reply_to(self._shared.pages, queued.request)
            if isinstance(made, Reply):
                self._send(queued, made)
            else:
                self._answering = True
                self._task = asyncio.get_running_loop().create_task(self._finish(queued, made))
        if self._transport is None or self._waiting or self._answering:
            return
        if self._refused is not None and self._may_write:
            self._refuse(*self._refused)
        elif self._shared.closing and not self._begun:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    async def _finish(self, queued: _QueuedRequest, made: Awaitable[Reply]) -> None:
        reply = await made
        self._answering = False
        self._send(queued, reply)
        self._next()

    def _send(self, queued: _QueuedRequest, reply: Reply) -> None:
        if self._transport is None:
            return
        keep_alive = queued.keep_alive and not self._shared.closing
        more = ("Connection: keep-alive\r\n" if queued.old else "") if keep_alive else "Connection: close\r\n"
        self._write(reply, more, head_only=queued.request.method == "HEAD")
        if not keep_alive:
            self._drop_waiting()
            self._linger()

    def _refuse(self, status: int, text: str) -> None:
        if not self._lingers:
            self._shared.refused(status, text)
            self._write(Reply.text(f"{text}\n", status), "Connection: close\r\n")
            self._linger()

    def _write(self, reply: Reply, more: str, *, head_only: bool = False) -> None:
        headers = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items()) if reply.headers else ""
        head = (
            f"{_STATUS_LINES[reply.status]}Content-Type: {reply.content_type}\r\nContent-Length: {len(reply.body)}\r\n"
            f"Date: {self._shared.date}\r\n{headers}{more}\r\n"
        )
        if self._transport is not None:
            self._transport.write(head.encode("latin-1") + (b"" if head_only else reply.body))

    def _linger(self) -> None:
        """Close once all is written. Later bytes are discarded: closing at once could lose the reply."""
        self._lingers, self._body = True, bytearray()
        self._shared.buffered -= self._size
        self._size = 0
        if self._transport is None:
            return
        unsent = self._transport.get_write_buffer_size() > 0
        self.deadline = time.monotonic() + (self._limits.request_seconds if unsent else self._limits.linger_seconds)
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()

    def close(self) -> None:
        """Refuse further requests; close after the replies to those in progress."""
        if not (self.busy or self._begun or self._lingers) and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close, whatever is under way."""
        self._shared.connections.pop(self, None)
        if self._transport is not None:
            self._transport.abort()
