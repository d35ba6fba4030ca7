"""List and watch: every object, then every change, until cancelled, through outages of the API server."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from headroom.kube.api import ApiServer
from headroom.kube.decoding import Decode, plain
from headroom.kube.errors import ApiError, ApiUnavailable
from headroom.kube.gathering import at_once
from headroom.runtime.backoff import Backoff

_LOG: Final = logging.getLogger(__name__)
_Part = TypeVar("_Part")
_LONGEST_LINE_BYTES: Final = 64 * 1024 * 1024
_BUSY: Final = frozenset({429, 503})
_GONE: Final = 410
_SURELY_ABSENT: Final = 2


@dataclass(frozen=True, slots=True)
class Relisted:
    """Everything there is now: replace all you know."""

    items: list[Any]  # the objects, or what `keep` kept of each


@dataclass(frozen=True, slots=True)
class Changed:
    """A change of an object."""

    type: str  # ADDED, MODIFIED or DELETED
    object: Any  # the object after the change, as `decode` made it; for DELETED, as it was last


@dataclass(slots=True)
class WatchHealth:
    """The state of a watch, for health checks. Only the watch writes it."""

    last_contact: float | None = None  # time of the API server's last response, on the monotonic clock [s]
    synced: bool = False  # whether everything has been listed at least once
    problem: str = ""  # why the watch is not up; empty while it is, and before the first attempt has ended
    not_found: bool = False
    """True if the last attempt found that the server does not know the kind: its definition is missing."""

    def responded(self) -> None:
        self.last_contact = time.monotonic()


@dataclass(frozen=True, slots=True)
class WatchTiming:
    """Timeouts of a watch, and the failures that it tolerates."""

    first_delay_seconds: float = 0.5  # wait after the first failure; doubles with each further one [s]
    longest_delay_seconds: float = 30.0  # largest wait between two attempts [s]
    shortest_watch_seconds: float = 240.0
    """A watch is renewed after a time between this and twice this, so that clients spread. [s]"""
    silence_seconds: float = 150.0
    """A watch without any byte for this long is renewed; the server sends a bookmark each minute. [s]"""
    bookmark_seconds: float = 100.0
    """A watch that is silent for this long, without a bookmark, is not trusted: everything is listed again. [s]"""
    healthy_seconds: float = 5.0  # a watch that lasted this long was no failure, even without a change [s]
    gather: Callable[[], float] = at_once
    """Return how long changes after the first may wait for others, see `headroom.kube.gathering`. [s]"""
    absent_is_empty: bool = False
    """Treat a kind that the server twice reports as unknown as one without objects, and set `WatchHealth.not_found`."""


DEFAULT_TIMING: Final = WatchTiming()


class _Gone(Exception):  # noqa: N818 - not an error: the signal to list again
    """The resource version cannot be resumed from."""


class _Outage:
    """Growing waits between attempts, and one log line for each state of an outage."""

    def __init__(self, timing: WatchTiming, path: str, health: WatchHealth) -> None:
        self._path, self._health = path, health
        self._backoff = Backoff(timing.first_delay_seconds, timing.longest_delay_seconds, (0.5, 1.0))
        self._reported: _State | None = None
        self._last: _State | None = None

    async def wait(self, retry_after_seconds: float | None) -> None:
        await asyncio.sleep(self._backoff.failed(retry_after_seconds))

    def report(self, error: ApiError | ApiUnavailable) -> None:
        """Log a failure once; log another reason only when it stays, because a starting server gives several."""
        self._health.problem = str(error)
        if isinstance(error, ApiError):
            self._health.not_found = error.not_found
        state = (type(error).__name__, error.status, isinstance(error, ApiUnavailable) and bool(error.bad_certificate))
        new = self._reported is None or (state != self._reported and state == self._last)
        self._last = state
        if new:
            self._reported = state
            _LOG.warning("Cannot watch %s, trying again until it works: %s", self._path, error)

    def recovered(self) -> None:
        if self._reported is not None:
            _LOG.info("Watching %s again", self._path)
        self._reported = self._last = None
        self._backoff.succeeded()


_State = tuple[str, int | None, bool]


async def list_and_watch(  # noqa: PLR0913, PLR0917 - a request has that many parts; most calls name two or three
    api: ApiServer,
    path: str,
    field_selector: str = "",
    label_selector: str = "",
    health: WatchHealth | None = None,
    timing: WatchTiming = DEFAULT_TIMING,
    keep: Callable[[Any], Any] | None = None,
    since: str = "",
    decode: Decode | None = None,
) -> AsyncGenerator[Relisted | Changed, None]:
    """All objects under a path, then each change, without end; it only ends when it is closed or cancelled.

    A cut stream is resumed where it stopped. When that is no longer possible, everything is listed again. While the
    server is away or refuses, attempts go on with growing pauses, and one line is logged.

    Args:
        api: the session.
        path: path of the collection, such as `paths.PODS`.
        field_selector: only objects whose fields match, such as "spec.nodeName=n1".
        label_selector: only objects whose labels match.
        health: where to note contact.
        timing: patience.
        keep: what `Relisted` keeps of each listed object; changes come whole.
        since: the version of a list that the caller has read, which is then not read again.
        decode: makes each object from its JSON; None: all of it becomes plain objects.

    Yields:
        `Relisted` first (but for `since`) and after each gap, `Changed` in between.
    """
    selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
    query = {name: selector for name, selector in selectors.items() if selector}
    watch = _Watch(api, path, query, health or WatchHealth(), timing)
    watch.keep, watch.version, watch.decode = keep, since, decode
    while True:
        retry_after: float | None = None
        try:
            if not watch.version:
                yield await watch.relist()
            async for changed in watch.follow():
                yield changed
            if watch.lasted:
                continue
        except _Gone:
            watch.version = ""
        except ApiError as error:
            for nothing in watch.refused(error):
                yield nothing
        except ApiUnavailable as error:
            if error.status is not None and error.status not in _BUSY:
                watch.version = ""  # the error may be about the version (a restored etcd): do not insist on it
            retry_after = error.retry_after
            watch.outage.report(error)
        await watch.outage.wait(retry_after)


class _Watch:
    """The state of one list-and-watch."""

    def __init__(
        self, api: ApiServer, path: str, query: dict[str, str], health: WatchHealth, timing: WatchTiming
    ) -> None:
        self._api, self._path, self._query, self._health, self._timing = api, path, query, health, timing
        self.outage = _Outage(timing, path, health)
        self.keep: Callable[[Any], Any] | None = None  # what to keep of each listed object
        self.decode: Decode | None = None  # makes an object from its JSON
        self.version = ""  # resource version up to which everything is known; empty: list first
        self.lasted = False  # whether the last stream lived long enough to be followed by the next at once
        self._not_found = 0

    async def relist(self) -> Relisted:
        """Read everything."""
        items, self.version = await self._api.list(self._path, self._query, self.keep, self.decode)
        self._health.synced, self._health.not_found = True, False
        self._health.responded()
        self._not_found = 0
        return Relisted(items)

    def refused(self, error: ApiError) -> Iterator[Relisted]:
        """Record a rejection; a rejected kind may be one without objects."""
        self.version = ""
        if not error.gone:
            self.outage.report(error)
        # Once is not enough: of several servers one may learn of a new definition a moment after the others.
        self._not_found = self._not_found + 1 if error.not_found else 0
        if self._timing.absent_is_empty and self._not_found >= _SURELY_ABSENT:
            self._health.synced = True
            self._health.responded()
            yield Relisted([])

    async def follow(self) -> AsyncGenerator[Changed, None]:
        """The changes of one stream, until it ends."""
        started, silent = time.monotonic(), True
        query = {**self._query, "resourceVersion": self.version}
        async for event in _events(self._api, self._path, query, self._timing, self._health):
            silent = False
            self.outage.recovered()
            item = None if event.type == "BOOKMARK" else (self.decode or plain)(event.object)
            self.version = _version(event.object, item)
            if event.type != "BOOKMARK":
                yield Changed(event.type, item)
        seconds = time.monotonic() - started
        if silent and seconds >= self._timing.bookmark_seconds:
            # So looks a watch that waits for a version which a restored etcd will only reach much later.
            self.version = ""
        self.lasted = seconds >= self._timing.healthy_seconds
        if self.lasted:
            self.outage.recovered()


async def _events(
    api: ApiServer, path: str, query: dict[str, str], timing: WatchTiming, health: WatchHealth
) -> AsyncIterator["_Line"]:
    """The events of one watch, until the server ends it. A stream that breaks after it began just ends, too."""
    seconds = round(random.uniform(1.0, 2.0) * timing.shortest_watch_seconds)  # noqa: S311 - it spreads clients
    params = {**query, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(max(seconds, 1))}
    async with api.stream(path, params, timing.silence_seconds, timing.gather) as chunks:
        health.responded()
        health.problem = ""
        async for line in _lines(_until_cut(chunks, path)):
            health.responded()
            yield _event(line)


async def _until_cut(chunks: AsyncIterator[bytes], path: str) -> AsyncIterator[bytes]:
    try:
        async for chunk in chunks:
            yield chunk
    except ApiUnavailable as error:
        _LOG.debug("The watch of %s broke off: %s", path, error)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split chunks into whole lines; drop the text after the last newline of a broken stream."""
    begun: list[bytes] = []  # parts of the line that has not ended yet
    size = 0
    async for chunk in chunks:
        part, *rest = chunk.split(b"\n")
        begun.append(part)
        size += len(part)
        if rest:
            *lines, part = b"".join(begun), *rest
            begun, size = [part], len(part)
            for line in lines:
                if line.strip():
                    yield line
        if size > _LONGEST_LINE_BYTES:
            raise ApiUnavailable(f"a change of more than {_LONGEST_LINE_BYTES} bytes was sent")


