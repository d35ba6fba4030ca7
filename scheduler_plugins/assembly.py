"""The composition root: settings -> cache, plugins, server, watches, and what runs in the background."""

import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from kubeapi import ApiServer
from scheduler_plugins.extender.debug import NodePage
from scheduler_plugins.extender.health import Health, of_watches, silence
from scheduler_plugins.extender.server import Server
from scheduler_plugins.extender.service import Extender
from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.settings import Settings
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.watch import ClusterWatch
from scheduler_plugins.telemetry import Telemetry
from scheduler_plugins.waking.metrics import WakingMetrics
from scheduler_plugins.waking.part import Waking


@dataclass(frozen=True, slots=True)
class Parts:
    """The extender, put together."""

    cache: ClusterCache
    """The cluster."""
    watch: ClusterWatch
    """What feeds it."""
    health: Health
    """How it is."""
    server: Server
    """What kube-scheduler talks to."""
    background: Mapping[str, Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=dict)
    """What else runs until the end, by name; whatever fails in one is its own to survive."""


def assemble(settings: Settings, api: ApiServer) -> Parts:
    """Put the parts together; nothing runs yet."""
    profile, telemetry = settings.profile, Telemetry()
    plugins = {part.name: part.plugin for part in profile.enabled}
    cache = ClusterCache(profile.load_rules, plugins, profile.in_flight_seconds)
    waking = Waking(profile.waking, cache, Cycle(profile.enabled), api, telemetry.part(WakingMetrics))
    watch = ClusterWatch(api, cache, time.time, [waking])
    cycle = Cycle(profile.enabled, telemetry.observe_plugin)
    extender = Extender(cache, cycle, profile.answering, time.time, np.random.default_rng(), waking.refused)
    telemetry.watch("nodes", "Nodes that are known.", lambda: len(cache.nodes))
    telemetry.watch("pods_in_flight", "Pods answered for whose binding was not seen.", lambda: len(cache.in_flight))
    telemetry.watch("unreadable_objects", "Objects that could not be understood.", lambda: len(watch.unreadable))

    telemetry.watch_each(
        "watch_silence_seconds",
        "Time since the API server was last heard about a kind of object. [s]",
        "kind",
        {source.kind: partial(silence, source) for source in watch.sources},
    )
    telemetry.watch(
        "snapshot_age_seconds",
        "How old the oldest part of the snapshot may be. [s]",
        lambda: max(map(silence, watch.sources)),
    )
    health = of_watches(watch, settings.stale_seconds)
    return Parts(cache, watch, health, Server(extender, health, telemetry, NodePage(cache, time.time)), waking.background)
