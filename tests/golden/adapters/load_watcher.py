"""load_watcher: the providers' payloads, and load-watcher's protocol as we serve it."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from crds.duration import parse_duration
from headroom.runtime.http import Reply, Request
from scheduler_plugins.extender.watcher import WatcherPages, latest, short_duration, wire_format
from scheduler_plugins.providers import metrics_server, prometheus, signal_fx
from scheduler_plugins.providers.provider import CPU, MEMORY, Answer
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.golden.results import UnsupportedVectorError

NOW: Final = 1_735_689_600.0
SOURCE: Final = "TestServerClient"


def _windows(cache: Mapping[str, Any] | None) -> dict[float, Any]:
    return {parse_duration(name): nodes for name, nodes in (cache or {}).items() if nodes is not None}


def _latest_window(vector: dict[str, Any]) -> dict[str, Any]:
    windows = _windows(vector["cache"])
    length = latest(windows, parse_duration(vector["requested"]))
    if length is None:
        return {"error": True}
    values = {name: metrics[0]["value"] for name, metrics in windows[length].items()}
    return {"window": short_duration(length), "values": values}


class _Served(WatcherPages):
    def __init__(self, vector: Mapping[str, Any]) -> None:
        super().__init__(ClusterCache(LoadRules()), lambda: NOW, lambda: vector.get("providerHealthy", True))
        self._windows = _windows(vector["cache"])

    async def document(self) -> Mapping[str, Any] | None:
        window = latest(self._windows)
        return None if window is None else wire_format(SOURCE, NOW, window, NOW, self._windows[window])


def _http(vector: dict[str, Any]) -> dict[str, Any]:
    url = urlsplit(vector["path"])
    served = _Served(vector).pages()
    page = served.get((vector["method"], url.path))
    if page is None:
        raise UnsupportedVectorError(f"no page {vector['method']} {url.path}")

    async def ask() -> Reply:
        made = page(Request(vector["method"], url.path, dict(parse_qsl(url.query))))
        return made if isinstance(made, Reply) else await made

    reply = asyncio.run(ask())
    text = reply.body.decode()
    body = json.loads(text) if text and reply.content_type == "application/json" else None
    return {"status": reply.status, "contentType": reply.content_type, "bodyText": text, "body": body}


def _lists(answer: Answer) -> dict[str, Any]:
    return {"metrics": {name: list(node.metrics) for name, node in answer.nodes.items()}}


def _signalfx_all_hosts(vector: dict[str, Any]) -> dict[str, Any]:
    metrics: dict[str, list[Any]] = {}
    for kind in (CPU, MEMORY):
        result, _ = signal_fx.decode(kind, vector["metricPayload"], vector["metadataPayload"])
        for host, mean in result.items():
            metrics.setdefault(host, []).append(mean)
    return {"metrics": metrics}


def _signalfx_url(vector: dict[str, Any]) -> dict[str, Any]:
    search = signal_fx.search(CPU, vector["hostNameSuffix"], vector["clusterName"])
    return {
        "metricPath": signal_fx.POINTS,
        "metricQuery": signal_fx.points_params(search, vector["window"]["start"], vector["window"]["end"]),
        "metadataPath": signal_fx.SERIES,
        "metadataQuery": signal_fx.series_params(search),
        "headers": {signal_fx.TOKEN_HEADER: "<token>", "Content-Type": "application/json"},
    }


def _prometheus_query(vector: dict[str, Any]) -> dict[str, Any]:
    host = "" if vector["host"] == "all" else vector["host"]
    return {"query": prometheus.query(vector["metric"], vector["method"], vector["rollup"], host)}


def _metrics_server(vector: dict[str, Any]) -> dict[str, Any]:
    return _lists(metrics_server.decode(vector["nodeMetrics"], metrics_server.capacities(vector["nodes"]), NOW))
