"""Keeps the cache like the cluster: watches Nodes, Pods and NodeMetrics."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from crds import GROUP, VERSION
from kubeapi import ApiServer, Relisted, WatchHealth, list_and_watch, paths
from scheduler_plugins.snapshot.cache import ClusterCache

NODE_METRICS: Final = f"/apis/{GROUP}/{VERSION}/nodemetrics"
"""Path of the NodeMetrics."""
LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that use something or may; the API server says DELETED for one that ends."""

MALFORMED: Final = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError)
"""What reading an object raises whose fields hold something else than they should."""

_READABLE: Final = "does the API server answer, and may we list them?"

_LOG: Final = logging.getLogger(__name__)

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of object that is watched, and where it goes."""

    kind: str
    """What it is called in messages."""
    path: str
    """Path of its collection."""
    selector: str
    """Field selector."""
    hint: str
    """What to look at when it cannot be listed."""
    identity: Callable[[Json], str]
    """What it is known by in the cache."""
    put: Callable[[Json], None]
    """Add or update one."""
    delete: Callable[[str], None]
    """Forget one."""
    retain: Callable[[AbstractSet[str]], None]
    """Forget all others."""
    health: WatchHealth = field(default_factory=WatchHealth)
    """How the watch is doing."""


class ClusterWatch:
    """Feeds a cache from the API server.

    Args:
        api: the session.
        cache: what is fed.
        clock: the present time, for pods that do not say when they were scheduled. [unix s]
    """

    def __init__(self, api: ApiServer, cache: ClusterCache, clock: Callable[[], float]) -> None:
        self._api = api
        self._unreadable: set[str] = set()
        self.sources = (
            Source("Nodes", paths.NODES, "", _READABLE, _name, cache.put_node, cache.delete_node, cache.retain_nodes),
            Source(
                "NodeMetrics",
                NODE_METRICS,
                "",
                f"is the CRD nodemetrics.{GROUP} installed?",
                _name,
                cache.put_node_metric,
                cache.delete_node_metric,
                cache.retain_node_metrics,
            ),
            Source(
                "Pods",
                paths.PODS,
                LIVE_PODS,
                _READABLE,
                _uid,
                lambda pod: cache.put_pod(pod, clock()),
                cache.delete_pod,
                cache.retain_pods,
            ),
        )
        """What is watched."""

    @property
    def synced(self) -> bool:
        """Whether all kinds have been listed at least once."""
        return all(source.health.synced for source in self.sources)

    @property
    def unreadable(self) -> AbstractSet[str]:
        """Objects that could not be understood when they last changed, as "Kind name"."""
        return self._unreadable

    def complaints(self, stale_seconds: float) -> list[str]:
        """What keeps the cache from being trusted, one sentence each; empty when all is well.

        Args:
            stale_seconds: how long the API server may be silent. [s]
        """
        found = []
        for source in self.sources:
            if not source.health.synced:
                found.append(f"{source.kind} have not been listed yet ({source.hint})")
            elif (silent := _silence(source.health)) > stale_seconds:
                found.append(f"{source.kind}: the API server has not been heard for {silent:.0f} s")
        return found

    async def run(self) -> None:
        """Watch until cancelled. The nodes come first, then what is on them."""
        async with asyncio.TaskGroup() as group:
            for source in self.sources:
                group.create_task(self._follow(source), name=f"watch {source.kind}")

    async def _follow(self, source: Source) -> None:
        async for change in list_and_watch(self._api, source.path, source.selector, health=source.health):
            if isinstance(change, Relisted):
                source.retain({source.identity(item) for item in change.items})
                await self._put_all(source, change.items)
            elif change.type == "DELETED":
                source.delete(source.identity(change.object))
            else:
                self._put(source, change.object)

    async def _put_all(self, source: Source, items: Iterable[Json]) -> None:
        """Take a whole list, a little at a time: requests are answered in between."""
        for count, item in enumerate(items):
            self._put(source, item)
            if count % 200 == 199:  # noqa: PLR2004 - some milliseconds of work
                await asyncio.sleep(0)

    def _put(self, source: Source, item: Json) -> None:
        """Take one object. One that cannot be understood is told once; what was known of it stays."""
        name = f"{source.kind.removesuffix('s')} {(item.get('metadata') or {}).get('name')}"
        try:
            source.put(item)
        except MALFORMED as error:
            if name not in self._unreadable:
                _LOG.warning("%s cannot be understood, its last good state counts: %s", name, error)
            self._unreadable.add(name)
        else:
            self._unreadable.discard(name)


def _silence(health: WatchHealth) -> float:
    return time.monotonic() - health.last_contact if health.last_contact is not None else float("inf")


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _uid(item: Json) -> str:
    return str(item["metadata"]["uid"])
