"""The composition root: settings -> cache, plugins, server, watches, and what runs in the background."""

import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from headroom.kube import ApiServer
from headroom.kube.lease import LeaseFollower
from headroom.runtime.garbage_collection import run_collector
from scheduler_plugins.extender.debug import NodePage
from scheduler_plugins.extender.health import Health, of_watches
from scheduler_plugins.extender.server import Server
from scheduler_plugins.extender.service import Extender
from scheduler_plugins.extender.watcher import WatcherPages
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.framework.plugin import SourcedPlugin
from scheduler_plugins.metrics import PLUGINS_SAMPLED, Telemetry
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.plugins.load_aware import LoadAware
from scheduler_plugins.preemption.component import PreemptionComponent
from scheduler_plugins.preemption.metrics import PreemptionMetrics
from scheduler_plugins.profile.model import Profile
from scheduler_plugins.providers.provider import Cluster
from scheduler_plugins.providers.runner import ProviderMetrics, Runner, make
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.status import status_tasks
from scheduler_plugins.quota.status.metrics import QuotaLevels, QuotaMetrics
from scheduler_plugins.requeue.component import RequeueComponent
from scheduler_plugins.requeue.metrics import RequeueMetrics
from scheduler_plugins.settings import Settings
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.source import silence
from scheduler_plugins.snapshot.watch import ClusterWatch, PodFollower


@dataclass(frozen=True, slots=True)
class Parts:
    """The extender, put together."""

    cache: ClusterCache  # the cluster
    watch: ClusterWatch  # what feeds it
    health: Health  # how it is
    server: Server  # what kube-scheduler talks to
    background: Mapping[str, Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=dict)
    """Background tasks by name, which run until the end; each handles its own failures."""


def assemble(settings: Settings, api: ApiServer) -> Parts:
    """Put the parts together; nothing runs yet."""
    profile, telemetry = _with_schedulers(settings), Telemetry()
    plugins = {part.name: part.plugin for part in profile.enabled}
    cache = ClusterCache(profile.load_rules, plugins, profile.in_flight_seconds, time.monotonic)
    now = api.server_time  # reports and pods are stamped by clocks of others
    metrics = telemetry.part(RequeueMetrics)
    requeue_component = RequeueComponent(profile.requeue, cache, Cycle(profile.enabled), api, metrics, now)
    leader = LeaseFollower(api, settings.leader_lease, settings.leader_identity)
    reclaiming = list(_reclaiming(profile.enabled, cache, api, leader, telemetry))
    unschedulable = requeue_component.unschedulable
    followers: list[PodFollower] = [*(controller.pending for controller in reclaiming), unschedulable]
    watch = ClusterWatch(api, cache, now, followers, unschedulable.pods_listed)
    cycle = Cycle(profile.enabled, telemetry.observe_plugin, PLUGINS_SAMPLED)
    extender = Extender(cache, cycle, profile.answering, now, np.random.default_rng(), requeue_component.refused)
    _measure(telemetry, cache, watch)
    watched = of_watches(watch, settings.stale_seconds)
    telemetry.slow.timeout_seconds = settings.http_timeout
    health = _with_reports(watched, profile.enabled, cache, api, telemetry)
    health.checks["requests in time"] = telemetry.slow.problem
    telemetry.watch("leads", "Whether this replica decides for the whole cluster.", lambda: float(leader.leads()))
    health.states["leader"] = lambda: leader.description
    for plugin in reclaiming:
        plugin.trusted = lambda: not watched.problems()
    accounting = [
        status_tasks(kept, api, leader, lambda: not watched.problems(), telemetry.part(QuotaMetrics))
        for kept in cache.plugin_states.values()
        if isinstance(kept, QuotaCluster)
    ]
    levels = telemetry.part(QuotaLevels)
    for kept in cache.plugin_states.values():
        if isinstance(kept, QuotaCluster):
            levels.show(kept.ledger)
    polling = _providers(profile.enabled, cache, api, health, telemetry)
    watcher = WatcherPages(cache, now, lambda: not watched.problems()) if settings.watcher else None
    return Parts(
        cache,
        watch,
        health,
        Server(extender, health, telemetry, NodePage(cache, now), watcher),
        {
            "garbage": run_collector,
            "slow requests": telemetry.slow.run,
            **requeue_component.background,
            **polling,
            "leader": leader.run,
            **{name: run for controller in reclaiming for name, run in controller.background.items()},
            **{name: run for tasks in accounting for name, run in tasks.items()},
        },
    )


