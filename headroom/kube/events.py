"""Kubernetes Events about objects, which `kubectl describe` shows.

The name of an Event is a hash of its content and object. After a restart, or on another replica, the same event has
the same name and increases the count of the first one.
"""

import hashlib
import logging
import os
import re
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headroom.kube import paths
from headroom.kube.api import MERGE_PATCH, ApiServer, Json
from headroom.kube.errors import ApiError, ApiUnavailable
from headroom.kube.server_clock import micro_time
from headroom.runtime.backoff import Backoff
from headroom.runtime.sanitize import printable

_LOG: Final = logging.getLogger(__name__)
_REMEMBERED: Final = 1000
_UPDATE_INTERVAL_SECONDS: Final = 60.0
_FORGET_SECONDS: Final = 3600.0
_LONGEST_NOTE_BYTES: Final = 1024
_LONGEST_INSTANCE: Final = 128
_LONGEST_NAME: Final = 220
_MOST_WAITING: Final = 500
_FIRST_PAUSE_SECONDS: Final = 2.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
_MOST_REFUSALS: Final = 5
_MOST_AT_ONCE: Final = 20

_Key = tuple[str, ...]


@dataclass(slots=True)
class _Series:
    """An event that was sent, and how often it has happened since."""

    path: str
    count: int
    written_at: float
    unwritten: bool = False


@dataclass(slots=True)
class _Waiting:
    """An event that could not be written yet."""

    body: Json
    since: float
    refusals: int = 0
    not_before: float = float("-inf")


