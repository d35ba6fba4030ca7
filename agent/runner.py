"""The agent as running tasks: ticks, the watches, reports, the write-ahead log. Started and stopped together."""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

import kubeapi
from agent.collectors.base import Machine, resolve
from agent.host.cgroup import CgroupTree, Layout, NoCgroups, detect
from agent.kinds import KUBELET_PORT
from agent.kubelet import KubeletPods, login_to
from agent.learning import Learning
from agent.node_source import ApiNode, MachineNode
from agent.pipeline import Pipeline, node_is_measured
from agent.pod_source import ApiPods, CgroupPods, PodSource
from agent.reporter.publisher import Publisher
from agent.reporter.standalone import Printer
from agent.reports import NodeSource, Reports
from agent.serving import YAML, Health, HttpServer, Page
from agent.settings import AgentSettings
from agent.store.schema import StoreError
from agent.store.tsdb import Tsdb
from agent.telemetry import Metrics

log = logging.getLogger(__name__)

_STALE_TICKS = 15
_STALE_SECONDS = 15.0
_USER_AGENT = "headroom-agent"


class CannotStart(Exception):  # noqa: N818 - what the user sees is the message
    """The agent cannot run here; one line that names the thing and the way out."""


@dataclass(slots=True)
class Parts:
    """The parts of a running agent."""

    pipeline: Pipeline
    """What a tick does."""
    pods: PodSource
    """The pods on this node."""
    node: NodeSource
    """What the node has."""
    reports: Reports
    """What is reported."""
    metrics: Metrics
    """What is counted."""
    cgroups: CgroupTree
    """Where pods are measured."""


