"""The extender's pages: POST /filter, /prioritize and /preempt for kube-scheduler; GET its health and state."""

import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final, TypeVar

from headroom.runtime.http import MetricsPage, Pages, Reply, Request
from scheduler_plugins.extender.debug import NodePage
from scheduler_plugins.extender.health import Health
from scheduler_plugins.extender.service import Extender, UnreadablePod
from scheduler_plugins.extender.watcher import WatcherPages
from scheduler_plugins.extender.wire import (
    Arguments,
    BadRequest,
    FilterResult,
    FullNodes,
    Preemption,
    error_reply,
    filter_reply,
    parse,
    parse_preemption,
    preempt_reply,
    prioritize_reply,
)
from scheduler_plugins.metrics import Telemetry

_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_LONGEST_LINE: Final = 500
_ANSWERED, _BAD_REQUEST, _ERROR = "answered", "bad_request", "error"  # outcomes of requests

_LOG: Final = logging.getLogger(__name__)

_Asked = TypeVar("_Asked", Arguments, Preemption)


class Server:
    """The pages."""

    def __init__(
        self, extender: Extender, health: Health, meter: Telemetry, node: NodePage, watcher: WatcherPages | None = None
    ) -> None:
        self._extender = extender
        self._health = health
        self._meter = meter
        self._node = node
        self._watcher = watcher
        self._last_error = ""

    def pages(self) -> Pages:
        """All pages."""
        return {
            ("POST", "/filter"): self.filter,
            ("POST", "/prioritize"): self.prioritize,
            ("POST", "/preempt"): self.preempt,
            ("GET", "/healthz"): self.healthz,
            ("GET", "/livez"): self.livez,
            ("GET", "/readyz"): self.readyz,
            ("GET", "/metrics"): self.metrics,
            ("GET", "/debug/nodes/"): self._node.answer,
        }

    def open_pages(self) -> Pages:
        """The pages for clients other than kube-scheduler: none changes anything or names a pod."""
        pages = self.pages()
        health = {("GET", path): pages["GET", path] for path in ("/healthz", "/livez", "/readyz")}
        watcher = self._watcher.pages() if self._watcher else {}
        return {("GET", "/metrics"): MetricsPage(self._meter.text), **health, **watcher}

    # kube-scheduler's

    def filter(self, request: Request) -> Reply:
        """Return the nodes that the pod may be bound to. Errors go into `Error`, which the pod's event quotes."""
        return self._timed("filter", request, self._filter)

    def _filter(self, request: Request) -> tuple[Reply, str]:
        arguments: Arguments | None = None
        try:
            arguments = parse(request.body)
            missing = self._health.missing()
            result = FilterResult(error=_not_ready(missing)) if missing else self._extender.filter(arguments)
            reply = filter_reply(result)
        except BadRequest as error:
            return _bad_request(error, full_nodes=200), _BAD_REQUEST  # its event then quotes the error
        except Exception as error:  # noqa: BLE001 - the outer runner: a failure for one pod affects no other
            self._log_error("Cannot answer for pod", arguments, error)
            result = FilterResult(error=f"headroom-scheduler: {_brief(error)}")
            reply = filter_reply(result)
        return Reply(reply), self._outcome(result)

    def _outcome(self, result: FilterResult) -> str:
        if result.error:
            return _ERROR
        if result.names or not result.families:
            return _ANSWERED
        self._meter.refused(result.families)
        return "refused_all"

    def prioritize(self, request: Request) -> Reply:
        """The score of each node. kube-scheduler goes on without it when it fails."""

        def answer(arguments: Arguments) -> bytes:
            return prioritize_reply(arguments.names, self._extender.prioritize(arguments))

        return self._timed("prioritize", request, self._plain(parse, answer, "Cannot score nodes for pod"))

    def preempt(self, request: Request) -> Reply:
        """Return which pods may be evicted for the pod, at most on the nodes that kube-scheduler thought of."""

        def answer(arguments: Preemption) -> bytes:
            return preempt_reply(self._extender.preempt(arguments), arguments)

        return self._timed(
            "preempt", request, self._plain(parse_preemption, answer, "Cannot evaluate preemption for pod")
        )

    def _timed(self, verb: str, request: Request, answer: Callable[[Request], tuple[Reply, str]]) -> Reply:
        """Return the reply of a verb, and note its time and outcome."""
        started, outcome = perf_counter(), _ERROR
        try:
            reply, outcome = answer(request)
        finally:
            self._meter.answered(verb, outcome, started, request.received)
        return reply

    def _plain(
        self, parse_body: Callable[[bytes], _Asked], answer: Callable[[_Asked], bytes], problem: str
    ) -> Callable[[Request], tuple[Reply, str]]:
        """Serve a response without a field for errors: a failure is an HTTP status."""

        def serve(request: Request) -> tuple[Reply, str]:
            arguments: _Asked | None = None
            try:
                arguments = parse_body(request.body)
                if missing := self._health.missing():
                    return Reply(error_reply(_not_ready(missing)), 503), _ERROR
                return Reply(answer(arguments)), _ANSWERED
            except BadRequest as error:
                return _bad_request(error), _BAD_REQUEST
            except Exception as error:  # noqa: BLE001 - the outer runner: a failure for one pod affects no other
                self._log_error(problem, arguments, error)
                return Reply(error_reply(f"headroom-scheduler: {_brief(error)}"), _status(error)), _ERROR

        return serve

    def _log_error(self, what: str, arguments: Arguments | Preemption | None, error: Exception) -> None:
        """A line per pod; where it happened, too, for an error of ours that is not the same as the last one."""
        line = _brief(error)
        repeated = isinstance(error, UnreadablePod) or line == self._last_error
        pod = "" if arguments is None else _named(arguments.pod)
        _LOG.error("%s %s: %s", what, pod, line, exc_info=None if repeated else error)
        self._last_error = line

    # For people and probes

    def healthz(self, request: Request) -> Reply:
        """200 while the extender knows the cluster, 503 with the reasons otherwise; `?verbose` shows every check."""
        problems = self._health.problems()
        if "verbose" in request.query:
            end = "healthz check failed\n" if problems else "healthz check passed\n"
            return Reply.text(self._health.verbose() + end, 503 if problems else 200)
        return _health(problems)

    def readyz(self, _request: Request) -> Reply:
        """200 while requests can be served, also from the cache while the API server is away."""
        return _health(self._health.missing())

    def livez(self, _request: Request) -> Reply:
        """200 while the program runs: a restart while the API server is away would only lose the cache."""
        return _health(())

    def metrics(self, _request: Request) -> Reply:
        return Reply(self._meter.text(), 200, _METRICS)


def _health(problems: Sequence[str]) -> Reply:
    return Reply.text("".join(f"{line}\n" for line in problems or ["ok"]), 503 if problems else 200)


def _bad_request(error: BadRequest, full_nodes: int = 400) -> Reply:
    _LOG.warning("A request was refused: %s", _brief(error))
    status = full_nodes if isinstance(error, FullNodes) else 400
    return Reply(error_reply(f"bad request: {_brief(error)}"), status)


def _not_ready(missing: Sequence[str]) -> str:
    return f"headroom-scheduler does not know the cluster yet: {'; '.join(missing)}"


def _status(error: Exception) -> int:
    """Return the HTTP status of an error: the client's or the server's."""
    return 400 if isinstance(error, UnreadablePod) else 500


def _brief(error: Exception) -> str:
    """A line for an event or a log, however long the value is that it quotes."""
    line = " ".join(str(error).split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ..."


def _named(pod: Any) -> str:  # noqa: ANN401 - Kubernetes JSON
    metadata = pod["metadata"]
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
