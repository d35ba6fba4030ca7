"""What /healthz and /readyz answer."""

from dataclasses import dataclass
from typing import Any, cast

import pytest

from agent.health import agent_health
from agent.settings import AgentSettings, CollectSettings


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
