"""A fake SignalFx: no real one can be had without an account.

It follows the protocol as load-watcher uses it: both pages take the same search, need the token, and answer in their
own shapes; points are pairs of milliseconds and values at the asked resolution within the asked window.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TOKEN = "secret"  # noqa: S105 - of a fake


@dataclass
class FakeSignalFx:
    cluster: str
    usage: Mapping[str, Mapping[str, list[float]]]  # metric -> host -> its values, one a minute, the last one now
    now: float
    strange: list[Any] = field(default_factory=list)  # more results that describe no host

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
        return {"results": (results + self.strange)[: int(request.query["limit"])]}
