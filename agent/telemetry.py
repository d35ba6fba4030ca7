"""The agent's own health: /healthz, /livez and /metrics. Knows numbers and names, nothing of what they mean."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

_NAMESPACE = "headroom_agent"
_STEP_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)

disable_created_metrics()  # type: ignore[no-untyped-call] # when a counter began tells nobody anything, and doubles the page


class Metrics:
    """All metrics of the agent, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.step_seconds = self._histogram("step_seconds", "Time of one step of a tick.", "step")
        self.tick_seconds = self._histogram("tick_seconds", "Time of one whole tick.")
        self.ticks_late = self._counter("ticks_late", "Ticks left out because an earlier one took too long.")
        self.samples = self._counter("samples", "Samples collected.")
        self.gaps = self._counter("gaps", "Values that a tick should have had and has not.", "metric", "reason")
        self.failures = self._counter("failures", "Steps that failed, by kind of error.", "step", "error")
        self.reports = self._counter("reports", "Reports to the API server.", "kind", "result")
        self.report_time = self._gauge("last_report_timestamp_seconds", "When a report was last taken.", "kind")
        self.store_bytes = self._gauge("store_bytes", "Size of the database on disk, its log included.")
        self.store_series = self._gauge("store_series", "Series in the database.")
        self.pods = self._gauge("pods", "Pods on this node; warm ones are predicted from their history.", "state")
        self.usage = self._gauge("usage", "Mean usage in the report window [cores, bytes].", "class", "resource")
        self.peak = self._gauge("peak", "Predicted peak, margin included [cores, bytes].", "class", "resource")
        self.reclaimable = self._gauge("reclaimable", "Prod requests that may be resold [cores, bytes].", "resource")

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(name, what, labels, namespace=_NAMESPACE, registry=self.registry)

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(name, what, labels, namespace=_NAMESPACE, registry=self.registry)

    def _histogram(self, name: str, what: str, *labels: str) -> Histogram:
        return Histogram(name, what, labels, namespace=_NAMESPACE, registry=self.registry, buckets=_STEP_BUCKETS)

    def exposition(self) -> bytes:
        """The metrics as text."""
        return generate_latest(self.registry)


@dataclass(slots=True)
class Health:
    """What /healthz answers from: checks that must hold, and facts that are only told."""

    checks: dict[str, Callable[[], str]] = field(default_factory=dict)
    """By name: answers with what is wrong, or an empty text."""
    facts: dict[str, Callable[[], str]] = field(default_factory=dict)
    """By name: one line for ``?verbose``."""

    def problems(self) -> dict[str, str]:
        """What is wrong now, by check."""
        return {name: problem for name, check in self.checks.items() if (problem := check())}

    def text(self, problems: Mapping[str, str], *, verbose: bool) -> str:
        """The answer's body."""
        lines = [f"[-] {name}: {problem}" for name, problem in problems.items()]
        if verbose:
            lines += [f"[+] {name}" for name in self.checks if name not in problems]
            lines += [f"    {name}: {fact()}" for name, fact in self.facts.items()]
        return "\n".join([*lines, "unhealthy" if problems else "ok"]) + "\n"


class TelemetryServer:
    """The HTTP server for both, and for pages that others add."""

    def __init__(self, metrics: Metrics, health: Health, pages: Mapping[str, Callable[[], str]] | None = None) -> None:
        """Nothing is bound yet.

        Args:
            metrics: What /metrics shows.
            health: What /healthz shows.
            pages: Further paths and their text.
        """
        self._metrics = metrics
        self._health = health
        self._pages = dict(pages or {})
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen.

        Args:
            host: Address; empty for all.
            port: Port; 0 for any that is free.

        Returns:
            The port.

        Raises:
            OSError: It cannot be bound.
        """
        app = web.Application()
        app.add_routes([web.get("/healthz", self._healthz), web.get("/livez", self._livez)])
        app.add_routes([web.get("/metrics", self._show_metrics)])
        app.add_routes([web.get(path, self._page) for path in self._pages])
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host or None, port)
        await site.start()
        addresses = self._runner.addresses
        return int(addresses[0][1]) if addresses else port

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        problems = self._health.problems()
        text = self._health.text(problems, verbose="verbose" in request.query)
        return web.Response(text=text, status=503 if problems else 200)

    async def _livez(self, _request: web.Request) -> web.Response:
        """200 while the program runs: restarting it because the disk is full would only lose what it remembers."""
        return web.Response(text="ok\n")

    async def _show_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _page(self, request: web.Request) -> web.Response:
        return web.Response(text=self._pages[request.path]())
