"""Watches NodeMetrics, also while their definition is missing and after it is back.

They come from our own watch: kopf's would end when the definition goes, and would not notice that it comes.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from headroom.kube import ApiError, Relisted, WatchTiming, list_and_watch
from manager.context import Run
from manager.handlers.node_metric import observe, take
from manager.inputs.reading import get_path
from manager.node_metric import COLLECTION

_TIMING: Final = WatchTiming(longest_delay_seconds=5.0)
"""A definition that came back goes unnoticed for no longer than this."""


async def read(run: Run) -> str:
    """Read all NodeMetrics, and forget those that are gone; where their definition is missing there are none to read.

    Returns:
        The version for `follow` to begin with; empty when nothing could be read.

    Raises:
        ApiError: the API server refuses.
        ApiUnavailable: it is away.
    """
    health, before = run.context.progress.node_metrics, _known(run)
    try:
        listed, version = await run.api.list(COLLECTION, keep=partial(_take, run))
    except ApiError as error:
        health.not_found = error.not_found
        if error.not_found:
            return ""
        raise
    health.synced, health.not_found = True, False
    _drop(run, before, listed)
    return version


async def follow(run: Run, since: str) -> None:
    """Follow the NodeMetrics forever.

    What is known of them is kept while their definition is missing: an API server that starts may not know it yet. So
    the reports grow old, and each node is degraded in its time.
    """
    context = run.context
    changes = list_and_watch(
        run.api,
        COLLECTION,
        health=context.progress.node_metrics,
        timing=_TIMING,
        keep=partial(_take, run),
        since=since,
    )
    async for change in changes:
        if isinstance(change, Relisted):
            _drop(run, _known(run), change.items)
            run.requeue_all()  # without the definition no node got its NodeMetric
        else:
            observe(run, change.type, change.object)


def _take(run: Run, obj: dict[str, Any]) -> str:
    """Cache a listed NodeMetric; the list itself keeps its name alone."""
    name = str(get_path(obj, "metadata", "name") or "")
    if take(run, name, obj, listed=True):
        run.queue.add(name)
    return name


def _known(run: Run) -> dict[str, str]:
    """The uid of each cached NodeMetric, by name."""
    return {name: known.uid for name, known in run.context.cluster.node_metrics.items()}


def _drop(run: Run, before: Mapping[str, str], listed: Iterable[str]) -> None:
    """Drop those that were cached before a list and are not in it, but none that was added since."""
    for name in before.keys() - set(listed):
        run.context.cluster.drop_node_metric(name, before[name])
        run.queue.add(name)
