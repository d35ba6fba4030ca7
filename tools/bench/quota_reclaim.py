"""`python -m tools.bench.quota_reclaim`: how long an unschedulable pod waits until it is bound where others left.

On a dev cluster with kwok nodes whose GPUs are all in use: by a namespace that borrows, or, for comparison, by pods of
low priority that kube-scheduler's own preemption evicts. Prints a Markdown table.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tools.bench.costs import spread
from tools.bench.quota_objects import GPU
from tools.bench.quota_waits import Waits
from tools.bench.rows import ROOT, Row, text
from tools.bench.scheduler_parts import SHORTLIST, Extender, KubeScheduler, Mode, scheduler_name
from tools.devcluster import Cluster, NodeTemplate
from tools.devcluster.commands import DevClusterError

NODES, GPUS = 100, 4
ONE_BY_ONE, AT_ONCE = 100, 50
LENDER, BORROWER, PLAIN = "lender", "borrower", "plain"
PRIORITY = "bench-high"
OWN = "default-scheduler"
QUOTAS = "/apis/scheduling.x-k8s.io/v1alpha1"
GRACE_SECONDS = 30  # kwok's pods end at once when they are told to

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    nodes: int = NODES
    one_by_one: int = ONE_BY_ONE
    at_once: int = AT_ONCE


QUICK = Plan(5, 3, 4)  # a plan that only shows that everything runs


@dataclass(frozen=True, slots=True)
class Waited:
    """How long pods waited."""

    what: str  # which pods
    seconds: Sequence[float]  # from being unschedulable until bound, of those that were refused at all [s]
    ours: bool  # whether a quota gave them room; else kube-scheduler's own preemption


def measure(plan: Plan) -> Iterator[Waited]:
    """Ours first, then kube-scheduler's own preemption, on the same cluster.

    Raises:
        DevClusterError: the cluster did not start, or pods were not bound.
    """
    with Cluster(say=lambda _: None) as cluster:
        for kind in ("node_metric", "elastic_quota"):
            cluster.define(ROOT / "crds" / f"{kind}.yaml")
        _nodes(cluster, LENDER, plan.nodes)
        _nodes(cluster, PLAIN, plan.nodes)
        total = plan.nodes * GPUS
        for namespace, least in ((LENDER, total // 2), (BORROWER, total // 2), (PLAIN, 0)):
            cluster.create_namespace(namespace)
            if least:
                _quota(cluster, namespace, least, total)
        _priority(cluster)
        extender = Extender.start(cluster, Mode(SHORTLIST))
        scheduler = KubeScheduler.start(cluster, Mode(SHORTLIST), extender.url)
        try:
            _fill(cluster, BORROWER, LENDER, plan.nodes)
            yield from _waits(cluster, plan, LENDER, scheduler_name(), {})
        finally:
            scheduler.process.stop()
            extender.process.stop()
        _fill(cluster, PLAIN, PLAIN, plan.nodes)
        yield from _waits(cluster, plan, PLAIN, OWN, {"priorityClassName": PRIORITY})


def _nodes(cluster: Cluster, pool: str, count: int) -> None:
    """Nodes of a pool, with GPUs."""
    for name in cluster.kwok.add(count, NodeTemplate(labels={"pool": pool}), prefix=pool):
        amounts = {GPU: f"{GPUS}"}
        cluster.api.merge(f"/api/v1/nodes/{name}/status", {"status": {"capacity": amounts, "allocatable": amounts}})


def _quota(cluster: Cluster, namespace: str, least: int, most: int) -> None:
    bounds = {"min": {"cpu": "10k", "memory": "100Ti", GPU: f"{least}"}, "max": {GPU: f"{most}"}}
    quota = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": "quota"}}
    cluster.api.create_all([(f"{QUOTAS}/namespaces/{namespace}/elasticquotas", {**quota, "spec": bounds})])


def _priority(cluster: Cluster) -> None:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": PRIORITY}}
    cluster.api.create_all([("/apis/scheduling.k8s.io/v1/priorityclasses", {**kind, "value": 1000})])


def pod(name: str, pool: str, scheduler: str, **spec: Any) -> Json:  # noqa: ANN401 - fields of a PodSpec
    """A pod with one GPU."""
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
    made = (pod(f"there-{number}", pool, OWN, nodeName=names[number % nodes]) for number in range(nodes * GPUS))
    cluster.api.create_all((path, each) for each in made)
    deadline = time.monotonic() + 120
    while any(each["status"]["phase"] != "Running" for each in cluster.api.get(path)["items"]):
        if time.monotonic() > deadline:
            raise DevClusterError(f"the pods of {namespace} do not run")
        time.sleep(0.5)


def _waits(cluster: Cluster, plan: Plan, namespace: str, scheduler: str, spec: Json) -> Iterator[Waited]:
    """Pods one after another, then many at the same time."""
    path, waits = f"/api/v1/namespaces/{namespace}/pods", Waits(cluster.api, namespace)
    pool, size = namespace, f"{plan.nodes:,} nodes with {GPUS} GPUs each in use"
    single = [f"single-{number}" for number in range(plan.one_by_one)]
    for name in single:
        cluster.api.create_all([(path, pod(name, pool, scheduler, **spec))])
        waits.wait([name])
    ours = scheduler != OWN
    yield Waited(f"one pod after another, {size}", waits.taken(single), ours)
    several = [f"several-{number}" for number in range(plan.at_once)]
    cluster.api.create_all((path, pod(name, pool, scheduler, **spec)) for name in several)
    waits.wait(several)
    yield Waited(f"{plan.at_once} pods at once, {size}", waits.taken(several), ours)


def part(*, quick: bool = False) -> Iterator[Row]:
    """What `make bench` shows of it: our waits beside those of kube-scheduler's own preemption in the same run.

    Raises:
        DevClusterError: as `measure`.
    """
    yield from rows(list(measure(QUICK if quick else Plan())))


def rows(found: Sequence[Waited]) -> Iterator[Row]:
    """A line for each kind of pods, with the ratio of the medians."""
    own = {one.what: one.seconds for one in found if not one.ours}
    for one in found:
        if one.ours:
            beside = own.get(one.what, ())
            ratio = f"; {median(one.seconds) / median(beside):.1f} x its" if beside and one.seconds else ""
            reference = f"kube-scheduler's own preemption: {_spread(beside)}"
            what = f"unschedulable to bound, {one.what}"
            yield Row(what, f"{_spread(one.seconds)}{ratio}", reference=reference)


def _spread(seconds: Sequence[float]) -> str:
    return spread(seconds) if seconds else "none was refused first"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print.

    Returns:
        The exit status: 1 when something is missing.
    """
    parser = argparse.ArgumentParser(prog="python -m tools.bench.quota_reclaim", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help=f"nodes of a pool ({NODES})")
    parser.add_argument("--pods", type=int, default=ONE_BY_ONE, help=f"pods one after another ({ONE_BY_ONE})")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help=f"pods at the same time ({AT_ONCE})")
    parser.add_argument("--quick", action="store_true", help="a few nodes and pods, to see that everything runs")
    given = parser.parse_args(arguments)
    plan = Plan(given.nodes, given.pods, given.at_once) if not given.quick else QUICK
    if min(plan.nodes, plan.one_by_one, plan.at_once) < 1 or plan.one_by_one + plan.at_once > plan.nodes * GPUS // 2:
        parser.error(f"there have to be pods, and no more than half of all GPUs ({plan.nodes * GPUS // 2})")
    found, failed = list[Waited](), ""
    try:
        for one in measure(plan):
            found.append(one)
            whose = "with quotas" if one.ours else "kube-scheduler's own preemption"
            print(f"{whose}, {one.what}: {_spread(one.seconds)}", file=sys.stderr, flush=True)
    except (DevClusterError, OSError) as error:  # what was measured before is shown all the same
        failed = str(error)
    print(text(rows(found)))
    if failed:
        print(f"not everything could be measured: {failed}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
