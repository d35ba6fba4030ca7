"""low_risk_overcommitment: the LowRiskOverCommitment plugin, its formulas, and its facts of pods and metrics."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from scheduler_plugins.arguments import decode
from scheduler_plugins.numerics.beta import Beta, largest_variance, probability_below, with_deviation, with_moments
from scheduler_plugins.numerics.overcommitment import load_risk, shares, used, widened
from scheduler_plugins.plugins.low_risk_over_commitment import NAME, RESOURCES, LowRiskOverCommitment, Totals
from scheduler_plugins.providers.load_watcher import decode as decode_watcher
from scheduler_plugins.providers.provider import CPU, MEMORY, ProviderError, statistic, utilisation
from scheduler_plugins.snapshot.arrays import IntArray, Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules, pod_totals
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.units import units
from tests.golden.adapters import Adapter

NOW: Final = 1e9  # the time of every vector that does not name one [unix s]
_TYPES: Final = {"cpu": CPU, "memory": MEMORY}
_PER_UNIT: Final = {"cpu": 1, "memory": 2**20}
_FIELDS: Final = ("milliCPU", "memory")


def plugin_of(vector: Mapping[str, Any]) -> LowRiskOverCommitment:
    arguments = {"watcherAddress": "http://load-watcher:2020", **(vector.get("args") or {})}
    plugin: LowRiskOverCommitment = decode(LowRiskOverCommitment, arguments, "args")
    return plugin.defaulted()


class World:
    def __init__(self, plugin: LowRiskOverCommitment) -> None:
        self.plugin = plugin
        self.cache = ClusterCache(LoadRules(), {NAME: plugin})

    def put(self, node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> None:
        """A node and the pods on it. Vectors may name one pod on several nodes: each counts on its node."""
        self.cache.put_node(node)
        name = node["metadata"]["name"]
        for index, pod in enumerate(pods):
            metadata = {**pod["metadata"], "uid": f"{name}/{index}"}
            self.cache.put_pod({**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": name}}, NOW)

    def watch(self, watcher: Mapping[str, Any] | None) -> float:
        """The load-watcher service's response, and its time. A malformed response has no values."""
        try:
            nodes = decode_watcher(watcher, NOW).nodes
        except ProviderError:
            nodes = {}
        readings = {name: utilisation(node.metrics, node.measured_at, smoothed=True) for name, node in nodes.items()}
        self.cache.update_readings(NAME, {name: reading for name, reading in readings.items() if reading is not None})
        return max((node.measured_at for node in nodes.values()), default=NOW)

    def nodes_of(self, names: Sequence[str], now: float = NOW) -> Nodes:
        return self.cache.freeze(now).select(names)[0]


def _row(vector: Mapping[str, Any], pods: Sequence[Mapping[str, Any]] = ()) -> tuple[World, Nodes]:
    world = World(plugin_of(vector))
    world.put(vector["node"], pods)
    reading = utilisation(vector.get("metrics") or (), NOW, smoothed=True)
    world.cache.update_readings(NAME, {} if reading is None else {vector["node"]["metadata"]["name"]: reading})
    return world, world.nodes_of([vector["node"]["metadata"]["name"]])


def _beta(vector: Mapping[str, Any]) -> Beta:
    return Beta(float(vector["alpha"]), float(vector["beta"]))


def _beta_new(vector: dict[str, Any]) -> dict[str, Any]:
    beta = _beta(vector)
    if not beta.valid:
        return {"valid": False}
    first, second, third = beta.moments()
    return {
        "valid": True,
        "alpha": vector["alpha"],
        "beta": vector["beta"],
        "firstMoment": first,
        "secondMoment": second,
        "thirdMoment": third,
    }


def _fitted(fit: Beta | None) -> dict[str, Any]:
    return {"alpha": None, "beta": None} if fit is None else {"alpha": fit.alpha, "beta": fit.beta}


def _beta_match_moments(vector: dict[str, Any]) -> dict[str, Any]:
    fit = _fitted(with_moments(vector["m1"], vector["m2"]))
    return {"ok": fit["alpha"] is not None, **fit}


def _compute_probability(vector: dict[str, Any]) -> dict[str, Any]:
    probability, fit = probability_below(vector["mu"], vector["sigma"], vector["threshold"])
    parameters = _fitted(fit)
    return {"probability": probability, "fitted": parameters["alpha"] is not None, **parameters}


def _fit_from_metrics(vector: dict[str, Any]) -> dict[str, Any]:
    average, stdev = used(vector["avgPercent"], 1.0), used(vector["stdPercent"], 1.0)
    mean, deviation = shares(average, stdev, 1.0)
    sigma = widened(mean, deviation, vector["smoothingWindowSize"])
    return {"mu": float(mean), "sigma": float(sigma), **_fitted(with_deviation(mean, sigma))}


