"""Keeps the cache like the cluster: watches Nodes, Pods and NodeMetrics."""

import asyncio
import gc
import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from crds import GROUP, VERSION
from crds.codec import CodecError
from crds.shape import check_node, check_pod
from kubeapi import ApiServer, Relisted, WatchTiming, list_and_watch, paths
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.source import Source, by_name, by_uid

NODE_METRICS: Final = f"/apis/{GROUP}/{VERSION}/nodemetrics"
"""Path of the NodeMetrics."""
LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that use something or may; the API server says DELETED for one that ends."""

MALFORMED: Final = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)
"""What reading an object raises whose fields hold something else than they should."""

_READABLE: Final = "does the API server answer, and may we list them?"

_LOG: Final = logging.getLogger(__name__)

Json = Mapping[str, Any]
_Taken = TypeVar("_Taken")


def reason(item: Json, error: Exception, *, pod: bool) -> str:
    """What is wrong with an object that could not be read: the field that has no such value, where that is known.

    Args:
        item: the object.
        error: what reading it raised.
        pod: whether it is a Pod, and not a Node.
    """
    try:
        (check_pod if pod else check_node)(item)
    except CodecError as found:
        return str(found)
    return str(error)


class PodFollower(Protocol):
    """Somebody beside the cache who wants to know what becomes of pods. Called for every change: it must be quick."""

    def put_pod(self, pod: Json) -> None:
        """A pod is there, or has changed."""
        ...

    def delete_pod(self, uid: str) -> None:
        """A pod is gone."""
        ...

    def retain_pods(self, uids: AbstractSet[str]) -> None:
        """There are these pods and no others."""
        ...


class ClusterWatch:
    """Feeds a cache from the API server.

    Args:
        api: the session.
        cache: what is fed.
        clock: the present time, for pods that do not say when they were scheduled. [unix s]
        followers: who else is told of pods, before the cache.
    """

    def __init__(
        self, api: ApiServer, cache: ClusterCache, clock: Callable[[], float], followers: Sequence[PodFollower] = ()
    ) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._unreadable: dict[tuple[str, str], str] = {}
        self._settled = False
        kept = list(cache.kept.values())
        followers = [*kept, *followers]
        self.sources: tuple[Source, ...] = (
            Source(
                "Nodes",
                paths.NODES,
                "",
                _READABLE,
                by_name,
                _each(*(one.put_node for one in kept), cache.put_node),
                _each(*(one.delete_node for one in kept), cache.delete_node),
                _each(*(one.retain_nodes for one in kept), cache.retain_nodes),
            ),
            Source(
                "NodeMetrics",
                NODE_METRICS,
                "",
                f"is the CRD nodemetrics.{GROUP} installed?",
                by_name,
                cache.put_node_metric,
                cache.delete_node_metric,
                cache.retain_node_metrics,
            ),
            Source(
                "Pods",
                paths.PODS,
                LIVE_PODS,
                _READABLE,
                by_uid,
                _each(*(one.put_pod for one in followers), lambda pod: cache.put_pod(pod, clock())),
                _each(*(one.delete_pod for one in followers), cache.delete_pod),
                _each(*(one.retain_pods for one in followers), cache.retain_pods),
            ),
            *(source for one in kept for source in one.sources()),
        )
        """What is watched."""

    @property
    def synced(self) -> bool:
        """Whether all kinds have been listed at least once."""
        return all(source.health.synced for source in self.sources)

    @property
    def unreadable(self) -> AbstractSet[str]:
        """Objects that could not be understood when they last changed, as "Kind name" or "Kind namespace/name"."""
        return {*self._unreadable.values(), *(f"Node {name}" for name in self._cache.failures)}

    def complaints(self, stale_seconds: float) -> list[str]:
        """What keeps the cache from being trusted, one sentence each; empty when all is well.

        Args:
            stale_seconds: how long the API server may be silent. [s]
        """
        return [complaint for source in self.sources if (complaint := source.complaint(stale_seconds))]

    async def run(self) -> None:
        """Watch until cancelled. The nodes come first, then what is on them."""
        async with asyncio.TaskGroup() as group:
            for source in self.sources:
                group.create_task(self._follow(source), name=f"watch {source.kind}")

    async def _follow(self, source: Source) -> None:
        # Listed objects are taken page by page as they arrive: the JSON of 150,000 pods would fill the memory.
        changes = list_and_watch(
            self._api,
            source.path,
            source.selector,
            health=source.health,
            keep=partial(self._take, source),
            timing=WatchTiming(absent_is_empty=source.absent_is_empty),
        )
        async for change in changes:
            if isinstance(change, Relisted):
                listed = set(change.items)
                source.retain(listed)
                for kind, gone in [key for key in self._unreadable if key[0] == source.kind and key[1] not in listed]:
                    del self._unreadable[kind, gone]
                self._settle()
            elif change.type == "DELETED":
                gone = source.identity(change.object)
                source.delete(gone)
                self._unreadable.pop((source.kind, gone), None)
            else:
                self._put(source, change.object)

    def _take(self, source: Source, item: Json) -> str:
        """Take one object of a list; all that is kept of it here is what it is known by."""
        self._put(source, item)
        if source.path == paths.PODS and not source.health.synced:
            with suppress(*MALFORMED):
                self._cache.doubt(item, self._clock())
        return source.identity(item)

    def _settle(self) -> None:
        """Once everything has been listed, look no more for garbage in it: it is freed without, and a look takes long.

        With 150,000 pods a full collection stops the process for 0.13 s.
        """
        if self.synced and not self._settled:
            self._settled = True
            gc.collect()
            gc.freeze()

    def _put(self, source: Source, item: Json) -> None:
        """Take one object. One that cannot be understood is told once; what was known of it stays."""
        key = source.kind, source.identity(item)
        try:
            source.put(item)
        except MALFORMED as error:
            metadata = item["metadata"]
            place = "/".join(str(metadata[part]) for part in ("namespace", "name") if part in metadata)
            name = f"{source.kind.removesuffix('s')} {place}"
            if key not in self._unreadable:
                shaped = source.path in {paths.PODS, paths.NODES}
                why = reason(item, error, pod=source.path == paths.PODS) if shaped else error
                _LOG.warning("%s cannot be understood, its last good state counts: %s", name, why)
            self._unreadable[key] = name
        else:
            self._unreadable.pop(key, None)


def _each(*takers: Callable[[_Taken], None]) -> Callable[[_Taken], None]:
    """One function that calls all of these in turn."""
    if len(takers) == 1:
        return takers[0]

    def take(taken: _Taken) -> None:
        for taker in takers:
            taker(taken)

    return take