class _Line(msgspec.Struct):
    """An event of a watch."""

    type: str
    object: msgspec.Raw  # its JSON


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Head(msgspec.Struct):
    metadata: _Metadata


_LINE: Final = msgspec.json.Decoder(_Line)
_HEAD: Final = msgspec.json.Decoder(_Head)


def _event(line: bytes) -> _Line:
    """Decode an event from a line of JSON.

    Raises:
        ApiUnavailable: the line is not an event.
        _Gone: the event ends the watch.
    """
    event = _decoded(_LINE, line)
    if event.type == "ERROR":
        _LOG.debug("The watch ended with %s", bytes(event.object))
        raise _Gone
    return event


def _version(raw: msgspec.Raw, item: Any = None) -> str:  # noqa: ANN401 - JSON
    """Return the resource version of an object, given by its JSON and, if it is decoded, as that.

    Raises ApiUnavailable: it has none, so there is nowhere to resume.
    """
    try:
        version = item["metadata"]["resourceVersion"]
    except (TypeError, LookupError):
        version = None
    return version if isinstance(version, str) else _decoded(_HEAD, raw).metadata.resource_version


def _decoded(decoder: msgspec.json.Decoder[_Part], text: bytes | msgspec.Raw) -> _Part:
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ApiUnavailable(f"a watch sent something that is not an event: {bytes(text)[:80]!r}") from None