async def run(settings: AgentSettings) -> None:
    """Run until SIGTERM or SIGINT, or until the first report with ``--once``.

    Raises:
        CannotStart: Something that the agent needs is not there.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with _api(settings) as api:
        parts = build(settings, api)
        try:
            await _serve(settings, parts, api, stop)
        finally:
            parts.pipeline.close(time.time())
    log.info("stopped")


def build(settings: AgentSettings, api: kubeapi.ApiServer | None) -> Parts:
    """Put the parts together.

    Args:
        settings: Everything.
        api: The API server; None without a cluster.

    Raises:
        CannotStart: The machine cannot be read, or the database cannot be opened.
    """
    _allow_many_files()
    cgroups = CgroupTree(_layout(settings))
    cgroups.locate()
    _say_what_was_found(settings, cgroups)
    machine = Machine(settings.collect.paths, cgroups, time.monotonic, float(os.sysconf("SC_CLK_TCK")))
    metrics = Metrics()
    node = MachineNode(settings.collect.paths) if api is None else ApiNode(api, settings.node_name)
    pods = _pod_source(settings, api, node, cgroups)
    try:
        pipeline = Pipeline(
            resolve(settings.collect.collectors, machine),
            pods,
            lambda: Tsdb.open(settings.database, settings.store),
            lambda store: Learning(store, settings.learn),
            metrics,
        )
    except StoreError as error:
        raise CannotStart(str(error)) from error
    return Parts(pipeline, pods, node, Reports(pipeline, pods, node, metrics), metrics, cgroups)


def _pod_source(
    settings: AgentSettings, api: kubeapi.ApiServer | None, node: ApiNode | MachineNode, cgroups: CgroupTree
) -> PodSource:
    if api is None or settings.collect.pods_from == "cgroups":
        return CgroupPods(cgroups)
    if settings.collect.pods_from == "api":
        return ApiPods(api, settings.node_name)
    login = partial(login_to, kubeconfig=settings.kubeconfig, authority=settings.kubelet.authority)
    try:
        login(settings.kubelet.address or ("localhost", KUBELET_PORT))
    except kubeapi.LoginError as error:
        raise CannotStart(f"--pods-from kubelet: {error}") from error
    return KubeletPods(settings.kubelet, login, lambda: node.kubelet, cgroups)


async def _serve(settings: AgentSettings, parts: Parts, api: kubeapi.ApiServer | None, stop: asyncio.Event) -> None:
    if api is None:
        printer = Printer(settings.node_name, parts.reports, settings.report)
        report, problem, pages = (
            printer.run(once=settings.look.once),
            lambda: "",
            {"/nodemetric": Page(printer.text, YAML)},
        )
    else:
        publisher = Publisher(api, settings.node_name, parts.reports, settings.report, parts.metrics)
        report, problem, pages = publisher.run(), lambda: publisher.reach.problem, {}
    server = HttpServer(parts.metrics.exposition, _health(settings, parts, problem), pages)
    tasks: list[asyncio.Task[None]] = []
    try:
        await _listen(server, settings.serve.listen)
        work = [_ticks(settings, parts), _checkpoints(settings, parts), report, _until(stop)]
        watches = [parts.pods.run(), parts.node.run()]
        tasks = [asyncio.create_task(one) for one in work + watches]
        await _first_end(set(tasks[: len(work)]), set(tasks[len(work) :]))
    finally:
        report.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop()


async def _first_end(work: set[asyncio.Task[None]], watches: set[asyncio.Task[None]]) -> None:
    """Wait until the work is over: asked to stop, reported once, or a task broke (then its error is raised).

    A watch that has nothing to follow may end.
    """
    pending = work | watches
    while pending >= work:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


async def _ticks(settings: AgentSettings, parts: Parts) -> None:
    """A tick every CollectInterval; one that comes too late is left out and counted."""
    interval, clock = settings.collect.interval_seconds, time.monotonic
    due = clock()
    while True:
        parts.pipeline.run_once(time.time())
        due += interval
        behind = clock() - due
        if behind > interval:
            skipped = int(behind / interval)
            parts.metrics.ticks_late.inc(skipped)
            due += skipped * interval
        await asyncio.sleep(max(due - clock(), 0.0))


async def _checkpoints(settings: AgentSettings, parts: Parts) -> None:
    """Move the write-ahead log into the database, in a thread: a slow disk delays no tick."""
    while True:
        await asyncio.sleep(settings.store.wal_checkpoint_seconds)
        try:
            await asyncio.to_thread(parts.pipeline.store.checkpoint)
        except StoreError as error:
            parts.metrics.failures.labels("checkpoint", type(error).__name__).inc()
            log.debug("%s", error)


@contextlib.asynccontextmanager
async def _api(settings: AgentSettings) -> AsyncIterator[kubeapi.ApiServer | None]:
    if settings.look.standalone:
        yield None
        return
    try:
        connection = kubeapi.connect(settings.kubeconfig)
    except kubeapi.LoginError as error:
        raise CannotStart(f"{error} Without a cluster, try --standalone.") from error
    async with kubeapi.ApiServer(connection, user_agent=_USER_AGENT) as api:
        yield api


async def _listen(server: HttpServer, address: tuple[str, int]) -> None:
    host, port = address
    try:
        bound = await server.start(host, port)
    except OSError as error:
        raise CannotStart(
            f"cannot listen on {host}:{port}: {error.strerror or error}; give another address with --listen"
        ) from error
    log.info("serving /healthz and /metrics on %s:%d", host or "*", bound)


def _layout(settings: AgentSettings) -> Layout:
    paths = settings.collect.paths
    try:
        (paths.proc / "stat").read_bytes()
    except OSError as error:
        raise CannotStart(f"cannot read {paths.proc / 'stat'}: {error.strerror}; give the right --host-root") from error
    try:
        return detect(paths.cgroup)
    except NoCgroups as error:
        raise CannotStart(str(error)) from error


def _health(settings: AgentSettings, parts: Parts, report_problem: Callable[[], str]) -> Health:
    longest = max(_STALE_SECONDS, _STALE_TICKS * settings.collect.interval_seconds)

    def ticks() -> str:
        last = parts.pipeline.last_tick
        if last is None:
            return "nothing was stored yet" if parts.pipeline.failing else ""
        age = time.time() - last
        return f"the last tick was stored {age:.0f} s ago" if age > longest else ""

    facts = {
        "node": lambda: settings.node_name,
        "machine": lambda: parts.cgroups.layout.description,
        "pods in": lambda: ", ".join(f"{top.path} ({top.driver})" for top in parts.cgroups.kubepods) or "no kubepods",
        "pods known": lambda: str(len(parts.pods.pods())),
        "node measured": lambda: "yes" if node_is_measured(parts.pipeline.missing) else "no",
        "failing": lambda: "; ".join(f"{step}: {why}" for step, why in parts.pipeline.failing.items()) or "nothing",
        "reports": lambda: report_problem() or "taken",
        "database": lambda: f"{settings.database}, {parts.pipeline.store.size()}",
    }
    return Health(healthy={"ticks": ticks}, facts=facts)


def _say_what_was_found(settings: AgentSettings, cgroups: CgroupTree) -> None:
    found = ", ".join(f"{top.path} ({top.driver} driver)" for top in cgroups.kubepods) or "no kubepods folder yet"
    log.info("node %s: %s; %s", settings.node_name, cgroups.layout.description, found)
    if cgroups.layout.memory is None:
        log.warning("the kernel has no memory controller: pods' memory cannot be measured, and no Mid can be sold")


def _allow_many_files() -> None:
    """A few files are held open per pod: use what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
