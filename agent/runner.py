"""The agent as running tasks: ticks, the watches, reports, the write-ahead log. Started and stopped together."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from agent.health import YAML, Page, agent_health, pages
from agent.interval import run_ticker
from agent.process import on_signals
from agent.reporter.publisher import Publisher
from agent.settings import AgentSettings
from agent.standalone.display import Display
from agent.standalone.overview import Sources
from agent.tsdb.schema import StoreError
from agent.wiring import AgentComponents, CannotStart, build, health_details
from headroom import kube
from headroom.runtime import http

log = logging.getLogger(__name__)

_USER_AGENT = "headroom-agent"
_ANSWER_SECONDS = 0.5  # for a response in progress when the agent stops


@dataclass(frozen=True, slots=True)
class Reporting:
    """The sender of reports."""

    run: Coroutine[Any, Any, None]  # reports, until cancelled; ends only with `--once`, or when its output is closed
    problem: Callable[[], str]  # why the last report was not taken; empty when it was
    pages: Mapping[str, Page]  # further pages to serve


async def run(settings: AgentSettings) -> None:
    """Run until SIGTERM or SIGINT, or until the first report with ``--once``.

    Raises CannotStart: something that the agent needs is not there.
    """
    stop = asyncio.Event()
    on_signals(stop, settings.stop_seconds)
    async with _api(settings) as api:
        components = build(settings, api)
        try:
            await _serve(settings, components, _reporting(settings, components, api), stop)
        finally:
            components.pipeline.close(time.time())
    log.info("stopped")


def _reporting(settings: AgentSettings, components: AgentComponents, api: kube.ApiServer | None) -> Reporting:
    if api is not None:
        publisher = Publisher(api, settings.node_name, components.report_builder, settings.report, components.metrics)
        return Reporting(publisher.run(), lambda: publisher.report_status.problem, {})
    display = Display(
        settings.node_name,
        components.report_builder,
        lambda: Sources(
            components.pipeline.store,
            components.pipeline.training.trainer,
            components.pods.pods(),
            components.node.resources,
        ),
        lambda: components.cgroups.layout.description,
        lambda: [f"{step}: {why}" for step, why in sorted(components.pipeline.failing.items())],
        settings.display,
        settings.report.first_after_seconds,
    )
    more = {
        "/nodemetric": Page(display.json, http.JSON),
        "/nodemetric.yaml": Page(display.yaml, YAML),
        "/table": Page(display.text),
    }
    return Reporting(display.run(), lambda: "", more)


async def _serve(
    settings: AgentSettings, components: AgentComponents, reporting: Reporting, stop: asyncio.Event
) -> None:
    facts = health_details(settings, components, reporting.problem)
    health = agent_health(settings, components.pipeline, components.pods, time.monotonic, facts)
    server: http.Served | None = None
    tasks: list[asyncio.Task[Any]] = []
    try:
        if not settings.display.once:
            server = await _listen(pages(components.metrics.render, health, reporting.pages), settings.serve.listen)
        ticks = run_ticker(settings.collect.interval_seconds, components.pipeline.run_once, components.metrics)
        work: list[Coroutine[Any, Any, Any]] = [ticks, _checkpoints(settings, components), reporting.run, stop.wait()]
        watches = [components.pods.run(), components.node.run()]
        tasks = [asyncio.create_task(task) for task in work + watches]
        await _wait_for_first(set(tasks[: len(work)]), set(tasks[len(work) :]))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        reporting.run.close()  # only now: it may be in the middle of a request; without a task it was never begun
        if server is not None:
            await server.close(_ANSWER_SECONDS)


async def _wait_for_first(work: set[asyncio.Task[Any]], watches: set[asyncio.Task[Any]]) -> None:
    """Wait until the work is over: stopped, reported once, or a task failed (then its error is raised).

    A watch that has nothing to follow may end.
    """
    pending = work | watches
    while pending >= work:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _checkpoints(settings: AgentSettings, components: AgentComponents) -> None:
    """Move the write-ahead log into the database, in a thread: a slow disk delays no tick."""
    while True:
        await asyncio.sleep(settings.store.wal_checkpoint_seconds)
        try:
            await asyncio.to_thread(components.pipeline.store.checkpoint)
        except StoreError as error:
            components.metrics.failures.labels("checkpoint", type(error).__name__).inc()
            log.debug("%s", error)


@contextlib.asynccontextmanager
async def _api(settings: AgentSettings) -> AsyncIterator[kube.ApiServer | None]:
    if settings.display.standalone:
        yield None
        return
    try:
        connection = kube.connect(settings.kubeconfig)
    except kube.LoginError as error:
        raise CannotStart(f"{error} Without a cluster, try --standalone.") from error
    async with kube.ApiServer(connection, user_agent=_USER_AGENT) as api:
        yield api


async def _listen(shown: http.Pages, address: tuple[str, int]) -> http.Served:
    host, port = address
    try:
        served = await http.serve(shown, host, port, limits=http.OPEN)
    except OSError as error:
        code = error.errno or 0
        why = os.strerror(code) if code > 0 else error.strerror or error  # below 0: the name of a host
        raise CannotStart(f"cannot listen on {host}:{port}: {why}; give another address with --listen") from error
    log.info("serving /healthz, /readyz and /metrics on %s:%d", host or "*", served.port)
    return served
