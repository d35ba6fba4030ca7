"""Kubernetes Events: what we tell people about an object, where `kubectl describe` shows it."""

import hashlib
import logging
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kubeapi import paths
from kubeapi.api import MERGE_PATCH, ApiServer, Json
from kubeapi.errors import ApiError, ApiUnavailable

_LOG: Final = logging.getLogger(__name__)
_REMEMBERED: Final = 1000
_UPDATE_INTERVAL_SECONDS: Final = 60.0
_FORGET_SECONDS: Final = 3600.0
_LONGEST_NOTE_BYTES: Final = 1024
_LONGEST_INSTANCE: Final = 128


@dataclass(slots=True)
class _Series:
    """An event that was sent, and how often it has happened since."""

    path: str
    count: int
    written_at: float


class EventRecorder:
    """Writes events; a repetition is counted on the first one instead of written anew.

    Args:
        api: the session.
        component: who speaks, such as "headroom-manager".
        clock: wall clock. [s since 1970]
    """

    def __init__(self, api: ApiServer, component: str, clock: Callable[[], float] = time.time) -> None:
        self._api = api
        self._component = component
        self._instance = f"{component}-{os.environ.get('POD_NAME') or socket.gethostname()}"[:_LONGEST_INSTANCE]
        self._clock = clock
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()

    async def record(self, regarding: dict[str, Any], type_: str, reason: str, action: str, note: str) -> None:
        """Tell something about an object. Never raises: an event is not worth failing for.

        Args:
            regarding: reference to the object: apiVersion, kind, name, and namespace and uid where it has them.
            type_: "Normal" or "Warning".
            reason: one CamelCase word, why.
            action: one CamelCase word, what was done.
            note: a sentence for people.
        """
        note = note.encode()[:_LONGEST_NOTE_BYTES].decode(errors="ignore")
        key = (*(str(regarding.get(part, "")) for part in ("kind", "namespace", "name", "uid")), reason, note)
        now = self._clock()
        try:
            known = self._series.get(key)
            if known is None or now - known.written_at > _FORGET_SECONDS or not await self._repeat(known, now):
                self._series[key] = await self._create(regarding, type_, reason, action, note, now)
        except (ApiError, ApiUnavailable) as error:
            _LOG.warning("An event could not be written (%s: %s): %s", reason, note, error)
        if key in self._series:
            self._series.move_to_end(key)
        while len(self._series) > _REMEMBERED:
            self._series.popitem(last=False)

    async def _repeat(self, series: _Series, now: float) -> bool:
        """Count one more; False when the event is gone from the server."""
        series.count += 1
        if now - series.written_at < _UPDATE_INTERVAL_SECONDS:
            return True
        body = {"series": {"count": series.count, "lastObservedTime": _micro_time(now)}}
        try:
            await self._api.patch(series.path, body, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        series.written_at = now
        return True

    async def _create(
        self, regarding: dict[str, Any], type_: str, reason: str, action: str, note: str, now: float
    ) -> _Series:
        # Events about cluster-scoped objects live in the namespace "default".
        namespace = str(regarding.get("namespace") or "default")
        unique = hashlib.sha256(f"{self._instance} {reason} {note} {now!r}".encode()).hexdigest()[:16]
        name = f"{str(regarding.get('name', ''))[:220]}.{unique}"
        body: Json = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": _micro_time(now),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "type": type_,
            "reason": reason,
            "action": action,
            "note": note,
            "regarding": regarding,
        }
        await self._api.create(paths.events(namespace), body)
        return _Series(f"{paths.events(namespace)}/{name}", 1, now)


def _micro_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
