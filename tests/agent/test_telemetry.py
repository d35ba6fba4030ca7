"""Health and metrics over HTTP."""

import socket

import aiohttp
import pytest

from agent.telemetry import Health, Metrics, TelemetryServer


async def _get(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_pages_are_served() -> None:
    """Health, metrics and further pages are at their paths."""
    metrics = Metrics()
    metrics.gaps.labels("cpu", "first-reading").inc()
    health = Health(facts={"machine": lambda: "cgroup v2"})
    server = TelemetryServer(metrics, health, {"/nodemetric": lambda: "kind: NodeMetric"})
    port = await server.start("127.0.0.1", 0)
    try:
        assert await _get(port, "/healthz") == (200, "ok\n")
        assert "cgroup v2" in (await _get(port, "/healthz?verbose"))[1]
        assert await _get(port, "/nodemetric") == (200, "kind: NodeMetric")
        status, text = await _get(port, "/metrics")
        assert status == 200
        assert 'headroom_agent_gaps_total{metric="cpu",reason="first-reading"} 1.0' in text
        assert (await _get(port, "/nothing"))[0] == 404
    finally:
        await server.stop()


async def test_problem_is_unhealthy() -> None:
    """A check that does not hold answers 503, and says which and why."""
    problem = ["the last tick was stored 40 s ago"]
    server = TelemetryServer(Metrics(), Health(checks={"ticks": lambda: problem[0], "fine": lambda: ""}))
    port = await server.start("127.0.0.1", 0)
    try:
        status, text = await _get(port, "/healthz?verbose")
        assert status == 503
        assert "[-] ticks: the last tick was stored 40 s ago" in text
        assert "[+] fine" in text
        assert await _get(port, "/livez") == (200, "ok\n")  # a restart would cure neither a full disk nor a slow one
        problem[0] = ""
        assert (await _get(port, "/healthz"))[0] == 200
    finally:
        await server.stop()


async def test_port_in_use_is_refused() -> None:
    """A port that is taken is an error of the system, which the entry point turns into one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = TelemetryServer(Metrics(), Health())
        with pytest.raises(OSError, match="in use"):
            await server.start("127.0.0.1", taken.getsockname()[1])
        await server.stop()


def test_metrics_do_not_collide() -> None:
    """Two agents in one process have a registry each."""
    first, second = Metrics(), Metrics()
    first.samples.inc(3)
    assert b"headroom_agent_samples_total 0.0" in second.exposition()
