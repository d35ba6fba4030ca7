"""The status of quotas and the check of their ledger, put together as a part of the extender."""

import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from headroom.kube import ApiServer
from headroom.kube.events import EventRecorder
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.status.limits import NamespaceLimits
from scheduler_plugins.quota.status.metrics import QuotaMetrics
from scheduler_plugins.quota.status.verification import LedgerVerifier
from scheduler_plugins.quota.status.writer import Writer

COMPONENT: Final = "headroom-scheduler"  # who speaks in the Events


class Leads(Protocol):
    """Who decides for the whole cluster."""

    def leads(self) -> bool:
        """Whether this replica may write now."""
        ...

    def may_write_for(self) -> float:
        """How long a write that begins now may take. [s]"""
        ...


class QuotaStatus:
    """What is said of quotas. Every replica checks its own ledger; the leader alone writes."""

    def __init__(
        self,
        cluster: QuotaCluster,
        api: ApiServer,
        leader: Leads,
        trusted: Callable[[], bool],
        metrics: QuotaMetrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        guarded = api.guarded(leader.may_write_for)
        recorder = EventRecorder(guarded, COMPONENT, clock)
        writer = Writer(
            cluster,
            NamespaceLimits(api),
            guarded,
            recorder,
            lambda: leader.leads() and trusted(),
            metrics,
            clock,
        )
        checker = LedgerVerifier(cluster, api, trusted, metrics)
        self.background: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "quota status": writer.run,
            "quota check": checker.run,
        }
        """What runs until the end, by name."""
