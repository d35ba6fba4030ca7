"""Health and metrics over HTTP."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp

from agent.health import Page, pages
from agent.metrics import Metrics
from headroom.runtime import http
from headroom.runtime.health import Health

Get = Callable[[str], "aiohttp.client._RequestContextManager"]


@asynccontextmanager
async def _served(
    health: Health, more: dict[str, Page] | None = None, metrics: Metrics | None = None
) -> AsyncIterator[Get]:
    served = await http.serve(pages((metrics or Metrics()).render, health, more), "127.0.0.1", 0, None, http.OPEN)
    try:
        async with aiohttp.ClientSession() as session:
            yield lambda path: session.get(f"http://127.0.0.1:{served.port}{path}")
    finally:
        await served.close()


async def _answer(get: Get, path: str) -> tuple[int, str]:
    async with get(path) as answer:
        return answer.status, await answer.text()


async def test_pages_are_served() -> None:
    """Health, metrics and further pages are at their paths."""
    metrics = Metrics()
    metrics.gaps.labels("cpu", "first-reading").inc()
    health = Health(facts={"machine": lambda: "cgroup v2"})
    async with _served(health, {"/nodemetric": Page(lambda: '{"kind": "NodeMetric"}', http.JSON)}, metrics) as get:
        assert await _answer(get, "/healthz") == (200, "ok\n")
        assert await _answer(get, "/readyz") == (200, "ready\n")
        assert await _answer(get, "/livez") == (200, "ok\n")
        assert "cgroup v2" in (await _answer(get, "/healthz?verbose"))[1]
        async with get("/nodemetric") as answer:
            assert await answer.json() == {"kind": "NodeMetric"}
        status, text = await _answer(get, "/metrics")
        assert status == 200
        assert 'headroom_agent_gaps_total{metric="cpu",reason="first-reading"} 1.0' in text
        assert (await _answer(get, "/nothing"))[0] == 404


async def test_problem_is_unhealthy() -> None:
    """A check that does not hold answers 503, and says which and why."""
    problem = ["the last tick was 40 s ago"]
    async with _served(Health(healthy={"ticks": lambda: problem[0], "fine": lambda: ""})) as get:
        for path in ("/healthz?verbose", "/readyz?verbose"):
            status, text = await _answer(get, path)
            assert status == 503
            assert "[-] ticks: the last tick was 40 s ago" in text
            assert "[+] fine" in text
        assert await _answer(get, "/livez") == (200, "ok\n")  # a restart would cure neither a full disk nor a slow one
        problem[0] = ""
        assert (await _answer(get, "/healthz"))[0] == 200


async def test_unready_is_healthy() -> None:
    """What is not ready yet does its work: /healthz tells it, and is well."""
    async with _served(Health(healthy={"ticks": lambda: ""}, ready={"pods": lambda: "not listed yet"})) as get:
        assert await _answer(get, "/healthz") == (200, "ok\n")
        status, text = await _answer(get, "/healthz?verbose")
        assert status == 200
        assert "ready, pods: not listed yet" in text
        assert await _answer(get, "/readyz") == (503, "[-] pods: not listed yet\nnot ready\n")


async def test_failing_page_is_told() -> None:
    """A page that cannot be made now says why, in one line."""

    def fail() -> str:
        raise RuntimeError("cannot write /data/agent.db: disk I/O error")

    async with _served(Health(), {"/nodemetric": Page(fail)}) as get:
        assert await _answer(get, "/nodemetric") == (503, "cannot write /data/agent.db: disk I/O error\n")


def test_metrics_do_not_collide() -> None:
    """Two agents in one process have a registry each."""
    first, second = Metrics(), Metrics()
    first.samples.inc(3)
    assert b"headroom_agent_samples_total 0.0" in second.render()
