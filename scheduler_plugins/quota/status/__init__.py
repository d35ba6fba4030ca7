"""The status of ElasticQuotas: usage and conditions.

Writes to nothing but the status of ElasticQuotas, and Events. Decides nothing: admission never reads a status.
"""

import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from headroom.kube import ApiServer
from headroom.kube.events import EventRecorder
from headroom.kube.lease import LeaseFollower
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.status.metrics import QuotaMetrics
from scheduler_plugins.quota.status.writer import Writer

COMPONENT: Final = "headroom-scheduler"  # the reporting controller of Events


def status_tasks(
    cluster: QuotaCluster, api: ApiServer, leader: LeaseFollower, trusted: Callable[[], bool], metrics: QuotaMetrics
) -> Mapping[str, Callable[[], Coroutine[Any, Any, None]]]:
    """Return the background tasks by name. Only the leader writes."""
    guarded = api.guarded(leader.may_write_for)
    recorder = EventRecorder(guarded, COMPONENT, time.time)
    writer = Writer(cluster, guarded, recorder, lambda: leader.leads() and trusted(), metrics)
    return {"quota status": writer.run}
