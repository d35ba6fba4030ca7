"""The extender over HTTP: POST /filter and /prioritize for kube-scheduler; GET /healthz, /livez and /metrics."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from aiohttp import web

from scheduler_plugins.extender.service import Extender, UnreadablePod
from scheduler_plugins.extender.wire import BadRequest, FilterResult, filter_reply, parse, prioritize_reply

BODY_LIMIT: Final = 32 * 2**20
"""Largest body that is read. 5,000 full Node objects have about half of it. [bytes]"""

_LOG: Final = logging.getLogger(__name__)


class Meter(Protocol):
    """Where requests are counted."""

    def request(self, verb: str) -> AbstractContextManager[list[str]]:
        """Time a request; the outcome is put into the list."""
        ...

    def refused(self, reasons: set[str]) -> None:
        """Note a pod that found every node refused."""
        ...

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        ...


class Server:
    """The routes.

    Args:
        extender: answers.
        ready: what keeps the extender from answering at all, one sentence each; empty when it can.
        complaints: what /healthz fails for, one sentence each; empty when all is well.
        meter: where requests are counted.
    """

    def __init__(
        self,
        extender: Extender,
        ready: Callable[[], Sequence[str]],
        complaints: Callable[[], Sequence[str]],
        meter: Meter,
    ) -> None:
        self._extender = extender
        self._ready = ready
        self._complaints = complaints
        self._meter = meter

    def application(self) -> web.Application:
        """The application, ready to be served."""
        app = web.Application(client_max_size=BODY_LIMIT)
        app.router.add_post("/filter", self.filter)
        app.router.add_post("/prioritize", self.prioritize)
        app.router.add_get("/healthz", self.healthz)
        app.router.add_get("/livez", self.livez)
        app.router.add_get("/metrics", self.metrics)
        return app

    async def filter(self, request: web.Request) -> web.Response:
        """Which nodes the pod may be bound to. Trouble of ours is told in `Error`, which the pod's event quotes."""
        with self._meter.request("filter") as outcome:
            body = await request.read()
            try:
                asked = parse(body)
            except BadRequest as error:
                return _bad_request(error)
            try:
                missing = self._ready()
                result = FilterResult(error=_not_ready(missing)) if missing else self._extender.filter(asked)
                reply = filter_reply(result, asked)
            except Exception as error:  # noqa: BLE001 - the outer runner: one pod's trouble stays its own
                _complain("Cannot answer for pod", asked.pod, error)
                result = FilterResult(error=f"headroom-scheduler: {error}")
                reply = filter_reply(result, asked)
            outcome.append(self._outcome(result))
            return web.json_response(reply)

    def _outcome(self, result: FilterResult) -> str:
        if result.error:
            return "error"
        reasons = {*(result.failed or {}).values(), *(result.unresolvable or {}).values()}
        if result.names or not reasons:
            return "answered"
        self._meter.refused(reasons)
        return "refused_all"

    async def prioritize(self, request: web.Request) -> web.Response:
        """The score of each node. kube-scheduler goes on without it when it fails."""
        with self._meter.request("prioritize") as outcome:
            body = await request.read()
            try:
                asked = parse(body)
            except BadRequest as error:
                return _bad_request(error)
            missing = self._ready()
            if missing:
                return web.json_response({"Error": _not_ready(missing)}, status=503)
            try:
                reply = prioritize_reply(asked.names, self._extender.prioritize(asked))
            except Exception as error:  # noqa: BLE001 - the outer runner: one pod's trouble stays its own
                _complain("Cannot score nodes for pod", asked.pod, error)
                return web.json_response({"Error": f"headroom-scheduler: {error}"}, status=500)
            outcome.append("answered")
            return web.json_response(reply)

    async def healthz(self, _request: web.Request) -> web.Response:
        """200 while the extender knows the cluster, 503 with the reasons otherwise."""
        complaints = self._complaints()
        return web.Response(text="\n".join(complaints or ["ok"]) + "\n", status=503 if complaints else 200)

    async def livez(self, _request: web.Request) -> web.Response:
        """200 while the program runs: restarting it because the API server is away would only lose what it knows."""
        return web.Response(text="ok\n")

    async def metrics(self, _request: web.Request) -> web.Response:
        """Prometheus metrics."""
        return web.Response(body=self._meter.text(), headers={"Content-Type": "text/plain; version=0.0.4"})


def _not_ready(missing: Sequence[str]) -> str:
    return f"headroom-scheduler does not know the cluster yet: {'; '.join(missing)}"


def _complain(what: str, pod: Mapping[str, Any], error: Exception) -> None:
    """One line for a pod that cannot be read; where it happened, too, for an error of ours."""
    _LOG.error("%s %s: %s", what, _named(pod), error, exc_info=None if isinstance(error, UnreadablePod) else error)


def _named(pod: Any) -> str:  # noqa: ANN401 - Kubernetes JSON
    metadata = pod["metadata"]
    return f"{metadata.get('namespace')}/{metadata.get('name')}"


def _bad_request(error: BadRequest) -> web.Response:
    _LOG.warning("A request was refused: %s", error)
    return web.json_response({"Error": f"bad request: {error}"}, status=400)
