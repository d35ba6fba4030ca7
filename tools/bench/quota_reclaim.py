"""Time from unschedulable to bound on evicted pods' resources, on a dev cluster with kwok nodes.

All GPUs of the nodes are in use: by a namespace that borrows, or, for comparison, by pods of low priority that
kube-scheduler's own preemption evicts.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, Final

from tools.bench.costs import spread
from tools.bench.quota_objects import GPU
from tools.bench.rows import ROOT, Row
from tools.bench.scheduler_parts import SHORTLIST, Mode, scheduler_name, start_extender, start_kube_scheduler
from tools.devcluster import Cluster, NodeTemplate
from tools.devcluster.api import ApiClient, ApiError
from tools.devcluster.commands import DevClusterError

GPUS: Final = 4  # of a node
LENDER, BORROWER, PLAIN = "lender", "borrower", "plain"
PRIORITY: Final = "bench-high"
OWN: Final = "default-scheduler"
QUOTAS: Final = "/apis/scheduling.x-k8s.io/v1alpha1"
GRACE_SECONDS: Final = 30  # kwok's pods end at once
PATIENCE_SECONDS: Final = 120.0

Json = dict[str, Any]


def part(*, quick: bool = False) -> Iterator[Row]:
    """Measure our waits beside those of kube-scheduler's own preemption, on the same cluster.

    Raises:
        DevClusterError: The cluster did not start, or pods were not bound.
    """
    nodes, single, several = (5, 3, 4) if quick else (100, 100, 50)
    with Cluster(say=lambda _: None) as cluster:
        _prepare(cluster, nodes)
        extender = start_extender(cluster, Mode(SHORTLIST))
        scheduler = start_kube_scheduler(cluster, Mode(SHORTLIST), extender.url)
        try:
            _fill(cluster, BORROWER, LENDER, nodes)
            ours = _waits(cluster, LENDER, (single, several), scheduler_name(), {})
        finally:
            scheduler.process.stop()
            extender.process.stop()
        _fill(cluster, PLAIN, PLAIN, nodes)
        waits = _waits(cluster, PLAIN, (single, several), OWN, {"priorityClassName": PRIORITY})
    size = f"{nodes:,} nodes with {GPUS} GPUs each in use"
    for what, waited, beside in zip(("one pod after another", f"{several} pods at once"), ours, waits, strict=True):
        ratio = f"; {median(waited) / median(beside):.1f} x its" if waited and beside else ""
        reference = f"kube-scheduler's own preemption: {_spread(beside)}"
        yield Row(f"unschedulable to bound, {what}, {size}", f"{_spread(waited)}{ratio}", reference=reference)


def _spread(seconds: Sequence[float]) -> str:
    return spread(seconds) if seconds else "none was refused first"


def _prepare(cluster: Cluster, nodes: int) -> None:
    """Make two pools of nodes with GPUs, a namespace that lends and one that borrows, and a high priority."""
    for kind in ("node_metric", "elastic_quota"):
        cluster.define(ROOT / "crds" / f"{kind}.yaml")
    for pool in (LENDER, PLAIN):
        for name in cluster.kwok.add(nodes, NodeTemplate(labels={"pool": pool}), prefix=pool):
            amounts = {GPU: f"{GPUS}"}
            status = {"status": {"capacity": amounts, "allocatable": amounts}}
            cluster.api.merge(f"/api/v1/nodes/{name}/status", status)
    for namespace in (LENDER, BORROWER, PLAIN):
        cluster.create_namespace(namespace)
    least = {"cpu": "10k", "memory": "100Ti", GPU: f"{nodes * GPUS // 2}"}
    spec = {"min": least, "max": {GPU: f"{nodes * GPUS}"}}
    quota = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": "quota"}}
    for namespace in (LENDER, BORROWER):
        cluster.api.create_all([(f"{QUOTAS}/namespaces/{namespace}/elasticquotas", {**quota, "spec": spec})])
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": PRIORITY}}
    cluster.api.create_all([("/apis/scheduling.k8s.io/v1/priorityclasses", {**priority, "value": 1000})])


def _pod(name: str, pool: str, scheduler: str, **spec: Any) -> Json:  # noqa: ANN401 - fields of a PodSpec
    """Return a pod with one GPU."""
    amounts = {"cpu": "100m", "memory": "128Mi", GPU: "1"}
    container = {"name": "main", "image": "localhost/pause:dev"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "nodeSelector": {"pool": pool},
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "containers": [{**container, "resources": {"requests": amounts, "limits": {GPU: "1"}}}],
            **spec,
        },
    }


def _fill(cluster: Cluster, namespace: str, pool: str, nodes: int) -> None:
    """Use all GPUs of a pool."""
    path, names = f"/api/v1/namespaces/{namespace}/pods", [name for name in cluster.kwok.names if name.startswith(pool)]
    pods = (_pod(f"there-{number}", pool, OWN, nodeName=names[number % nodes]) for number in range(nodes * GPUS))
    cluster.api.create_all((path, pod) for pod in pods)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(pod["status"]["phase"] != "Running" for pod in cluster.api.get(path)["items"]):
        if time.monotonic() > deadline:
            raise DevClusterError(f"the pods of {namespace} do not run")
        time.sleep(0.5)


def _waits(cluster: Cluster, pool: str, counts: tuple[int, int], scheduler: str, spec: Json) -> list[list[float]]:
    """Pods one after another, then many at the same time, in the namespace of a pool. [s]"""
    path, waits = f"/api/v1/namespaces/{pool}/pods", _Waits(cluster.api, pool)
    single, several = (
        [f"{kind}-{number}" for number in range(count)] for kind, count in zip("ab", counts, strict=True)
    )
    for name in single:
        cluster.api.create_all([(path, _pod(name, pool, scheduler, **spec))])
        waits.wait([name])
    cluster.api.create_all((path, _pod(name, pool, scheduler, **spec)) for name in several)
    waits.wait(several)
    return [waits.seconds(single), waits.seconds(several)]


class _Waits:
    """Follows when the pods of a namespace are first refused and when they are bound, by a watch."""

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self._refused: dict[str, float] = {}  # by name [s of a clock that never jumps]
        self._bound: dict[str, float] = {}
        self._changed = threading.Condition()
        changes = api.watch(f"/api/v1/namespaces/{namespace}/pods")
        next(changes)  # what happens from here on is seen
        threading.Thread(target=self._follow, args=(changes,), daemon=True).start()

    def wait(self, names: Sequence[str]) -> None:
        """Wait until all of these are bound.

        Raises:
            DevClusterError: They are not in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._bound.keys() >= set(names), PATIENCE_SECONDS):
                late = sorted(set(names) - self._bound.keys())
                raise DevClusterError(f"{len(late)} of {len(names)} pods were not bound in time: {late[:3]}")

    def seconds(self, names: Sequence[str]) -> list[float]:
        """Return the times from refusal to binding, of pods that were refused at all. [s]"""
        return [self._bound[name] - self._refused[name] for name in names if name in self._refused]

    def _follow(self, changes: Iterator[tuple[str, Json]]) -> None:
        try:
            for _, pod in changes:
                now, name = time.monotonic(), pod["metadata"]["name"]
                with self._changed:
                    if pod["spec"].get("nodeName"):
                        self._bound.setdefault(name, now)
                    elif any(
                        condition.get("reason") == "Unschedulable"
                        for condition in pod["status"].get("conditions") or ()
                    ):
                        self._refused.setdefault(name, now)
                    self._changed.notify_all()
        except (OSError, ApiError):
            return  # waiting ends by its time
