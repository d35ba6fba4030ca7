"""`kubectl headroom explain pod NAME`, or of the pods of a workload: reads, evaluates, prints."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from headroom import kube
from headroom.cluster.pod import is_terminal
from headroom.cluster.typed_pod import typed_pod
from kubectl_headroom import live, table
from kubectl_headroom import output as outputs
from kubectl_headroom import workload as workloads
from kubectl_headroom.explain import command as explain_node
from kubectl_headroom.pod import show, text
from kubectl_headroom.pod.inputs import MidNodes, PodSnapshot
from kubectl_headroom.quota import own
from kubectl_headroom.quota.explanation import Explanation as QuotaExplanation
from kubectl_headroom.quota.explanation import explain as explain_quota
from kubectl_headroom.quota.reading import Place, QuotaSnapshot
from kubectl_headroom.simulate import profile as profiles
from kubectl_headroom.simulate.command import read_watched
from kubectl_headroom.simulate.pod_file import GivenPod
from kubectl_headroom.simulate.simulation import Simulation, World, simulate, without_readings
from kubectl_headroom.tenant import ALL_PODS, Denied
from manager.api import Explanation as NodeExplanation
from manager.api import ObservedNode, explain
from scheduler_plugins.api import LIVE_PODS

Json = dict[str, Any]

_MOST_PODS: Final = 3  # how many pods of a workload are explained
_NOT_SEEN: Final = (
    "Quotas are calculated without the pods that the extender has admitted and kube-scheduler has not bound yet: its "
    "page /debug/nodes/NODE lists them."
)


async def pod(
    api: kube.ApiServer,
    place: Place,
    config_name: str,
    namespace: str | None,
    name: str,
    output: str,
    clock: live.Clock | None = None,
) -> None:
    """Print where a pod is and why, or why it is nowhere.

    Args:
        api: the cluster.
        place: where Headroom and the scheduler's profile are.
        config_name: name of the colocation ConfigMap.
        namespace: of the pod; None: that of the login's context.
        name: of the pod.
        output: one of `kubectl_headroom.output.CHOICES`.
        clock: the present time; None: the API server's.

    Raises:
        CommandError: there is no such pod, or the cluster does not know NodeMetrics.
    """
    snapshot = await read(api, place, config_name, live.namespace_of(api, namespace), name, clock)
    if outputs.is_for_people(output):
        _print(snapshot, output)
    else:
        outputs.show(show.as_json(snapshot), output)


async def pods_of(
    api: kube.ApiServer,
    place: Place,
    config_name: str,
    namespace: str | None,
    workload: tuple[str, str],
    output: str,
    clock: live.Clock | None = None,
) -> None:
    """Print why pods of a workload wait; where none waits, where its first pod is.

    Args:
        api: the cluster.
        place: where Headroom and the scheduler's profile are.
        config_name: name of the colocation ConfigMap.
        namespace: of the workload; None: that of the login's context.
        workload: its type, one of `kubectl_headroom.targets.WORKLOADS`, and its name.
        output: one of `kubectl_headroom.output.CHOICES`.
        clock: the present time; None: the API server's.

    Raises:
        CommandError: there is no such workload, or the cluster does not know NodeMetrics.
    """
    item = await workloads.read(api, workload[0], live.namespace_of(api, namespace), workload[1])
    listed = await workloads.pods(api, item)
    waiting = [pod for pod in listed if _waits(pod)]
    explained = waiting[:_MOST_PODS] or sorted(listed, key=is_terminal)[:1]
    snapshots = [
        await read(api, place, config_name, pod["metadata"]["namespace"], pod["metadata"]["name"], clock)
        for pod in explained
    ]
    more = max(0, len(waiting) - len(explained))
    if not outputs.is_for_people(output):
        document = show.listed([show.as_json(snapshot) for snapshot in snapshots], more)
        outputs.show(document, output)
        return
    title = f"{item['kind']} {item['metadata']['namespace']}/{item['metadata']['name']}"
    if not listed:
        outputs.line(f"{title} has no pods{_no_pods(item)}.", sys.stderr)
        return
    count = f"{len(waiting)} of {len(listed)} pod{'' if len(listed) == 1 else 's'} wait{'s' * (len(waiting) == 1)}"
    outputs.line(f"{title}: {count} for a node{f'; the first {len(explained)} are explained' if more else ''}.")
    for snapshot in snapshots:
        outputs.line()
        _print(snapshot, output)


def _waits(pod: Json) -> bool:
    return not ((pod.get("spec") or {}).get("nodeName") or pod["metadata"].get("deletionTimestamp") or is_terminal(pod))


def _no_pods(workload: Json) -> str:
    """Return why a workload has no pods, as far as it has the reason."""
    for condition in (workload.get("status") or {}).get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("ReplicaFailure", "True"):
            return f": {str(condition.get('message')).rstrip('.')}"
    return ": spec.replicas is 0" if (workload.get("spec") or {}).get("replicas") == 0 else ""


def _print(snapshot: PodSnapshot, output: str) -> None:
    outputs.line(text.title(snapshot))
    for sentence in text.sentences(snapshot):
        outputs.line(f"- {sentence}")
    for heading, columns, rows in show.tables(snapshot, wide=output == outputs.WIDE):
        outputs.line()
        outputs.line(heading)
        table.write(columns, rows)
    outputs.notes(snapshot.notes)


async def read(
    api: kube.ApiServer, place: Place, config_name: str, namespace: str, name: str, clock: live.Clock | None
) -> PodSnapshot:
    """Read a pod and what decides about it.

    Args:
        api: the cluster.
        place: where Headroom and the scheduler's profile are.
        config_name: name of the colocation ConfigMap.
        namespace: of the pod.
        name: of the pod.
        clock: the present time; None: the API server's.

    Raises:
        CommandError: there is no such pod, or the cluster does not know NodeMetrics.
    """
    result = await live.pod(api, namespace, name)
    now = (clock or api.server_time)()
    if is_terminal(result):
        return PodSnapshot(result, now)
    chosen = place.chosen or await profiles.of_cluster(api, place.headroom_namespace, place.scheduler_name)
    gathered = _Gathered(result, World.empty(chosen.profile, now), QuotaSnapshot.empty(chosen, now))
    notes, denied = await gathered.read(api), gathered.denied
    node = await _node(api, gathered, place.headroom_namespace, config_name, now)
    quota = None if denied else gathered.quota()
    simulation = None if "Nodes" in denied or "NodeMetrics" in denied else gathered.simulation()
    if denied:
        notes.append(denied.note("what depends on them is left out, and estimates of other pods are missing"))
    own_quotas = tuple(own.sentences(await own.read(api, namespace))) if denied else ()
    mid_nodes = None if "Nodes" in denied else gathered.mid_nodes
    blind = without_readings(chosen.profile)
    texts = [f"{plugin} reads a metrics provider, which is not polled here." for plugin in blind]
    texts += gathered.quotas.notes
    if quota is not None and quota.quota is not None and not quota.pod.node:
        texts.append(_NOT_SEEN)
    return PodSnapshot(
        *(result, now, node, quota, gathered.quotas, simulation, chosen, mid_nodes, (*notes, *texts)),
        denied=tuple(denied.kinds),
        own_quotas=own_quotas,
    )


class _Gathered:
    """The cluster as the plugins and the quotas see it, and of the pod's own node everything."""

    def __init__(self, pod: Json, world: World, quotas: QuotaSnapshot) -> None:
        self.pod = pod
        self.world = world
        self.quotas = quotas
        self.node_name = str((pod.get("spec") or {}).get("nodeName") or "")
        self.node: Json | None = None
        self.metric: Json | None = None
        self.beside: list[Json] = []
        self.mid_nodes = MidNodes()
        self.denied = Denied()

    async def read(self, api: kube.ApiServer) -> list[str]:
        """Read it, each list once; return a sentence for each unknown kind."""
        sources = [
            self.denied.unless(
                source.kind,
                _if_known(api, source.path, partial(self.quotas.take, source.kind.removesuffix("s"), source.put)),
                None,
            )
            for source in self.quotas.cluster.sources()
        ]
        pods = api.list(kube.paths.PODS, {"fieldSelector": LIVE_PODS}, self._put_pod)
        # Each object becomes numbers as its page arrives: the JSON of 150,000 pods does not fit into memory.
        absent, *_ = await live.together(
            read_watched(api, self.world, self.denied),
            self.denied.unless("Nodes", api.list(kube.paths.NODES, keep=self._put_node), ([], "")),
            self.denied.unless("NodeMetrics", live.node_metrics(api, self._put_metric), []),
            self.denied.unless(ALL_PODS, pods, ([], "")),
            *sources,
        )
        return list(absent)

    def _put_node(self, node: Json) -> None:
        self.world.put_node(node)
        self.mid_nodes.put_node(node)
        self.quotas.take("Node", self.quotas.cluster.put_node, node)
        if node["metadata"]["name"] == self.node_name:
            self.node = node

    def _put_metric(self, metric: Json) -> None:
        self.world.put_node_metric(metric)
        self.mid_nodes.put_node_metric(metric)
        if metric["metadata"]["name"] == self.node_name:
            self.metric = metric

    def _put_pod(self, pod: Json) -> None:
        self.world.put_pod(pod)
        self.quotas.take("Pod", lambda item: self.quotas.cluster.put_pod(typed_pod(item)), pod)
        if self.node_name and (pod.get("spec") or {}).get("nodeName") == self.node_name:
            self.beside.append(pod)

    def quota(self) -> QuotaExplanation | None:
        """Return the quotas' decision about the pod; None: it has gone meanwhile."""
        result = self.quotas.cluster.pods.get(str(self.pod["metadata"].get("uid") or ""))
        return None if result is None else explain_quota(self.quotas, result)

    def simulation(self) -> Simulation | None:
        metadata = self.pod["metadata"]
        return simulate(self.world, GivenPod(f"Pod {metadata['namespace']}/{metadata['name']}", self.pod))


async def _if_known(api: kube.ApiServer, path: str, keep: Callable[[Any], None]) -> None:
    """List a kind that the cluster may do without."""
    try:
        await api.list(path, keep=keep)
    except kube.ApiError as error:
        if not error.not_found:
            raise


async def _node(
    api: kube.ApiServer, gathered: _Gathered, namespace: str, config_name: str, now: float
) -> NodeExplanation | None:
    """The pod's node as `explain node` sees it; None where it has none."""
    if gathered.node is None:
        return None
    settings = await explain_node.read_settings(api, namespace, config_name, lambda: now)
    node_state = ObservedNode(
        gathered.node, gathered.metric, gathered.beside, now, lease=settings.lease, exclusion=settings.exclusion
    )
    return explain(node_state, settings.config)
