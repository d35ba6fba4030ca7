from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pytest

from agent.health import Page, agent_health, pages
from agent.metrics import Metrics
from agent.settings import AgentSettings, CollectSettings
from headroom.runtime import http
from headroom.runtime.health import Health
from headroom.runtime.http.pages import Pages, Reply, Request, reply_to


@dataclass
class Signs:
    ticked_at: float | None = None
    node_measured_at: float | None = None
    store_failing_since: float | None = None
    store_problem: str = ""


@dataclass
class Pods:
    synced: bool
    problem: str = ""


FULL = Signs(1000.0, 1000.0, 700.0, "cannot write agent.db: database or disk is full")


@pytest.mark.parametrize(
    ("signs", "now", "interval", "healthy", "ready", "said"),
    [
        (Signs(), 1.0, 1.0, True, False, "[-] node: CPU and memory of the node were not measured yet"),
        (Signs(100.0, 100.0), 101.0, 1.0, True, True, "machine: cgroup v2"),
        # without ticks for 15 seconds, or three intervals, it is unhealthy
        (Signs(), 16.0, 1.0, False, False, "no tick was made for 16 s"),  # never one since the start
        (Signs(100.0, 100.0), 116.0, 1.0, False, False, "the last tick was made 16 s ago"),
        (Signs(100.0, 115.0), 115.0, 1.0, True, True, ""),
        (Signs(100.0, 100.0), 270.0, 60.0, True, True, ""),
        (Signs(100.0, 100.0), 290.0, 60.0, False, False, "the last tick was made 190 s ago"),
        # a node that can no longer be measured, and a disk that is full for five minutes, make it unready
        (Signs(100.0, 80.0), 101.0, 1.0, True, False, "the node was last measured 21 s ago"),
        (FULL, 1000.0, 1.0, True, True, ""),
        (FULL, 1001.0, 1.0, True, False, "samples are kept in memory for 301 s: cannot write agent.db"),
    ],
)
def test_health_of_an_agent(
    signs: Signs, now: float, interval: float, *, healthy: bool, ready: bool, said: str
) -> None:
    assert _answers(signs, now, Pods(synced=True), interval)[:2] == (healthy, ready)
    assert said in _answers(signs, now, Pods(synced=True), interval)[2]


def test_agent_is_unready_until_pods_are_listed() -> None:
    healthy, ready, text = _answers(Signs(100.0, 100.0), 101.0, Pods(synced=False, problem="connection refused"))
    assert (healthy, ready) == (True, False)
    assert "[-] pods: the pods of this node were not listed yet: connection refused" in text


def _answers(signs: Signs, now: float, pods: Pods, interval: float = 1.0) -> tuple[bool, bool, str]:
    settings, times = AgentSettings(collect=CollectSettings(interval_seconds=interval)), iter([0.0])  # when it began
    facts = {"machine": lambda: "cgroup v2"}
    health = agent_health(settings, cast("Any", signs), cast("Any", pods), lambda: next(times, now), facts)
    ready, text = health.reply(ready=True, verbose=True)
    return health.reply(ready=False, verbose=False)[0], ready, text


async def _get(url: str, served: Pages) -> tuple[int, str]:
    path, _, query = url.partition("?")
    made = reply_to(served, Request("GET", path, {query: ""} if query else {}))
    reply = made if isinstance(made, Reply) else await made
    return reply.status, reply.body.decode()


async def test_pages_are_served() -> None:
    """A page that cannot be made now says why, in one line."""

    def fail() -> str:
        raise RuntimeError("cannot write /data/agent.db: disk I/O error")

    metrics, health = Metrics(), Health(facts={"machine": lambda: "cgroup v2"})
    metrics.gaps.labels("cpu", "first-reading").inc()
    more = {"/nodemetric": Page(lambda: '{"kind": "NodeMetric"}', http.JSON), "/table": Page(fail)}
    get = partial(_get, served=pages(metrics.render, health, more))
    assert await get("/healthz") == await get("/livez") == (200, "ok\n")
    assert await get("/readyz") == (200, "ready\n")
    assert "cgroup v2" in (await get("/healthz?verbose"))[1]
    assert await get("/nodemetric") == (200, '{"kind": "NodeMetric"}')
    assert await get("/table") == (503, "cannot write /data/agent.db: disk I/O error\n")
    assert 'headroom_agent_gaps_total{metric="cpu",reason="first-reading"} 1.0' in (await get("/metrics"))[1]
    assert (await get("/nothing"))[0] == 404


async def test_check_that_does_not_hold_is_503_with_the_reason() -> None:
    """A restart does not help with a full or slow disk: /livez passes. A component that is not ready still works."""
    problem = ["the last tick was 40 s ago"]
    healthy = {"ticks": lambda: problem[0], "fine": lambda: ""}
    health = Health(healthy=healthy, ready={"pods": lambda: "not listed yet"})
    get = partial(_get, served=pages(Metrics().render, health))
    for path in ("/healthz?verbose", "/readyz?verbose"):
        status, text = await get(path)
        assert status == 503
        assert "[-] ticks: the last tick was 40 s ago" in text
        assert "[+] fine" in text
    assert await get("/livez") == (200, "ok\n")
    problem[0] = ""
    assert await get("/healthz") == (200, "ok\n")
    assert "ready, pods: not listed yet" in (await get("/healthz?verbose"))[1]
    assert await get("/readyz") == (503, "[-] pods: not listed yet\nnot ready\n")
