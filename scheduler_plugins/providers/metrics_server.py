"""The cluster's resource metrics API (metrics-server and its kin) as a provider: plain samples without a deviation."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from crds.quantity import QuantityError
from headroom.kube import ApiError, ApiServer, ApiUnavailable, paths
from scheduler_plugins.providers.provider import (
    CPU,
    LATEST,
    MEMORY,
    Answer,
    Cluster,
    Metric,
    NodeAnswer,
    ProviderError,
    at,
    metric,
    moment,
    percent,
)
from scheduler_plugins.providers.spec import ProviderSpec
from scheduler_plugins.providers.web import BODY_LIMIT, bounded, parsed
from scheduler_plugins.snapshot.units import units, unix_time

NODES: Final = "/apis/metrics.k8s.io/v1beta1/nodes"  # where usage is
RESOURCES: Final[Mapping[str, str]] = {"cpu": CPU, "memory": MEMORY}  # load-watcher's type by resource
_ABSENT: Final = "the API server knows no metrics.k8s.io: is metrics-server, or a replacement, installed?"


def decode(usages: Any, whole: Mapping[str, Mapping[str, int]], now: float) -> Answer:  # noqa: ANN401
    """Decode the list of NodeMetrics, in percent of each node's capacity.

    Args:
        usages: the items of the list.
        whole: what each node has; a node that is not in it is left out. [milli-cores for cpu, else base units]
        now: the time of an item that does not state its own. [unix s]

    Raises ProviderError: it is no list.
    """
    if not isinstance(usages, list):
        raise ProviderError("the answer is not a NodeMetricsList: it has no items")
    result: dict[str, NodeAnswer] = {}
    unusable = 0
    for item in usages:
        name, used = at(item, "metadata", "name"), at(item, "usage")
        if not isinstance(name, str) or not isinstance(used, Mapping):
            unusable += 1
        elif name in whole:
            metrics = [given for resource in RESOURCES if (given := _share(resource, used, whole[name])) is not None]
            unusable += len(RESOURCES) - len(metrics)
            if metrics:
                result[name] = NodeAnswer(metrics, _measured_at(item, now))
    return Answer(result, unusable)


def _share(resource: str, used: Mapping[str, Any], whole: Mapping[str, int]) -> Metric | None:
    try:
        amount = units(resource, used[resource])
    except (QuantityError, KeyError, TypeError, ValueError, ArithmeticError):
        return None
    share = percent(100 * amount / whole[resource]) if whole.get(resource, 0) > 0 else None
    return None if share is None else metric(RESOURCES[resource], LATEST, share)


def _measured_at(item: Mapping[str, Any], now: float) -> float:
    try:
        stated = unix_time(item.get("timestamp"))
    except (ValueError, TypeError, OverflowError):
        stated = None
    return moment(stated, now) or now


def capacities(nodes: Any) -> dict[str, dict[str, int]]:  # noqa: ANN401 - JSON from outside can be anything
    """Each Node's capacity by its `status.capacity`. [milli-cores for cpu, else base units]"""
    result = {}
    for node in nodes if isinstance(nodes, list) else ():
        try:
            capacity = node["status"]["capacity"]
            amounts = {resource: units(resource, capacity[resource]) for resource in RESOURCES if resource in capacity}
            result[str(node["metadata"]["name"])] = amounts
        except (QuantityError, KeyError, TypeError, ValueError, ArithmeticError):
            continue
    return result


class MetricsServer:
    """A client of the API, through the API server."""

    name = "KubernetesMetricsServer"
    address = f"the API server's {NODES}"
    smoothed = False

    def __init__(self, cluster: Cluster, timeout_seconds: float, *, of_capacity: bool) -> None:
        self._cluster = cluster
        self._timeout = timeout_seconds
        self._of_capacity = of_capacity

    async def fetch(self, now: float) -> Answer:
        """Ask for the usage of all nodes."""
        api = self._cluster.api
        try:
            async with asyncio.timeout(self._timeout):
                usages = await self._usages(api)
                whole = await self._whole(api, usages)
        except TimeoutError as error:
            raise ProviderError(f"no answer within {self._timeout:g} s") from error
        except ApiError as error:
            raise ProviderError(_ABSENT if error.not_found else str(error)) from error
        except ApiUnavailable as error:
            raise ProviderError(str(error)) from error
        return await asyncio.to_thread(decode, usages, whole, now)

    async def _usages(self, api: ApiServer) -> Any:  # noqa: ANN401
        async with api.stream(NODES, {}, self._timeout) as chunks:
            document = parsed(await bounded(chunks, BODY_LIMIT))
        return at(document, "items")

    async def _whole(self, api: ApiServer, usages: Any) -> Mapping[str, Mapping[str, int]]:  # noqa: ANN401
        if self._of_capacity:
            nodes, _ = await api.list(paths.NODES, keep=_capacity_alone)
            return capacities(nodes)
        names = {at(item, "metadata", "name") for item in usages} if isinstance(usages, list) else set()
        allocatable = {name: self._cluster.allocatable(name) for name in names if isinstance(name, str)}
        return {name: amounts for name, amounts in allocatable.items() if amounts is not None}


def _capacity_alone(node: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": at(node, "metadata", "name")}, "status": {"capacity": at(node, "status", "capacity")}}


def make(spec: ProviderSpec, cluster: Cluster) -> MetricsServer:
    return MetricsServer(cluster, spec.metric_provider.timeout_seconds, of_capacity=spec.parity)
