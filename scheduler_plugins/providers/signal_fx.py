"""SignalFx as a provider: means over a window of `cpu.utilization` and `memory.utilization`; it knows no deviation."""

import math
from collections.abc import Mapping
from typing import Any, Final

from scheduler_plugins.providers.provider import (
    AVERAGE,
    CPU,
    MEMORY,
    Answer,
    Cluster,
    Metric,
    NodeAnswer,
    ProviderError,
    at,
    metric,
    percent,
)
from scheduler_plugins.providers.spec import MetricProvider, ProviderSpec
from scheduler_plugins.providers.web import Site

ADDRESS: Final = "https://api.signalfx.com"  # where it is by default
TOKEN_HEADER: Final = "X-SF-Token"  # noqa: S105 - the name of a header
POINTS: Final = "/v1/timeserieswindow"
SERIES: Final = "/v2/metrictimeseries"
METRICS: Final[Mapping[str, str]] = {
    CPU: 'sf_metric:"cpu.utilization"',
    MEMORY: 'sf_metric:"memory.utilization"',
}
"""The queried metrics, by load-watcher's type."""
RESOLUTION_MS: Final = 60_000
MOST_SERIES: Final = 10_000
_PAIR: Final = 2


def search(kind: str, host_name_suffix: str, cluster_name: str) -> str:
    parts = [f"host:*{host_name_suffix}", f"cluster:{cluster_name}" if cluster_name else "", METRICS[kind]]
    return " AND ".join(filter(None, parts))


def points_params(found: str, start: float, end: float) -> dict[str, str]:
    milliseconds = {"startMs": f"{start * 1000:.0f}", "endMs": f"{end * 1000:.0f}"}
    return {"query": found, **milliseconds, "resolution": str(RESOLUTION_MS)}


def series_params(found: str) -> dict[str, str]:
    return {"query": found, "limit": str(MOST_SERIES)}


def decode(kind: str, points: Any, series: Any) -> tuple[dict[str, Metric], int]:  # noqa: ANN401
    """The mean of one metric by host, and how many series were no use.

    Raises ProviderError: one of them is not an answer of SignalFx.
    """
    data, results = at(points, "data"), at(series, "results")
    if not isinstance(data, Mapping) or not isinstance(results, list):
        raise ProviderError("the answer is not SignalFx's: it has no data or no results")
    hosts = dict(filter(None, map(_host, results)))
    result: dict[str, Metric] = {}
    unusable = 0
    for name, values in data.items():
        if name not in hosts:  # an old series, or one beyond the limit
            continue
        mean = _mean(values)
        if mean is None:
            unusable += values != []
        elif mean >= result.get(hosts[name], {"value": 0.0})["value"]:
            result[hosts[name]] = metric(kind, AVERAGE, mean, name=METRICS[kind])
    return result, unusable


def _host(entry: Any) -> tuple[str, str] | None:  # noqa: ANN401
    key, host = at(entry, "id"), at(entry, "dimensions", "host")
    name = host.partition(".")[0] if isinstance(host, str) else ""
    return (key, name) if isinstance(key, str) and name else None


def _mean(points: Any) -> float | None:  # noqa: ANN401
    """The mean of the points that are numbers; None when there is none."""
    if not isinstance(points, list):
        return None
    values = [percent(point[1]) for point in points if isinstance(point, list) and len(point) == _PAIR]
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None


class SignalFx:
    """A client of its HTTP API."""

    name = "SignalFx"

    def __init__(self, site: Site, settings: MetricProvider) -> None:
        self.address = site.address
        self.smoothed = bool(settings.smoothed)
        self._site = site
        self._settings = settings

    async def fetch(self, now: float) -> Answer:
        """Ask for the points and the series of both metrics."""
        settings = self._settings
        if not (settings.token or settings.token_file):
            raise ProviderError("it needs a token: metricProvider.token or tokenFile")
        async with self._site.session() as session:
            requested = []
            for kind in METRICS:
                result = search(kind, settings.host_name_suffix, settings.cluster_name)
                requested.append((POINTS, points_params(result, now - settings.window_duration, now)))
                requested.append((SERIES, series_params(result)))
            answers = await session.get_all(requested)
        metrics: dict[str, list[Metric]] = {}
        unusable = 0
        for place, kind in enumerate(METRICS):
            means, bad = decode(kind, answers[2 * place], answers[2 * place + 1])
            unusable += bad
            for host, mean in means.items():
                metrics.setdefault(host, []).append(mean)
        return Answer({host: NodeAnswer(given, now) for host, given in metrics.items()}, unusable)


def make(spec: ProviderSpec, _cluster: Cluster) -> SignalFx:
    """SignalFx at `metricProvider.address`, which differs by realm."""
    settings = spec.metric_provider
    return SignalFx(Site(settings.address or ADDRESS, settings, TOKEN_HEADER), settings)
