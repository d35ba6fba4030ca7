"""Keeps the cache like the cluster: watches Nodes, Pods and NodeMetrics."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from crds import GROUP, VERSION
from headroom.cluster.shape import check_node, check_node_metric
from headroom.cluster.typed_pod import decoded, try_decode_pod
from headroom.kube import ApiServer, Relisted, WatchTiming, list_and_watch, paths
from headroom.kube.time_slices import SLICE, in_slices
from headroom.kube.unreadable_objects import TooLarge, Unreadable
from headroom.runtime import garbage_collection
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.source import Source, by_name, by_uid

NODE_METRICS: Final = f"/apis/{GROUP}/{VERSION}/nodemetrics"  # path of the NodeMetrics
LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that use resources or may; the API server sends DELETED for one that ends."""

_MOST_OF_A_NODE: Final = 1000
_GATHER_SECONDS: Final = 0.05
"""The longest wait of a change after another of its kind; until then a bound pod counts as in flight. [s]"""
_GATHER_NODES: Final = 1000  # with fewer nodes changes do not wait: there a pod in flight takes more of the cluster
_READABLE: Final = "does the API server answer, and may we list them?"

_LOG: Final = logging.getLogger(__name__)

Json = Mapping[str, Any]
_Taken = TypeVar("_Taken")


class PodFollower(Protocol):
    """Receives pod events after the cache. Called for every change: it must be quick."""

    def put_pod(self, pod: Json) -> None:
        """A pod is there, or has changed."""

    def delete_pod(self, uid: str) -> None:
        """A pod is gone."""


class ClusterWatch:
    """Feeds a cache from the API server."""

    def __init__(
        self,
        api: ApiServer,
        cache: ClusterCache,
        clock: Callable[[], float],
        followers: Sequence[PodFollower] = (),
        pods_listed: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._pods_listed = pods_listed
        self.preparing = False  # whether the nodes' first records are being built
        self.prepared: Final = asyncio.Event()  # set once they are built, after all kinds have been listed
        self.sources: tuple[Source, ...] = (
            Source(
                "Nodes",
                paths.NODES,
                "",
                _READABLE,
                by_name,
                _put_bounded(cache.put_node),
                cache.delete_node,
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
                check=check_node_metric,
            ),
            Source(
                "Pods",
                paths.PODS,
                LIVE_PODS,
                _READABLE,
                by_uid,
                _decoded(_each(lambda pod: cache.put_pod(pod, clock()), *(follower.put_pod for follower in followers))),
                _each(cache.delete_pod, *(follower.delete_pod for follower in followers)),
                decode=try_decode_pod,
            ),
            *(source for state in cache.plugin_states.values() for source in state.sources()),
        )
        """The watched kinds."""
        self._known: dict[str, set[str]] = {source.kind: set() for source in self.sources}
        self._unreadable = {
            source.kind: Unreadable(source.kind.removesuffix("s"), source.check) for source in self.sources
        }

    @property
    def synced(self) -> bool:
        return all(source.health.synced for source in self.sources)

    @property
    def unreadable(self) -> AbstractSet[str]:
        """Objects that could not be understood when they last changed, as "Kind name" or "Kind namespace/name"."""
        named = (name for kind in self._unreadable.values() for name in kind.named.values())
        return {*named, *(f"Node {name}" for name in self._cache.failures)}

    def problems(self, stale_seconds: float) -> list[str]:
        """Return the reasons why the cache is not up to date, one sentence each; empty when it is."""
        return [problem_of for source in self.sources if (problem_of := source.problem_of(stale_seconds))]

    async def run(self) -> None:
        """Watch until cancelled. The nodes come first, then their pods and reports."""
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
            timing=WatchTiming(gather=self._gather, absent_is_empty=source.absent_is_empty),
            decode=source.decode,
        )
        async for change in changes:
            if isinstance(change, Relisted):
                listed, known = set(change.items), self._known[source.kind]
                self._unreadable[source.kind].retain(listed)
                if source.path == paths.PODS:
                    self._pods_listed()
                await in_slices(known - listed, partial(self._drop, source), [])
                known &= listed
                await self._settle()
                continue
            if change.type == "DELETED":
                identity = self._attempt(source, change.object, lambda item: source.delete(source.identity(item)))
                self._known[source.kind].discard(identity)
            else:
                self._attempt(source, change.object, source.put)
            self._write_records()

    def _gather(self) -> float:
        """Return how long changes may wait for others. [s]"""
        return _GATHER_SECONDS if len(self._cache.nodes) >= _GATHER_NODES else 0.0

    def _take(self, source: Source, item: Json) -> str:
        """Handle an object of a list, and return its key."""
        identity = self._attempt(source, item, source.put)
        if source.path == paths.PODS and not source.health.synced:
            self._cache.reserve_unconfirmed(identity, self._clock())
        self._write_records(beyond=SLICE)
        return identity

    def _write_records(self, beyond: int = 0) -> None:
        """Build the records of changed nodes now, so that no decision waits for them; so many nodes may wait."""
        if self.prepared.is_set():
            self._cache.write_some(beyond)

    def _drop(self, source: Source, identity: str) -> None:
        """Forget one that a list has left out; the others go, too, where one fails."""
        try:
            source.delete(identity)
            self._write_records(beyond=SLICE)
        except Exception:  # noqa: BLE001 - and the watch goes on
            _LOG.exception("One of the %s that are gone, %s, could not be forgotten", source.kind, identity)

    async def _settle(self) -> None:
        """After all kinds have been listed, build the nodes' records. The heap has no garbage then."""
        if self.synced and not (self.preparing or self.prepared.is_set()):
            self.preparing = True
            while self._cache.write_some():  # noqa: ASYNC110 - it waits for nothing
                await asyncio.sleep(0)
            self.preparing = False
            garbage_collection.reset_baseline()
            self.prepared.set()

    def _attempt(self, source: Source, item: Json, take: Callable[[Json], None]) -> str:
        """Handle an object, and return its key. A malformed one keeps its former state."""
        try:
            identity = source.identity(item)
        except (KeyError, TypeError):  # the API server lets nothing in without a name and a uid
            identity = ""
        self._known[source.kind].add(identity)
        self._unreadable[source.kind].attempt(identity, item, take)
        return identity


def _decoded(put: Callable[[Json], None]) -> Callable[[Json], None]:
    """Decode a pod again that could not be decoded, where the error names it and stops no other."""
    return lambda item: put(decoded(item))


def _put_bounded(put: Callable[[Json], None]) -> Callable[[Json], None]:
    """Refuse a Node with more images or taints than can be read in time."""

    def take(node: Json) -> None:
        for part, name in (("spec", "taints"), ("status", "allocatable")):
            if (size := len((node.get(part) or {}).get(name) or ())) > _MOST_OF_A_NODE:
                raise TooLarge(f"{part}.{name}: {size} items, {_MOST_OF_A_NODE} are the most")
        put(node)

    return take


def _each(*takers: Callable[[_Taken], None]) -> Callable[[_Taken], None]:
    """A function that calls all of these in turn."""
    if len(takers) == 1:
        return takers[0]

    def take(taken: _Taken) -> None:
        errors = []
        for taker in takers:
            try:
                taker(taken)
            except Exception as error:  # noqa: BLE001 - what one cannot take, the others may
                errors.append(error)
        if errors:
            raise errors[0]

    return take
