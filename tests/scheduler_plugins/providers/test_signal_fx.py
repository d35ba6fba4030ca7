"""SignalFx as a provider, against a fake of it: no real one can be had without an account.

The fake follows the protocol as load-watcher uses it: both pages take the same search, need the token, and answer in
their own shapes; points are pairs of milliseconds and values at the requested resolution within the requested window.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web

from scheduler_plugins.providers.provider import CPU, Answer, ProviderError
from scheduler_plugins.providers.signal_fx import TOKEN_HEADER, SignalFx, decode, search
from scheduler_plugins.providers.spec import MetricProvider
from scheduler_plugins.providers.web import Site
from tests.scheduler_plugins.providers.server import NOW, answering

TOKEN = "secret"  # noqa: S105 - of a fake


@dataclass
class FakeSignalFx:
    cluster: str
    usage: Mapping[str, Mapping[str, list[float]]]  # metric -> host -> values, one per minute, the last one now
    now: float
    malformed: list[Any] = field(default_factory=list)  # more results that describe no host

    def pages(self) -> dict[str, Any]:
        return {"/v1/timeserieswindow": self.points, "/v2/metrictimeseries": self.series}

    def _found(self, request: web.Request) -> dict[str, tuple[str, list[float]]]:
        if request.headers.get("X-SF-Token") != TOKEN:
            raise web.HTTPUnauthorized(text='{"code": 401, "message": "Unauthorized"}')
        terms = dict(part.split(":", 1) for part in request.query["query"].split(" AND "))
        assert terms["cluster"] == self.cluster
        metric, suffix = terms["sf_metric"].strip('"'), terms["host"].removeprefix("*")
        hosts = {host: values for host, values in self.usage[metric].items() if host.endswith(suffix)}
        return {f"{metric}-{host}": (host, values) for host, values in hosts.items()}

    def points(self, request: web.Request) -> Any:  # noqa: ANN401
        start, end, step = (int(request.query[name]) for name in ("startMs", "endMs", "resolution"))
        data = {}
        for key, (_, values) in self._found(request).items():
            times = [int(self.now * 1000) - step * back for back in range(len(values))][::-1]
            data[key] = [[time, value] for time, value in zip(times, values, strict=True) if start <= time <= end]
        return {"data": data, "errors": []}

    def series(self, request: web.Request) -> Any:  # noqa: ANN401
        results: list[Any] = [
            {"active": True, "id": key, "dimensions": {"host": host, "sf_metric": None}}
            for key, (host, _) in self._found(request).items()
        ]
        return {"results": (results + self.malformed)[: int(request.query["limit"])]}


SETTINGS = MetricProvider(token=TOKEN, host_name_suffix=".dev.com", cluster_name="c1")
USAGE = {
    "cpu.utilization": {"n1.dev.com": [90.0, 10.0, 20.0, 60.0], "n2.dev.com": [], "n3.prod.com": [5.0]},
    "memory.utilization": {"n1.dev.com": [40.0]},
}


async def fetch(fake: FakeSignalFx, settings: MetricProvider = SETTINGS) -> Answer:
    async with answering(fake.pages()) as server:
        made = replace(settings, address=server.url)
        return await SignalFx(Site(server.url, made, TOKEN_HEADER), made).fetch(NOW)


async def test_means_of_the_window() -> None:
    answer = await fetch(FakeSignalFx("c1", USAGE, NOW), replace(SETTINGS, window_duration=130.0))
    assert set(answer.nodes) == {"n1"}
    result = [(metric["type"], metric["operator"], metric["value"]) for metric in answer.nodes["n1"].metrics]
    assert result == [("CPU", "AVG", 30.0), ("Memory", "AVG", 40.0)]


async def test_token_is_needed() -> None:
    with pytest.raises(ProviderError, match=r"answers 401: .*Unauthorized"):
        await fetch(FakeSignalFx("c1", USAGE, NOW), replace(SETTINGS, token="wrong"))  # noqa: S106
    with pytest.raises(ProviderError, match="needs a token"):
        await fetch(FakeSignalFx("c1", USAGE, NOW), replace(SETTINGS, token=""))


async def test_malformed_results_are_skipped() -> None:
    malformed = [None, 3, {}, {"id": "x"}, {"id": ["y"], "dimensions": {"host": "h"}}, {"id": "z", "dimensions": None}]
    answer = await fetch(FakeSignalFx("c1", USAGE, NOW, malformed))
    assert set(answer.nodes) == {"n1"}


def test_search_names_the_hosts() -> None:
    assert search(CPU, "", "") == 'host:* AND sf_metric:"cpu.utilization"'
    assert search(CPU, ".a", "c") == 'host:*.a AND cluster:c AND sf_metric:"cpu.utilization"'


@pytest.mark.parametrize("points", [[[1, "x"]], [[1, -5.0]], [[1, float("nan")]], [[1]], 3, None, {"a": 1}])
def test_garbage_is_no_number(points: Any) -> None:  # noqa: ANN401
    series = {"results": [{"id": "A", "dimensions": {"host": "h"}}]}
    assert decode(CPU, {"data": {"A": points}}, series) == ({}, 1)


@pytest.mark.parametrize("body", [None, [], {}, {"data": [], "results": {}}])
def test_other_answers_are_refused(body: object) -> None:
    with pytest.raises(ProviderError, match="not SignalFx's"):
        decode(CPU, body, {"results": []})
    with pytest.raises(ProviderError, match="not SignalFx's"):
        decode(CPU, {"data": {}}, body)
