"""Watches that deliver the changes of a test."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from headroom.kube import ApiServer, Changed, Connection, Decode, Relisted, WatchHealth
from headroom.kube.decoding import plain
from scheduler_plugins.snapshot import watch
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.watch import ClusterWatch
from tests.scheduler_plugins.objects import NOW, Json

Change = Relisted | Changed


def watched(cache: ClusterCache) -> ClusterWatch:
    """Return watches of an API server that does not exist."""
    return ClusterWatch(ApiServer(Connection("http://127.0.0.1:1", None, lambda: None), "test"), cache, lambda: NOW)


async def follow(
    cache: ClusterCache, monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, Sequence[Change]]
) -> ClusterWatch:
    """Deliver these changes by path through the watches, and return after the last one."""

    async def brought(
        _api: ApiServer,
        path: str,
        _selector: str,
        *,
        health: WatchHealth,
        keep: Callable[[Json], str],
        decode: Decode | None,
        **_: object,
    ) -> AsyncIterator[Change]:
        def sent(item: Json) -> Any:  # noqa: ANN401 - the result of `decode`
            return (decode or plain)(msgspec.Raw(json.dumps(item).encode()))

        health.responded()
        for change in changes.get(path, ()):
            if isinstance(change, Relisted):
                listed = [keep(sent(item)) for item in change.items]
                health.synced = True
                yield Relisted(listed)
            else:
                yield Changed(change.type, sent(change.object))
        health.synced = True

    monkeypatch.setattr(watch, "list_and_watch", brought)
    following = watched(cache)
    await following.run()
    return following