def _measure(telemetry: Telemetry, cache: ClusterCache, watch: ClusterWatch) -> None:
    telemetry.watch("nodes", "Nodes that are known.", lambda: len(cache.nodes))
    telemetry.watch("pods_in_flight", "Pods admitted and not observed as bound.", lambda: len(cache.in_flight))
    telemetry.watch("unreadable_objects", "Objects that could not be understood.", lambda: len(watch.unreadable))
    telemetry.watch_each(
        "watch_silence_seconds",
        "Time since the API server's last response about a kind of object. [s]",
        "kind",
        {source.kind: partial(silence, source) for source in watch.sources},
    )
    telemetry.watch(
        "snapshot_age_seconds",
        "How old the oldest part of the snapshot may be. [s]",
        lambda: max(map(silence, watch.sources)),
    )


def _with_reports(
    watched: Health, enabled: Sequence[Enabled], cache: ClusterCache, api: ApiServer, telemetry: Telemetry
) -> Health:
    """Add the checks of /healthz beside the watches, which alone decide whether the pods are up to date."""
    health = Health(watched.required, dict(watched.checks), watched.states)
    for part in enabled:
        if isinstance(plugin := part.plugin, LoadAware):
            health.checks["reports recent"] = partial(_all_expired, plugin, cache, api)
            text = "Nodes without a report of an agent: LoadAwareScheduling passes them unchecked, with score 0."
            telemetry.watch("nodes_without_agent", text, partial(_without_agent, plugin, cache, api))
    return health


def _without_agent(plugin: LoadAware, cache: ClusterCache, api: ApiServer) -> float:
    return plugin.without_agent(cache.freeze(api.server_time()))


def _all_expired(plugin: LoadAware, cache: ClusterCache, api: ApiServer) -> str:
    """Return the problem when every node is refused because of the age of its report."""
    problem = plugin.all_expired(cache.freeze(api.server_time()))
    note = f"; this machine's clock is {api.ahead_seconds:+.0f} s off the API server's, which is the one that counts"
    return f"{problem}{note}" if problem else ""


def _with_schedulers(settings: Settings) -> Profile:
    """Return the profile, with the schedulers whose pods reclaim borrowed resources."""

    def with_schedulers(part: Enabled) -> Enabled:
        plugin = part.plugin
        if not isinstance(plugin, CapacityScheduling) or plugin.reclaim.scheduler_names:
            return part
        reclaim = replace(plugin.reclaim, scheduler_names=settings.reclaim_for)
        return replace(part, plugin=replace(plugin, reclaim=reclaim))

    return replace(settings.profile, enabled=tuple(map(with_schedulers, settings.profile.enabled)))


def _reclaiming(
    enabled: Sequence[Enabled], cache: ClusterCache, api: ApiServer, leader: LeaseFollower, telemetry: Telemetry
) -> Iterator[PreemptionComponent]:
    """Return the reclaim controllers, where the profile has quotas."""
    for part in enabled:
        state = cache.plugin_states.get(part.name)
        if isinstance(part.plugin, CapacityScheduling) and isinstance(state, QuotaCluster):
            yield PreemptionComponent(
                part.plugin.reclaim, part.name, enabled, cache, state, api, leader, telemetry.part(PreemptionMetrics)
            )


def _providers(
    enabled: Sequence[Enabled], cache: ClusterCache, api: ApiServer, health: Health, telemetry: Telemetry
) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
    """Return the runners of the plugins' providers; each shows its state in /healthz?verbose."""
    polling = {}
    for part in enabled:
        spec = part.plugin.provider() if isinstance(part.plugin, SourcedPlugin) else None
        if spec is None:
            continue
        runner = Runner(
            make(spec, Cluster(api, cache.own_allocatable)),
            part.name,
            cache,
            spec.metric_provider.interval_seconds,
            telemetry.part(ProviderMetrics),
        )
        name = f"provider of {part.name}"
        health.states[name] = runner.state
        polling[name] = runner.run
    return polling
