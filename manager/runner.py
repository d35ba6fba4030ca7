"""The order of things: read everything once, then follow changes, look at nodes and watch the clock until told to stop.

When a run breaks off, the next one begins with what is known; nothing is forgotten but the watches.
"""

import asyncio
import logging
import random
from collections.abc import Coroutine
from typing import Any, Final

from crds.node_metric import GROUP, PLURAL, VERSION
from kubeapi import ApiError, ApiServer, ApiUnavailable, Connection, paths
from kubeapi.events import EventRecorder
from manager import node_metric
from manager.context import Context, Run
from manager.handlers import config, pods
from manager.handlers.config import ConfigKeeper
from manager.handlers.mid_resource import look_at
from manager.leader import Leadership
from manager.operator import operate
from manager.queue import NodeQueue

_LOG: Final = logging.getLogger(__name__)
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_LONG_RUN_SECONDS: Final = 60.0
_CRD_POLL_SECONDS: Final = 2.0
_COMPLAIN_AGAIN_SECONDS: Final = 60.0

Json = dict[str, Any]


async def serve(api: ApiServer, connection: Connection, context: Context, stop: asyncio.Event) -> None:
    """Run until told to stop, again and again if need be.

    Args:
        api: the session.
        connection: how kopf logs in.
        context: what outlives a run.
        stop: set to end.
    """
    pause = _FIRST_PAUSE_SECONDS
    while not stop.is_set():
        started = context.steady()
        try:
            await _run_once(api, connection, context, stop)
        except (ApiError, ApiUnavailable, _WatchesEnded) as error:
            _LOG.warning("Starting over: %s", error)
        except Exception:  # noqa: BLE001 - the outer runner: a bug must not end the manager
            _LOG.exception("Starting over after an error that should not happen; please report it")
        if context.steady() - started > _LONG_RUN_SECONDS:
            pause = _FIRST_PAUSE_SECONDS
        await _sleep(pause, stop)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


class _WatchesEnded(Exception):  # noqa: N818 - a state of the world: another run follows
    """kopf gave up; one line that says why."""


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass


