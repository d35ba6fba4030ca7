"""The page as a client sees it, without any socket; and the real server where one is needed."""

import json
from dataclasses import dataclass
from typing import Any

from manager.ui.application import Application
from manager.ui.explaining import NodeMetrics, NotRead
from tests.manager.made import Json
from tests.manager.ui.made_cluster import World


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


@dataclass
class Answered:
    """An answer."""

    status: int
    """Its status."""
    headers: dict[str, str]
    """Its headers."""
    body: str
    """Its content."""

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
    found: dict[str, Any] = {}

    def start(status: str, headers: list[tuple[str, str]], *_: object) -> Any:  # noqa: ANN401 - WSGI
        found.update(status=int(status.split(maxsplit=1)[0]), headers=dict(headers))

    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query, "HTTP_HOST": host}
    application = Application(world.context, metrics or Stored(), local=local)
    body = b"".join(application(environ, start))
    return Answered(found["status"], found["headers"], body.decode())
