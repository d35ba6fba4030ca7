"""What /healthz and /readyz answer, and that they and other pages are served."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
import pytest

from agent.health import Page, agent_health, pages
from agent.metrics import Metrics
from agent.settings import AgentSettings, CollectSettings
from headroom.runtime import http
from headroom.runtime.health import Health


@dataclass
class Signs:
    """A pipeline (fake)."""

    ticked_at: float | None = None
    node_measured_at: float | None = None
    store_failing_since: float | None = None
    store_problem: str = ""


@dataclass
class Pods:
    """A pod source (fake)."""

    synced: bool
    problem: str = ""


def _answers(signs: Signs, now: float, *, synced: bool = True, interval: float = 1.0) -> tuple[bool, bool, str]:
    settings = AgentSettings(collect=CollectSettings(interval_seconds=interval))
    times = iter([0.0])  # when it began
    pods = Pods(synced, "" if synced else "connection refused")
    facts = {"machine": lambda: "cgroup v2"}
    health = agent_health(settings, cast("Any", signs), cast("Any", pods), lambda: next(times, now), facts)
    healthy, _ = health.answer(ready=False, verbose=False)
    ready, text = health.answer(ready=True, verbose=True)
    return healthy, ready, text


def test_start_is_healthy() -> None:
    """Before the first tick the agent is healthy and not ready: the node was not measured."""
    healthy, ready, text = _answers(Signs(), 1.0, synced=False)
    assert (healthy, ready) == (True, False)
    assert "[-] node: CPU and memory of the node were not measured yet" in text
    assert "[-] pods: the pods of this node were not listed yet: connection refused" in text


def test_measured_is_ready() -> None:
    """With ticks, the node measured and the pods listed it is ready."""
    healthy, ready, text = _answers(Signs(100.0, 100.0), 101.0)
    assert (healthy, ready) == (True, True)
    assert "machine: cgroup v2" in text


@pytest.mark.parametrize(
    ("signs", "now", "interval", "problem"),
    [
        (Signs(), 16.0, 1.0, "no tick was made for 16 s"),  # never one since the start
        (Signs(100.0, 100.0), 116.0, 1.0, "the last tick was made 16 s ago"),
        (Signs(100.0, 100.0), 115.0, 1.0, ""),
        (Signs(100.0, 100.0), 270.0, 60.0, ""),  # a tick a minute: three of them may fail to come
        (Signs(100.0, 100.0), 290.0, 60.0, "the last tick was made 190 s ago"),
    ],
)
def test_missing_ticks_are_unhealthy(signs: Signs, now: float, interval: float, problem: str) -> None:
    """Without ticks for 15 seconds, or three intervals, the agent is unhealthy."""
    healthy, _, text = _answers(signs, now, interval=interval)
    assert healthy is not bool(problem)
    assert problem in text


def test_unmeasured_node_is_unready() -> None:
    """A node that can no longer be measured makes the agent unready, not unhealthy: its ticks go on."""
    healthy, ready, text = _answers(Signs(100.0, 80.0), 101.0)
    assert (healthy, ready) == (True, False)
    assert "the node was last measured 21 s ago" in text


def test_failing_store_is_unready_later() -> None:
    """A disk may be full for five minutes before the agent says that it is not ready."""
    full = Signs(1000.0, 1000.0, 700.0, "cannot write agent.db: database or disk is full")
    assert _answers(full, 1000.0)[:2] == (True, True)
    healthy, ready, text = _answers(full, 1001.0)
    assert (healthy, ready) == (True, False)
    assert "samples are kept in memory for 301 s: cannot write agent.db" in text


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
