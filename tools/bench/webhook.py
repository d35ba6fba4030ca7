"""New pods through a real API server and the manager's webhook: by the rule of Mid namespaces, and without it."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from crds.mid_translation import to_mid
from crds.names import LABEL_TIER
from crds.priority import PriorityBand
from manager.handlers.priority_classes import priority_class
from tests.manager.stage import called_at, rendered
from tools.bench.costs import CpuUsage
from tools.bench.manager import NAMESPACE, PATIENCE_SECONDS, RunningManager
from tools.bench.rows import NONE, Row, short
from tools.devcluster import Cluster
from tools.devcluster.component import free_port
from tools.devcluster.process import wait_until

PODS_PER_SECOND: Final = 50
SECONDS, QUICK_SECONDS = 20.0, 1.0
CONFIGURATION: Final = "headroom-mid-namespaces"
TIERS: Final = {"plain": "", "mid": "mid"}
"""Name of each namespace -> the value of its label."""
_AT_ONCE: Final = 16

Json = dict[str, Any]


def part(*, quick: bool = False) -> Iterator[Row]:
    """Create pods at a fixed rate in both namespaces, without storing them; a row for each figure.

    Raises:
        DevClusterError: a program ended early, or did not get ready; with the end of its log.
    """
    seconds = QUICK_SECONDS if quick else SECONDS
    with Cluster(say=lambda _: None) as cluster, ThreadPoolExecutor(_AT_ONCE) as threads:
        manager = _started(cluster)
        before = CpuUsage.of({"manager": manager.process.pid})
        plain = _created(cluster, threads, "plain", seconds)
        middle = CpuUsage.of({"manager": manager.process.pid})
        mid = _created(cluster, threads, "mid", seconds)
        after = CpuUsage.of({"manager": manager.process.pid})
    idle, busy = middle.since(before)["manager"], after.since(middle)["manager"]
    rate = f"{PODS_PER_SECOND} pods/s"
    for share in (50, 99):
        with_webhook, without = (1000 * float(np.percentile(times, share)) for times in (mid, plain))
        budget = "< 50 ms" if share == 99 else NONE  # noqa: PLR2004 - the percentile of the budget
        measured = f"{short(with_webhook)} ms, {short(without)} ms without webhook"
        yield Row(f"creation of a pod through the webhook, {rate}, p{share}", measured, budget, NONE, with_webhook)
    yield Row("manager, CPU of a review", f"{short(1000 * max(busy - idle, 0.0) / len(mid))} ms")


def _started(cluster: Cluster) -> RunningManager:
    """Start a manager, and wait until the API server changes pods through it."""
    namespaces = [*TIERS.items(), (NAMESPACE, "")]
    for name, tier in namespaces:
        cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {LABEL_TIER: tier}}}
        )
    cluster.apply(priority_class(PriorityBand.MID))
    port = free_port()
    _configure(cluster, port)
    flags = (f"--webhook-listen=127.0.0.1:{port}", f"--webhook-pods-configuration={CONFIGURATION}")
    manager = RunningManager(cluster, flags)
    wait_until(lambda: _is_mid(_create(cluster, "mid")), "the webhook", PATIENCE_SECONDS, [manager.process], 0.2)
    return manager


def _configure(cluster: Cluster, port: int) -> None:
    """Make the chart's configurations, but for the address; the certificate belongs to the one for the config."""
    for template in ("mid-namespaces.yaml", "manager-webhook.yaml"):
        for item in rendered(cluster, NAMESPACE, template):
            if item["kind"].endswith("WebhookConfiguration") and "webhooks" in item:
                cluster.kubectl("create", "-f", "-", stdin=json.dumps(called_at(item, port)))


def _create(cluster: Cluster, namespace: str) -> Json:
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
    containers = [{"name": f"c{number}", "image": "none", "resources": resources} for number in range(3)]
    pod = {"metadata": {"generateName": "p-"}, "spec": {"containers": containers}}
    return cluster.api.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)


def _is_mid(pod: Json) -> bool:
    return pod["spec"].get("priorityClassName") == PriorityBand.MID and to_mid(pod).pod == pod


def _created(cluster: Cluster, threads: ThreadPoolExecutor, namespace: str, seconds: float) -> list[float]:
    """Create pods at the fixed rate; the time of each from its due moment on, and all must be as they should. [s]"""
    began = time.monotonic()

    def create(number: int) -> float:
        due = began + number / PODS_PER_SECOND
        time.sleep(max(0.0, due - time.monotonic()))
        if _is_mid(_create(cluster, namespace)) != (namespace == "mid"):
            raise RuntimeError(f"a pod of namespace {namespace} is of another band")
        return time.monotonic() - due

    return list(threads.map(create, range(int(seconds * PODS_PER_SECOND))))
