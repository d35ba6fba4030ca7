"""A run after the other: list everything once, then watch, reconcile nodes and check deadlines until stopped.

After a failed run, the next one continues with its state; only the watches are restarted.
"""

import asyncio
import itertools
import logging
import random
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headroom.kube import ApiError, ApiServer, ApiUnavailable, paths
from headroom.kube.events import EventRecorder
from headroom.kube.lease import LeaderElector, LeaderSettings, LeaseName, NotLeading
from headroom.runtime.backoff import Backoff
from headroom.runtime.clocks import Elapsed
from headroom.runtime.garbage_collection import run_collector
from manager.context import Context, Run
from manager.handlers import config, node_metric, pods
from manager.handlers.config import ConfigReconciler
from manager.inputs.reading import get_path
from manager.operator import WatchesEnded, operate
from manager.reconcile.queue import NodeQueue
from manager.reconcile.workers import Workers
from manager.settings import LEASE_NAME

if TYPE_CHECKING:
    from manager.handlers.profiles import ProfileKeeper

_LOG: Final = logging.getLogger(__name__)
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_LONG_RUN_SECONDS: Final = 60.0
_LAST_WRITES_SECONDS: Final = 3.0
_ENDING_SECONDS: Final = 5.0
_RESYNC_TICKS: Final = 20
"""Nodes that are due together are reconciled over so many ticks, so that a change need not wait for all of them."""

Json = dict[str, Any]


async def serve(api: ApiServer, context: Context, stop: asyncio.Event) -> None:
    """Run until `stop` is set, again after each failure."""
    backoff, logged = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS), ""
    context.wall = api.server_time  # the local clock may be wrong: reports must not age by it
    events = EventRecorder(api, "headroom-manager")  # one that waits for the API server outlives the run
    tending = asyncio.create_task(run_collector())
    try:
        while not stop.is_set():
            started = context.steady()
            try:
                await _run_once(api, context, events, stop)
            except (ApiError, ApiUnavailable, WatchesEnded) as error:
                context.progress.problem = str(error)
                if str(error) != logged or context.steady() - started > _LONG_RUN_SECONDS:
                    _LOG.warning("Starting over until it works: %s", error)
                logged = str(error)
            except Exception:  # noqa: BLE001 - the outer runner: a bug must not end the manager
                _LOG.exception("Starting over after an error that should not happen; please report it")
            if context.steady() - started > _LONG_RUN_SECONDS:
                backoff.succeeded()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), backoff.failed())
    finally:
        await _end([tending])


