"""The page as a client sees it, without any socket; and the real server where one is needed."""

import asyncio
import json
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from headroom.runtime.http.pages import Reply, Request, answer
from manager.web.application import Application
from manager.web.explanation import NodeMetrics, NotRead
from tests.manager.web.made_cluster import World
from tests.support.objects import Json


class Stored(NodeMetrics):
    """NodeMetrics that are there, instead of those of an API server."""

    def __init__(self, *metrics: Json, problem: str = "") -> None:
        super().__init__()
        self._stored = {metric["metadata"]["name"]: metric for metric in metrics}
        self._problem = problem

    def read(self, name: str) -> Json | None:
        """The NodeMetric of a node."""
        if self._problem:
            raise NotRead(self._problem)
        return self._stored.get(name)


class Answered(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:  # noqa: ANN401
        """Its content as data."""
        return json.loads(self.body)


def ask(
    world: World,
    url: str,
    metrics: NodeMetrics | None = None,
    *,
    method: str = "GET",
    host: str = "localhost:8081",
    local: bool = True,
) -> Answered:
    """Ask the page."""
    path, _, query = url.partition("?")
    application = Application(world.context, metrics or Stored(), local=local)

    async def reply() -> Reply:
        made = answer(application.pages(), Request(method, path, dict(parse_qsl(query)), host=host))
        assert not isinstance(made, Reply)
        return await made

    found = asyncio.run(reply())
    return Answered(found.status, {"Content-Type": found.content_type, **found.headers}, found.body.decode())
