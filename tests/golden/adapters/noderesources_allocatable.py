from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from headroom.cluster.pod import pod_requests
from scheduler_plugins.arguments import ArgumentError, decode, encode
from scheduler_plugins.plugins.node_resources_allocatable import NAME, NodeResourcesAllocatable
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.units import units
from tests.golden.adapters.low_risk_overcommitment import NOW


def plugin_of(vector: Mapping[str, Any]) -> NodeResourcesAllocatable:
    plugin: NodeResourcesAllocatable = decode(NodeResourcesAllocatable, vector.get("args") or {}, "args")
    return plugin


def error_of(plugin: NodeResourcesAllocatable) -> str | None:
    """The errors in the arguments, as Kubernetes joins them."""
    texts = list(dict.fromkeys(f"{problem.field}: {problem.message}" for problem in plugin.problems()))
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _validate(vector: dict[str, Any]) -> dict[str, Any]:
    return {"error": error_of(plugin_of(vector))}


def _new_plugin(vector: dict[str, Any]) -> dict[str, Any]:
    try:
        plugin = plugin_of(vector).defaulted()
    except ArgumentError as error:
        return {"error": str(error), "mode": None}
    error_text = error_of(plugin)
    return {"error": error_text, "mode": None if error_text else plugin.mode}


def _defaults(vector: dict[str, Any]) -> dict[str, Any]:
    return encode(plugin_of(vector).defaulted())


class World:
    def __init__(self, vector: Mapping[str, Any]) -> None:
        self.plugin = plugin_of(vector).defaulted()
        self.cache = ClusterCache(LoadRules(), {NAME: self.plugin})
        for node in vector["nodes"]:
            self.cache.put_node(node)
        self.names = [node["metadata"]["name"] for node in vector["nodes"]]

    def nodes_of(self, names: Sequence[str]) -> Nodes:
        return self.cache.freeze(NOW).select(names)[0]


def _score(vector: dict[str, Any]) -> dict[str, Any]:
    world = World(vector)
    for index, pod in enumerate(vector.get("existingPods") or ()):
        world.cache.put_pod({**pod, "metadata": {**pod["metadata"], "uid": f"existing/{index}"}}, NOW)
    nodes = world.nodes_of(world.names)
    scores = world.plugin.score(world.cache.read(vector["pod"]), nodes).tolist()
    rows = zip(nodes.names, scores, nodes.tables[NAME]["raw"].tolist(), strict=True)
    return {"scores": [{"name": name, "score": score, "raw": raw} for name, score, raw in rows]}


def _schedule_sequence(vector: dict[str, Any]) -> dict[str, Any]:
    """Where each pod may go in turn: to a node with the best score of those that kube-scheduler would find feasible."""
    world = World(vector)
    allowed: dict[str, list[str]] = {}
    taken: dict[str, list[Mapping[str, Any]]] = {name: [] for name in world.names}
    for pod in vector["pods"]:
        roomy = [name for name in world.names if _fits(world.cache, name, [*taken[name], pod])]
        nodes = world.nodes_of(roomy)
        scores = world.plugin.score(world.cache.read(pod), nodes).tolist()
        best = [name for name, score in zip(roomy, scores, strict=True) if score == max(scores)]
        allowed[pod["metadata"]["name"]] = best
        if best:
            taken[best[0]].append(pod)
    return {"allowedNodes": allowed}


def _fits(cache: ClusterCache, name: str, pods: Sequence[Mapping[str, Any]]) -> bool:
    """kube-scheduler's own filter, which is not ours to test: whether the requests of these pods fit a node."""
    has = cache.own_allocatable(name) or {}
    totals: dict[str, Fraction] = {}
    for pod in pods:
        for resource, amount in pod_requests(pod).items():
            totals[resource] = totals.get(resource, Fraction(0)) + amount
    return len(pods) <= has.get("pods", 0) and all(
        units(resource, amount) <= has.get(resource, 0) for resource, amount in totals.items()
    )