async def _run_once(api: ApiServer, context: Context, events: EventRecorder, stop: asyncio.Event) -> None:
    settings = context.settings
    queue = NodeQueue(settings.timing.coalesce_seconds, context.steady)

    def leader_changed() -> None:
        run.requeue_all()
        if profiles is not None:
            profiles.requeue()

    leader = LeaderElector(
        api,
        LeaseName(settings.namespace, LEASE_NAME),
        settings.identity,
        LeaderSettings(enabled=settings.leader_elect),
        context.steady,
        leader_changed,
        Elapsed(),
    )
    writer = api.guarded(leader.may_write_for)
    events.use(writer)
    run = Run(context, writer, queue, leader, events)
    profiles = _profile_keeper(run)
    await config.load(api, context)
    context.progress.config_read = True
    # Nodes come second, so that no NodeMetric seems to be without the Node that it was made for.
    version = await node_metric.read(run)
    await relist(run)
    context.progress.problem, context.progress.leadership = "", lambda: leader.description
    run.requeue_all()
    config_reconciler, workers = ConfigReconciler(run), Workers(run)
    background = [
        pods.follow(run),
        node_metric.follow(run, version),
        _tick(run),
        _keep_config(run, config_reconciler),
        _resync(run, config_reconciler),
        *(workers.work() for _ in range(settings.timing.workers)),
    ]
    if context.webhook is not None:
        background.append(context.webhook.keep_certificate(api, lambda: leader.is_leader, context.wall))
    if profiles is not None:
        background.append(profiles.follow())
    ours = [asyncio.create_task(run) for run in background]
    election, stopping = asyncio.create_task(leader.run()), asyncio.create_task(stop.wait())
    await asyncio.sleep(0)  # they exist before kopf, which otherwise would take them for its own
    watches = asyncio.create_task(_watch(operate(run, api, config_reconciler, stop)))
    try:
        done, _ = await asyncio.wait({*ours, election, stopping, watches}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        if stop.is_set():
            await _hand_over(run, election, ours)
    finally:
        await _end([*ours, election, stopping, watches])


def _profile_keeper(run: Run) -> "ProfileKeeper | None":
    webhook = run.context.webhook
    if webhook is None or not run.context.settings.webhook.profiles_configuration_name:
        return None
    from manager.handlers.profiles import ProfileKeeper  # noqa: PLC0415 - the webhook's modules cost memory

    return ProfileKeeper(run, webhook)


async def _hand_over(run: Run, election: asyncio.Task[None], ours: list[asyncio.Task[None]]) -> None:
    """Let writes that have begun end, begin none, and only then release the Lease."""
    await _end([election])
    run.queue.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WRITES_SECONDS):
            await run.queue.idle()
    await _end(ours)
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WRITES_SECONDS):
            await run.leader.release()


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and give them a few seconds for it."""
    tasks = set(tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        ended, _ = await asyncio.wait(tasks, timeout=_ENDING_SECONDS)
        for task in ended:
            _ = task.cancelled() or task.exception()  # its awaiter has reported it


async def _watch(operating: Coroutine[Any, Any, None]) -> None:
    """Turn any error of kopf into one line; its traceback is of no use."""
    try:
        await operating
    except WatchesEnded:
        raise
    except Exception as error:
        description = (str(error).splitlines() or [""])[0]
        raise WatchesEnded(f"a watch failed: {type(error).__name__}: {description}") from error


async def relist(run: Run) -> None:
    """Read all Nodes, and drop those that are gone.

    kopf misses deletions that happen while its watch is down; this does not.
    """
    cluster, touched = run.context.cluster, set[str]()

    def put_node(node: Json) -> str:
        name = str(get_path(node, "metadata", "name") or "")
        if run.context.unreadable_nodes.attempt(name, node, partial(cluster.put_node, listed=True)):
            touched.add(name)
        return name

    uids = {name: node["metadata"]["uid"] for name, node in cluster.nodes.items()}
    nodes, _ = await run.api.list(paths.NODES, keep=put_node)
    run.context.progress.nodes_listed = True
    for name in uids.keys() - set(nodes):
        cluster.drop_node(name, uids[name])
        touched.add(name)
    run.queue.add_all(touched)


async def _resync(run: Run, config_reconciler: ConfigReconciler) -> None:
    while True:
        await asyncio.sleep(run.context.settings.timing.resync_seconds * random.uniform(0.9, 1.1))  # noqa: S311 - spreads
        try:
            await relist(run)
            await node_metric.read(run)  # one that was deleted while it was written would stay in the cache
            await config_reconciler.refresh()
        except (ApiError, ApiUnavailable) as error:
            _LOG.debug("Listing everything again failed: %s", error)


async def _tick(run: Run) -> None:
    """The one periodic task: deadlines of reports and of pending differences."""
    context, metrics = run.context, run.context.metrics
    while True:
        run.queue.release_due()
        run.queue.add_all(overdue(run))
        metrics.leading.set(run.leader.is_leader)
        metrics.queue.set(len(run.queue))
        metrics.node_metric_defined.set(not context.progress.node_metrics.not_found)
        metrics.known.labels("Node").set(len(context.cluster.nodes))
        metrics.known.labels("NodeMetric").set(len(context.cluster.node_metrics))
        metrics.workloads_dropped.set(context.cluster.workloads.dropped)
        metrics.known.labels("Pod").set(context.cluster.pod_count)
        await asyncio.sleep(context.settings.timing.tick_seconds)


def overdue(run: Run) -> list[str]:
    """Nodes that have not been reconciled for half of their degrade time; some at a time."""
    context, now = run.context, run.context.steady()
    if run.leader.is_standby:
        return []
    names = itertools.chain(context.cluster.nodes, context.cluster.node_metrics)
    due = (name for name in names if context.node_state(name).resync_at <= now and not run.queue.holds(name))
    return list(itertools.islice(due, len(context.cluster.nodes) // _RESYNC_TICKS + 1))


async def _keep_config(run: Run, config_reconciler: ConfigReconciler) -> None:
    logged = ""
    while True:
        try:
            await config_reconciler.reconcile()
            if run.leader.is_leader:
                await run.events.flush()
        except NotLeading:
            pass  # the next leader does it
        except (ApiError, ApiUnavailable) as error:
            if str(error) != logged:
                _LOG.warning("The configuration cannot be stored for the next start: %s", error)
            logged = str(error)
        await asyncio.sleep(run.context.settings.timing.tick_seconds)