async def _run_once(api: ApiServer, connection: Connection, context: Context, stop: asyncio.Event) -> None:
    settings = context.settings
    await _await_definition(api, stop)
    if stop.is_set():
        return
    queue = NodeQueue(settings.pace.coalesce_seconds, context.steady)

    def gained() -> None:
        run.everything_changed()

    leader = Leadership(api, settings.namespace, settings.identity, settings.leader, context.steady, gained)
    run = Run(context, api, queue, leader, EventRecorder(api, "headroom-manager"))
    await config.load(api, context)
    await relist(run)
    run.everything_changed()
    keeper = ConfigKeeper(run)
    background = [
        leader.run(),
        pods.follow(run),
        _tick(run),
        _keep_config(run, keeper),
        _resync(run, keeper),
        *(_work(run) for _ in range(settings.pace.workers)),
    ]
    if context.webhook is not None:
        background.append(context.webhook.keep_certificate(api, lambda: leader.leads, context.wall))
    ours = [asyncio.create_task(each) for each in background]
    await asyncio.sleep(0)  # they exist before kopf, which otherwise would take them for its own
    watches = asyncio.create_task(_watch(operate(run, connection, keeper, stop)))
    try:
        done, _ = await asyncio.wait({*ours, watches}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (*ours, watches):
            task.cancel()
        await asyncio.gather(*ours, watches, return_exceptions=True)
        if stop.is_set():
            await leader.release()


async def _watch(operating: Coroutine[Any, Any, None]) -> None:
    """Whatever kopf gives up with is said in one line; its own traceback helps nobody."""
    try:
        await operating
    except Exception as error:
        words = (str(error).splitlines() or [""])[0]
        raise _WatchesEnded(f"a watch failed: {type(error).__name__}: {words}") from error


async def _await_definition(api: ApiServer, stop: asyncio.Event) -> None:
    """Wait until the API server knows NodeMetrics: kopf would never notice one that comes later."""
    told = False
    while not stop.is_set():
        try:
            known = await api.get(f"/apis/{GROUP}/{VERSION}")
            if any(resource.get("name") == PLURAL for resource in known.get("resources") or ()):
                return
        except ApiError as error:
            if not error.not_found:
                raise
        if not told:
            _LOG.warning("The API server does not know NodeMetric: install Headroom's CRDs; waiting for them")
            told = True
        await _sleep(_CRD_POLL_SECONDS, stop)


async def relist(run: Run) -> None:
    """Read all Nodes and NodeMetrics, and forget those that are gone.

    kopf tells of no deletion that happened while its watch was down; this does.

    Raises:
        ApiError: the API server refuses.
        ApiUnavailable: it is away.
    """
    cluster, touched = run.context.cluster, set[str]()

    def put_node(node: Json) -> str:
        name = str(node["metadata"]["name"])
        if cluster.put_node(node, listed=True):
            touched.add(name)
        return name

    def put_node_metric(metric: Json) -> str:
        name = str(metric["metadata"]["name"])
        if cluster.put_node_metric(metric, run.context.steady(), listed=True):
            touched.add(name)
        return name

    known_nodes, known_metrics = set(cluster.nodes), set(cluster.node_metrics)
    # Nodes come second, so that no NodeMetric seems to be without the Node that it was made for.
    metrics, _ = await run.api.list(node_metric.COLLECTION, keep=put_node_metric)
    nodes, _ = await run.api.list(paths.NODES, keep=put_node)
    for name in known_metrics.difference(metrics):
        cluster.drop_node_metric(name)
        touched.add(name)
    for name in known_nodes.difference(nodes):
        cluster.drop_node(name)
        touched.add(name)
    run.queue.add_all(touched)


async def _resync(run: Run, keeper: ConfigKeeper) -> None:
    while True:
        await asyncio.sleep(run.context.settings.pace.resync_seconds * random.uniform(0.9, 1.1))  # noqa: S311 - spreads
        try:
            await relist(run)
            await keeper.refresh()
        except (ApiError, ApiUnavailable) as error:
            _LOG.debug("Listing everything again failed: %s", error)


async def _tick(run: Run) -> None:
    """The one periodic task: deadlines of reports and of differences that wait."""
    context, telemetry = run.context, run.context.telemetry
    while True:
        run.queue.release_due()
        telemetry.leading.set(run.leader.leads)
        telemetry.queue.set(len(run.queue))
        telemetry.known.labels("Node").set(len(context.cluster.nodes))
        telemetry.known.labels("NodeMetric").set(len(context.cluster.node_metrics))
        telemetry.known.labels("Pod").set(context.cluster.pod_count)
        await asyncio.sleep(context.settings.pace.tick_seconds)


async def _keep_config(run: Run, keeper: ConfigKeeper) -> None:
    told = ""
    while True:
        try:
            await keeper.catch_up()
        except (ApiError, ApiUnavailable) as error:
            if str(error) != told:
                _LOG.warning("The configuration cannot be kept for the next start: %s", error)
            told = str(error)
        await asyncio.sleep(run.context.settings.pace.tick_seconds)


async def _work(run: Run) -> None:
    """Look at one node after the other, and again later at those where a write failed."""
    context = run.context
    while True:
        name = await run.queue.take()
        started = context.steady()
        memory = context.memory(name)
        try:
            await look_at(run, name)
            memory.failures = 0
        except (ApiError, ApiUnavailable) as error:
            memory.failures += 1
            _complain(run, name, error)
            run.queue.add_at(name, context.steady() + _retry_pause(run, memory.failures))
        except Exception:  # noqa: BLE001 - the outer runner: what one node has, however odd, must not stop the others
            memory.failures += 1
            if memory.failures == 1:
                _LOG.exception("Node %s: an error that should not happen, trying again; please report it", name)
            run.queue.add_at(name, context.steady() + _retry_pause(run, memory.failures))
        finally:
            run.queue.done(name)
            context.telemetry.reconcile_seconds.observe(context.steady() - started)


def _retry_pause(run: Run, failures: int) -> float:
    pace = run.context.settings.pace
    ceiling = min(pace.longest_retry_seconds, pace.first_retry_seconds * 2.0 ** min(failures - 1, 20))
    return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - it spreads retries


def _complain(run: Run, name: str, error: ApiError | ApiUnavailable) -> None:
    """One line per kind of trouble and minute, not one per node."""
    context = run.context
    context.telemetry.writes.labels("any", "failed").inc()
    now, kind = context.steady(), type(error).__name__
    if now - context.complained.get(kind, float("-inf")) >= _COMPLAIN_AGAIN_SECONDS:
        context.complained[kind] = now
        _LOG.warning("Node %s: a write failed, trying again (others may be affected): %s", name, error)
