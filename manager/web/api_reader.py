"""Reads from the API server for the page, at a bounded rate whatever the number of readers."""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from headroom.kube import ApiError, ApiServer, ApiUnavailable, paths
from headroom.runtime.token_bucket import TokenBucket
from manager import node_metric

_ANSWER_SECONDS: Final = 5.0  # how long a page waits for the API server [s]
_READS_AT_ONCE: Final = 20
_READ_AGAIN_SECONDS: Final = 0.2
"""For any number of readers, the API server gets at most five requests a second. [s]"""
_UNBOUND_SECONDS: Final = 30.0  # how long a list of unbound pods serves all readers [s]
_UNBOUND: Final = {"fieldSelector": "spec.nodeName=,status.phase=Pending", "limit": "500"}
"""A page of the pods without a node; a cluster rarely has more."""

Json = dict[str, Any]


class NotRead(Exception):  # noqa: N818 - a state of the world
    """The API server could not be read now; one line with the reason."""


class ApiReader:
    """Reads for other threads than that of the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._session: tuple[ApiServer, asyncio.AbstractEventLoop] | None = None
        self._turn, self._clock = threading.Lock(), clock
        self._bucket = TokenBucket()
        self._unbound: tuple[float, Json] | None = None

    def attach(self, api: ApiServer, loop: asyncio.AbstractEventLoop) -> None:
        """Read by this session from now on."""
        self._session = api, loop

    def node_metric(self, name: str) -> Json | None:
        """The NodeMetric of a node; `None` where there is none.

        Raises:
            NotRead: the API server does not answer.
        """
        return self._read(node_metric.path(name))

    def unbound_pods(self) -> Json:
        """The PodList of pods without a node, at most 30 seconds old.

        Raises:
            NotRead: the API server does not answer.
        """
        if self._unbound is None or self._clock() - self._unbound[0] > _UNBOUND_SECONDS:
            self._unbound = self._clock(), self._read(paths.PODS, _UNBOUND) or {}
        return self._unbound[1]

    def _read(self, path: str, params: Mapping[str, str] | None = None) -> Json | None:
        if self._session is None or self._session[1].is_closed():
            raise NotRead("there is no session with the API server")
        api, loop = self._session
        with self._turn:
            time.sleep(self._bucket.wait(_READS_AT_ONCE, _READ_AGAIN_SECONDS, time.monotonic()))
            self._bucket.take(_READ_AGAIN_SECONDS, time.monotonic())
        reading = api.get(path, params)
        try:
            answer = asyncio.run_coroutine_threadsafe(reading, loop)
        except RuntimeError:  # the manager ends
            reading.close()
            raise NotRead("there is no session with the API server") from None
        try:
            return answer.result(_ANSWER_SECONDS)
        except (ApiError, ApiUnavailable) as error:
            if isinstance(error, ApiError) and error.not_found:
                return None
            raise NotRead(str(error)) from None
        except (TimeoutError, concurrent.futures.CancelledError, RuntimeError):  # the last: the session is closed
            answer.cancel()
            raise NotRead("the API server does not answer") from None
