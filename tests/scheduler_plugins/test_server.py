"""The extender over HTTP."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from scheduler_plugins.extender.server import Server
from scheduler_plugins.extender.service import Answering, Extender
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.plugins.load_aware import NAME
from scheduler_plugins.telemetry import Telemetry
from tests.scheduler_plugins.objects import NOW, Json, World, node, node_metric, pod

Client = TestClient[web.Request, web.Application]


class Site:
    """A server whose health a test can change."""

    def __init__(self, world: World) -> None:
        self.missing: list[str] = []
        self.complaints: list[str] = []
        telemetry = Telemetry()
        cycle = Cycle([Enabled(NAME, 1.0, world.plugin)], telemetry.observe_plugin)
        extender = Extender(world.cache, cycle, Answering(), lambda: NOW, np.random.default_rng(1))
        self.server = Server(extender, lambda: self.missing, lambda: self.complaints, telemetry)


@pytest.fixture
async def site() -> Site:
    """Two nodes, one of them hot."""
    world = World()
    return Site(world.put(node("a"), node_metric("a", cpu="10"), node("hot"), node_metric("hot", cpu="90")))


@pytest.fixture
async def client(site: Site) -> AsyncIterator[Client]:
    """A client of it."""
    async with TestClient(TestServer(site.server.application())) as client:
        yield client


@pytest.fixture
def ask(client: Client) -> Callable[..., Awaitable[tuple[int, Any]]]:
    """Post a request: verb, node names, pod."""

    async def post(verb: str, names: list[str], item: Json | None = None) -> tuple[int, Any]:
        body = {"Pod": item or pod(), "Nodes": None, "NodeNames": names}
        async with client.post(f"/{verb}", json=body) as response:
            return response.status, await response.json()

    return post


Ask = Callable[..., Awaitable[tuple[int, Any]]]


async def test_filter_answers(ask: Ask) -> None:
    """POST /filter gives the nodes that pass."""
    status, reply = await ask("filter", ["a", "hot"])
    assert (status, reply["NodeNames"], reply["Error"]) == (200, ["a"], "")


async def test_refusal_has_reasons(ask: Ask, client: Client) -> None:
    """When nothing is left the reasons are in the answer, and counted."""
    _, reply = await ask("filter", ["hot"])
    assert reply["NodeNames"] == []
    assert reply["FailedAndUnresolvableNodes"] == {"hot": "node(s) cpu usage exceed threshold"}
    async with client.get("/metrics") as response:
        text = await response.text()
    assert 'refused_pods_total{reason="node(s) cpu usage exceed threshold"} 1.0' in text
    assert 'request_seconds_count{outcome="refused_all",verb="filter"} 1.0' in text


async def test_prioritize_answers(ask: Ask) -> None:
    """POST /prioritize gives a score for every node, in order."""
    status, reply = await ask("prioritize", ["hot", "a"], pod(priority=3500))
    assert (status, reply) == (200, [{"Host": "hot", "Score": 50}, {"Host": "a", "Score": 90}])


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
async def test_bad_body_is_refused(client: Client, verb: str) -> None:
    """A body that is no request is a 400 with the reason."""
    async with client.post(f"/{verb}", data=b"{}") as response:
        assert response.status == 400
        assert "Pod: is missing" in (await response.json())["Error"]


async def test_large_body_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body over the limit is not read."""
    monkeypatch.setattr(client.app, "_client_max_size", 1000)
    async with client.post("/filter", data=b"x" * 2000) as response:
        assert response.status == 413


async def test_trouble_is_told(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    """A pod that cannot be judged gets an Error that its event quotes; the server lives on."""
    status, reply = await ask("filter", ["a"], pod(requests={"cpu": "lots"}))
    assert status == 200
    assert "'lots' is not a quantity" in reply["Error"]
    assert reply["NodeNames"] == []
    status, reply = await ask("prioritize", ["a"], pod(requests={"cpu": "lots"}))
    assert status == 500
    assert "default/p" in caplog.text
    assert "Traceback" not in caplog.text
    assert (await ask("filter", ["a"]))[1]["NodeNames"] == ["a"]


async def test_unsynced_does_not_judge(site: Site, ask: Ask) -> None:
    """Before the cluster is known nothing is answered but that."""
    site.missing = ["Nodes have not been listed yet"]
    _, reply = await ask("filter", ["a"])
    assert reply["Error"] == "headroom-scheduler does not know the cluster yet: Nodes have not been listed yet"
    status, _ = await ask("prioritize", ["a"])
    assert status == 503


async def test_health_follows_watches(site: Site, client: Client) -> None:
    """/healthz is 200 while all is well and 503 with the reasons otherwise."""
    async with client.get("/healthz") as response:
        assert (response.status, await response.text()) == (200, "ok\n")
    site.complaints = ["Pods: the API server has not been heard for 200 s"]
    async with client.get("/healthz") as response:
        assert (response.status, await response.text()) == (503, "Pods: the API server has not been heard for 200 s\n")
    async with client.get("/livez") as response:
        assert response.status == 200


async def test_stale_still_answers(site: Site, ask: Ask) -> None:
    """While the API server is away the last known state is served."""
    site.complaints = ["away"]
    assert (await ask("filter", ["a"]))[1]["NodeNames"] == ["a"]


async def test_replies_are_plain_json(client: Client) -> None:
    """The reply is what Go decodes: application/json, integers, no names that were not sent."""
    body = {"Pod": pod(), "Nodes": None, "NodeNames": ["a"]}
    async with client.post("/prioritize", json=body) as response:
        assert response.content_type == "application/json"
        assert isinstance(json.loads(await response.text())[0]["Score"], int)