def _resource_data(vector: dict[str, Any]) -> dict[str, Any]:
    result = statistic(vector["metrics"], _TYPES[vector["resource"]])
    return {
        "avg": result.average if result else 0.0,
        "std": result.stdev if result else 0.0,
        "valid": result is not None,
    }


def _resource_stats(vector: dict[str, Any]) -> dict[str, Any]:
    resource = vector["resource"]
    result = statistic(vector["metrics"], _TYPES[resource])
    if result is None:
        return {"valid": False}
    allocatable = (vector["node"].get("status") or {}).get("allocatable") or {}
    capacity = units(resource, allocatable.get(resource, "0")) / _PER_UNIT[resource]
    request = (vector.get("podRequest") or {}).get(_FIELDS[RESOURCES.index(resource)], 0)
    return {
        "valid": True,
        "capacity": capacity,
        "req": request / _PER_UNIT[resource],
        "usedAvg": float(used(result.average, capacity)),
        "usedStdev": float(used(result.stdev, capacity)),
    }


def _mu_sigma(vector: dict[str, Any]) -> dict[str, Any]:
    mean, deviation = shares(vector["usedAvg"], vector["usedStdev"], vector["capacity"], vector["req"])
    return {"mu": float(mean), "sigma": float(deviation)}


def _pod_totals(kind: str) -> Adapter:
    return lambda vector: dict(zip(_FIELDS, pod_totals(vector["pod"], kind), strict=True))


def _node_requests_and_limits(vector: dict[str, Any]) -> dict[str, Any]:
    world, nodes = _row(vector, vector["podsOnNode"])
    amounts = world.cache.read(vector["pod"]).amounts[NAME]
    together, there = world.plugin.totals(nodes, amounts), world.plugin.totals(nodes)
    return {
        "nodeRequest": _fields(together.request),
        "nodeLimit": _fields(together.limit),
        "nodeRequestMinusPod": _fields(there.request),
        "nodeLimitMinusPod": _fields(there.limit),
        "nodeCapacity": _fields(there.capacity),
    }


def _fields(amounts: IntArray) -> dict[str, int]:
    return dict(zip(_FIELDS, amounts[:, 0].tolist(), strict=True))


def _columns(amounts: Mapping[str, int]) -> IntArray:
    return np.array([[amounts[name]] for name in _FIELDS], np.int64)


def _compute_risk(vector: dict[str, Any]) -> dict[str, Any]:
    """The sums come from the vector and not from pods."""
    by_node = {name: _columns(amounts) for name, amounts in vector["nodeRequestsAndLimits"].items()}
    world, nodes = _row(vector)
    record, capacity = nodes.tables[NAME], by_node["nodeCapacity"]
    there = (by_node["nodeRequestMinusPod"], by_node["nodeLimitMinusPod"], capacity)
    mean, deviation, cached = (record[key][0].tolist() for key in ("mean", "deviation", "known"))
    amounts = [part[:, 0].tolist() for part in there]
    columns = zip(mean, deviation, *amounts, strict=True)
    load = np.array([[load_risk(*column) if texts else 0.0] for texts, column in zip(cached, columns, strict=True)])
    risk = world.plugin.risk(Totals(by_node["nodeRequest"], by_node["nodeLimit"], capacity), load)
    return {"risk": float(risk[RESOURCES.index(vector["resource"]), 0])}


def _scored(vector: dict[str, Any]) -> list[tuple[str, int]]:
    world = World(plugin_of(vector))
    for entry in vector["nodes"]:
        world.put(entry["node"], entry.get("pods") or ())
    now = world.watch(vector.get("watcher"))
    pod: PodRequest = world.cache.read(vector["pod"])
    nodes = world.nodes_of([node["node"]["metadata"]["name"] for node in vector["nodes"]], now)
    return list(zip(nodes.names, world.plugin.score(pod, nodes).tolist(), strict=True))


def _score(vector: dict[str, Any]) -> dict[str, Any]:
    return {"scores": [{"name": name, "score": score} for name, score in _scored(vector)]}


def _schedule(vector: dict[str, Any]) -> dict[str, Any]:
    return {"selectedNode": max(_scored(vector), key=lambda each: each[1])[0]}


def _watcher_node_metrics(vector: dict[str, Any]) -> dict[str, Any]:
    node = decode_watcher(vector["watcherResponse"], NOW).nodes.get(vector["node"])
    return {"found": node is not None, "metrics": None if node is None else list(node.metrics)}


OPERATIONS: Final[Mapping[str, Adapter]] = {
    "beta_pdf": lambda vector: {"value": _beta(vector).density(vector["x"])},
    "beta_cdf": lambda vector: {"value": _beta(vector).below(vector["x"])},
    "beta_max_variance": lambda vector: {"value": float(largest_variance(vector["m1"]))},
    "pod_requests": _pod_totals("requests"),
    "pod_limits": _pod_totals("limits"),
}