class EventRecorder:
    """Writes events; a repetition increases the count of the first one.

    An event that cannot be written is kept and written later by `flush`: some hundreds of them, for an hour; one that
    the server refuses, a few times.
    """

    def __init__(self, api: ApiServer, component: str, clock: Callable[[], float] = time.time) -> None:
        self._api = api
        self._component = component
        self._instance = f"{component}-{os.environ.get('POD_NAME') or socket.gethostname()}"[:_LONGEST_INSTANCE]
        self._clock = clock
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._waiting: OrderedDict[_Key, _Waiting] = OrderedDict()
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._resume_at = self._latest = float("-inf")

    def use(self, api: ApiServer) -> None:
        """Go on with another session; what waits is written there."""
        self._api = api

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def record(self, regarding: dict[str, Any], type_: str, reason: str, action: str, note: str) -> None:
        """Record an event about an object. Never raises: the caller goes on without the event.

        Args:
            regarding: reference to the object: apiVersion, kind, name, and namespace and uid where it has them. The
                event lives in the object's namespace, or in "default" for one that has none.
            type_: "Normal" or "Warning".
            reason: one CamelCase word, why.
            action: a CamelCase word for the action.
            note: a sentence for people.
        """
        note = printable(note).encode()[:_LONGEST_NOTE_BYTES].decode(errors="ignore")
        key = (*(str(regarding.get(part, "")) for part in ("kind", "namespace", "name", "uid")), type_, reason, note)
        now = self._now()
        if key in self._waiting:
            return
        await self._flush_waiting(now)  # in the order in which they happened
        event = _Waiting(self._body(key, regarding, action, now), now)
        if now < self._resume_at:  # the server was away a moment ago
            self._keep(key, event)
        else:
            await self._write(key, event, now)

    async def flush(self) -> None:
        """Write what could not be written before, and counts that are due. Call it now and then; it never raises."""
        now = self._now()
        await self._flush_waiting(now)
        if now < self._resume_at:
            return
        due = [
            series
            for series in self._series.values()
            if series.unwritten and now - series.written_at >= _UPDATE_INTERVAL_SECONDS
        ]
        for series in due[:_MOST_AT_ONCE]:
            series.unwritten = False
            try:
                await self._write_count(series, now)
            except (ApiError, ApiUnavailable) as error:
                _LOG.debug("The count of an event could not be written: %s", error)
                return

    def _now(self) -> float:
        """The time. When the clock has been set back, what waits for a moment that was near waits no longer. [s]"""
        now = self._clock()
        if now < self._latest:
            self._resume_at = float("-inf")
            for event in self._waiting.values():
                event.since, event.not_before = min(event.since, now), float("-inf")
            for series in self._series.values():
                series.written_at = min(series.written_at, now)
        self._latest = now
        return now

    async def _flush_waiting(self, now: float) -> None:
        ready = [(key, event) for key, event in self._waiting.items() if now >= event.not_before]
        for key, event in ready[:_MOST_AT_ONCE]:
            if now < self._resume_at:
                return
            if self._waiting.pop(key, None) is None:
                continue
            if now - event.since > _FORGET_SECONDS:
                _give_up(event)
            else:
                await self._write(key, event, now)

    def _keep(self, key: _Key, event: _Waiting) -> None:
        self._waiting[key] = event
        while len(self._waiting) > _MOST_WAITING:
            _give_up(self._waiting.popitem(last=False)[1])

    async def _write(self, key: _Key, event: _Waiting, now: float) -> None:
        """Write or count an event; one that cannot be written waits."""
        try:
            series = self._series.get(key)
            if series is None or now - series.written_at > _FORGET_SECONDS or not await self._repeat(series, now):
                self._series[key] = await self._create(event.body, now)
        except ApiUnavailable as error:
            self._log_failure(event, error, first=not self._backoff.failures)
            self._resume_at = now + self._backoff.failed()
            self._keep(key, event)
            return
        except ApiError as error:
            event.refusals += 1
            self._log_failure(event, error, first=event.refusals == 1)
            event.not_before = now + _FIRST_PAUSE_SECONDS * 4**event.refusals
            if event.refusals < _MOST_REFUSALS:
                self._keep(key, event)
            else:
                _give_up(event)
            return
        self._backoff.succeeded()
        self._series.move_to_end(key)
        while len(self._series) > _REMEMBERED:
            self._series.popitem(last=False)

    @staticmethod
    def _log_failure(event: _Waiting, error: Exception, *, first: bool) -> None:
        level, details = logging.WARNING if first else logging.DEBUG, (event.body["reason"], event.body["note"], error)
        _LOG.log(level, "An event could not be written (%s: %s), it is tried again: %s", *details)

    async def _repeat(self, series: _Series, now: float) -> bool:
        """Count one more; False when the event is gone from the server."""
        series.count += 1
        if now - series.written_at < _UPDATE_INTERVAL_SECONDS:
            series.unwritten = True
            return True
        return await self._write_count(series, now)

    async def _write_count(self, series: _Series, now: float) -> bool:
        body = {"series": {"count": series.count, "lastObservedTime": micro_time(now)}}
        try:
            await self._api.patch(series.path, body, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        series.written_at, series.unwritten = now, False
        return True

    async def _create(self, body: Json, now: float) -> _Series:
        namespace = body["metadata"]["namespace"]
        path = f"{paths.events(namespace)}/{body['metadata']['name']}"
        try:
            await self._api.create(paths.events(namespace), body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return await self._join(path, now)
        return _Series(path, 1, now)

    async def _join(self, path: str, now: float) -> _Series:
        """Increase the count of an event that another replica, or an earlier run, has written."""
        # An empty patch returns the object and needs no right to read events.
        result = await self._api.patch(path, {}, content_type=MERGE_PATCH)
        series = _Series(path, int((result.get("series") or {}).get("count") or 1) + 1, now)
        await self._write_count(series, now)
        return series

    def _body(self, key: _Key, regarding: dict[str, Any], action: str, now: float) -> Json:
        type_, reason, note = key[-3:]
        # Events about cluster-scoped objects live in the namespace "default".
        namespace = str(regarding.get("namespace") or "default")
        unique = hashlib.sha256("\0".join((self._component, *key)).encode()).hexdigest()[:16]
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{_name(regarding)}.{unique}", "namespace": namespace},
            "eventTime": micro_time(now),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "type": type_,
            "reason": reason,
            "action": action,
            "note": note,
            "regarding": regarding,
        }


def _give_up(event: _Waiting) -> None:
    _LOG.warning("An event was given up (%s: %s)", event.body["reason"], event.body["note"])


def _name(regarding: dict[str, Any]) -> str:
    name = re.sub(r"[^a-z0-9.-]", "-", str(regarding.get("name", "")).lower())[:_LONGEST_NAME]
    return re.sub(r"[.-]+(?=\.)|(?<=\.)[.-]+", "", name).strip(".-") or "event"
