"""The load-watcher service as a provider: GET {address}/watcher."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from scheduler_plugins.providers.provider import Answer, Cluster, Metric, NodeAnswer, ProviderError, at, moment, percent
from scheduler_plugins.providers.spec import LOAD_WATCHER, ProviderSpec
from scheduler_plugins.providers.web import Site

_TEXTS: Final = ("name", "type", "operator", "rollup")


class LoadWatcher:
    """A client of the service."""

    name = LOAD_WATCHER

    def __init__(self, site: Site, *, smoothed: bool) -> None:
        self.address = site.address
        self.smoothed = smoothed
        self._site = site

    async def fetch(self, now: float) -> Answer:
        """Ask for all nodes."""
        async with self._site.session() as session:
            document = await session.get("/watcher")
        return await asyncio.to_thread(decode, document, now)


def decode(document: Any, now: float) -> Answer:  # noqa: ANN401 - JSON from outside can be anything
    """Decode the service's response. Raises ProviderError: it is not one of load-watcher."""
    nodes = at(document, "data", "NodeMetricsMap")
    if not isinstance(nodes, Mapping):
        raise ProviderError("the answer is not load-watcher's: it has no data.NodeMetricsMap")
    measured_at = moment(at(document, "window", "end"), now) or moment(document.get("timestamp"), now) or now
    result, unusable = {}, 0
    for name, node in nodes.items():
        metrics, bad = _metrics(node)
        unusable += bad
        if metrics:
            result[name] = NodeAnswer(metrics, measured_at)
    return Answer(result, unusable)


def _metrics(node: Any) -> tuple[list[Metric], int]:  # noqa: ANN401
    """A node's metrics, and how many entries are none."""
    entries = node.get("metrics") if isinstance(node, Mapping) else None
    if entries is None and isinstance(node, Mapping):
        return [], 0
    if not isinstance(entries, list):
        return [], 1
    metrics = [result for entry in entries if (result := _metric(entry)) is not None]
    return metrics, len(entries) - len(metrics)


def _metric(entry: Any) -> Metric | None:  # noqa: ANN401
    if not isinstance(entry, Mapping):
        return None
    # The service omits empty and zero values.
    texts = {key: entry.get(key, "") for key in _TEXTS}
    value = percent(entry.get("value", 0.0))
    if value is None or not all(isinstance(text, str) for text in texts.values()):
        return None
    return {**texts, "value": value}


def make(spec: ProviderSpec, _cluster: Cluster) -> LoadWatcher:
    """The service at `watcherAddress`, with the settings of `metricProvider`; its token is sent if it names no type."""
    settings = spec.metric_provider
    address = spec.watcher_address or settings.address
    if settings.type:  # a token for that provider is nothing that this service may know
        settings = replace(settings, token="", token_file="")
    site = Site(address, replace(settings, address=address))
    return LoadWatcher(site, smoothed=settings.smoothed is not False)
