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
from crds.shape import check_node, check_node_metric, check_placed_pod
from kubeapi import ApiServer, Relisted, WatchTiming, list_and_watch, paths
from kubeapi.unreadable import TooLarge, Unreadable, reason
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.pod import bounded
from scheduler_plugins.snapshot.source import Source, by_name, by_uid

NODE_METRICS: Final = f"/apis/{GROUP}/{VERSION}/nodemetrics"
"""Path of the NodeMetrics."""
LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that use something or may; the API server says DELETED for one that ends."""

_MOST_OF_A_NODE: Final = 1000
_READABLE: Final = "does the API server answer, and may we list them?"

_LOG: Final = logging.getLogger(__name__)

Json = Mapping[str, Any]
_Taken = TypeVar("_Taken")


def refusal_of_pod(pod: Json, error: Exception) -> str:
    """What is wrong with a pod that could not be read: the field that has no such value, where that is known."""
    return reason(pod, error, check_placed_pod)


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
                _within_bounds(_each(*(one.put_node for one in kept), cache.put_node), _bounded_node),
                _each(*(one.delete_node for one in kept), cache.delete_node),
                _each(*(one.retain_nodes for one in kept), cache.retain_nodes),
                check=check_node,
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
                check=check_node_metric,
            ),
            Source(
                "Pods",
                paths.PODS,
                LIVE_PODS,
                _READABLE,
                by_uid,
                _within_bounds(
                    _each(*(one.put_pod for one in followers), lambda pod: cache.put_pod(pod, clock())), bounded
                ),
                _each(*(one.delete_pod for one in followers), cache.delete_pod),
                _each(*(one.retain_pods for one in followers), cache.retain_pods),
                check=check_placed_pod,
            ),
            *(source for one in kept for source in one.sources()),
        )
        """What is watched."""
        self._unreadable = {
            source.kind: Unreadable(source.kind.removesuffix("s"), source.check) for source in self.sources
        }

    @property
    def synced(self) -> bool:
        """Whether all kinds have been listed at least once."""
        return all(source.health.synced for source in self.sources)

    @property
    def unreadable(self) -> AbstractSet[str]:
        """Objects that could not be understood when they last changed, as "Kind name" or "Kind namespace/name"."""
        named = (name for each in self._unreadable.values() for name in each.named.values())
        return {*named, *(f"Node {name}" for name in self._cache.failures)}

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
                self._unreadable[source.kind].retain(listed)
                self._settle()
            elif change.type == "DELETED":
                self._attempt(source, change.object, lambda item: source.delete(source.identity(item)))
            else:
                self._attempt(source, change.object, source.put)

    def _take(self, source: Source, item: Json) -> str:
        """Take one object of a list; all that is kept of it here is what it is known by."""
        identity = self._attempt(source, item, source.put)
        if source.path == paths.PODS and not source.health.synced:
            with suppress(Exception):  # the watch has told of it
                self._cache.doubt(item, self._clock())
        return identity

    def _settle(self) -> None:
        """Once everything has been listed, look no more for garbage in it: it is freed without, and a look takes long.

        With 150,000 pods a full collection stops the process for 0.13 s.
        """
        if self.synced and not self._settled:
            self._settled = True
            gc.collect()
            gc.freeze()

    def _attempt(self, source: Source, item: Json, take: Callable[[Json], None]) -> str:
        """Take one object, and what it is known by. Of one that cannot be understood stays what was known of it."""
        try:
            identity = source.identity(item)
        except (KeyError, TypeError):  # the API server lets nothing in without a name and a uid
            identity = ""
        self._unreadable[source.kind].attempt(identity, item, take)
        return identity


def _within_bounds(take: Callable[[Json], None], bound: Callable[[Json], Json]) -> Callable[[Json], None]:
    """The same for objects without what is beyond all use: anybody may write one that takes long to read."""
    return lambda item: take(bound(item))


def _bounded_node(node: Json) -> Json:
    """The Node itself.

    Raises:
        TooLarge: a kubelet, whose own object it is, or who may taint, wrote more than can be read in time.
    """
    for part, name in (("spec", "taints"), ("status", "allocatable")):
        if (size := len((node.get(part) or {}).get(name) or ())) > _MOST_OF_A_NODE:
            raise TooLarge(f"{part}.{name}: {size} items, {_MOST_OF_A_NODE} are the most")
    return node


def _each(*takers: Callable[[_Taken], None]) -> Callable[[_Taken], None]:
    """One function that calls all of these in turn."""
    if len(takers) == 1:
        return takers[0]

    def take(taken: _Taken) -> None:
        troubles = []
        for taker in takers:
            try:
                taker(taken)
            except Exception as error:  # noqa: BLE001 - what one cannot take, the others may
                troubles.append(error)
        if troubles:
            raise troubles[0]

    return take
