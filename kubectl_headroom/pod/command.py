"""`kubectl headroom explain pod NAME`: reads, evaluates, prints."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from headroom import kube
from headroom.cluster.pod import is_terminal
from headroom.cluster.typed_pod import typed_pod
from kubectl_headroom import live, table
from kubectl_headroom import output as outputs
from kubectl_headroom.errors import CommandError
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
        output: table, wide, json or yaml.
        clock: the present time; None: the API server's.

    Raises:
        CommandError: there is no such pod, or the cluster does not know NodeMetrics.
    """
    snapshot = await read(api, place, config_name, live.namespace_of(api, namespace), name, clock)
    if not outputs.is_for_people(output):
        outputs.show(show.as_json(snapshot), output)
        return
    outputs.line(text.title(snapshot))
    for sentence in text.sentences(snapshot):
        outputs.line(f"- {sentence}")
    for heading, columns, rows in show.tables(snapshot, wide=output == outputs.WIDE):
        outputs.line()
        outputs.line(heading)
        table.write(columns, rows)
    if snapshot.notes:
        outputs.line()
    for note in snapshot.notes:
        outputs.line(f"- {note}")


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
    result = await kube.optional(api.get(kube.paths.pod(namespace, name)))
    if result is None:
        raise CommandError(await _missing(api, namespace, name))
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


async def _missing(api: kube.ApiServer, namespace: str, name: str) -> str:
    names = [str(item["metadata"]["name"]) for item in await live.objects(api, kube.paths.pods(namespace))]
    hint = live.suggestion(name, names, "pods")
    return f"There is no pod {name!r} in namespace {namespace}. {hint} Another namespace is named with -n."


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
