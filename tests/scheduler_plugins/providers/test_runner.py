"""Polling a provider: the runner keeps readings when it fails, and reports its state."""

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from scheduler_plugins.providers.provider import AVERAGE, CPU, Answer, NodeAnswer, ProviderError
from scheduler_plugins.providers.runner import LONGEST_PAUSE, Match, ProviderMetrics, Runner
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.report import Statistic, Utilisation
from tests.scheduler_plugins.providers.server import NOW


def answer(**usage: float) -> Answer:
    metrics = {node: [{"type": CPU, "operator": AVERAGE, "value": value}] for node, value in usage.items()}
    return Answer({node: NodeAnswer(inputs, NOW - 10) for node, inputs in metrics.items()})


class Scripted:
    name, address, smoothed = "Scripted", "http://there", True

    def __init__(self, *script: Answer | Exception) -> None:
        self.script = list(script)

    async def fetch(self, now: float) -> Answer:  # noqa: ARG002
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(said, Exception):
            raise said
        return said


class FakeCache:
    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes
        self.readings: dict[str, Utilisation] = {}
        self.steps: list[int] = []

    def retain_readings(self, plugin: str, names: AbstractSet[str]) -> None:
        assert plugin == "P"
        self.readings = {name: reading for name, reading in self.readings.items() if name in names}

    def update_readings(self, plugin: str, readings: Mapping[str, Utilisation]) -> None:
        assert plugin == "P"
        self.readings |= readings
        self.steps.append(len(readings))

    def freeze(self, now: float) -> None:
        """Do nothing."""


class Trial:
    def __init__(self, *script: Answer | Exception, nodes: Sequence[str] = ("a", "b")) -> None:
        self.now = NOW
        self.slept: list[float] = []
        self.kept = FakeCache(nodes)
        self.registry = CollectorRegistry()
        self.runner = Runner(
            Scripted(*script),
            "P",
            cast("ClusterCache", self.kept),
            30.0,
            ProviderMetrics(self.registry),
            clock=lambda: self.now,
            sleep=self._sleep,
            lots=random.Random(1),  # noqa: S311
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        if len(self.slept) == 20:
            raise asyncio.CancelledError

    async def polls(self, count: int) -> None:
        for _ in range(count):
            await self.runner.poll()
            self.now += 1

    def metric(self, name: str) -> list[str]:
        lines = generate_latest(self.registry).decode().splitlines()
        return [line.removeprefix(f"headroom_scheduler_provider_{name}") for line in lines if f"_{name}{{" in line]


async def test_answer_is_put() -> None:
    trial = Trial(answer(a=50.0), answer(b=2.0))
    await trial.polls(1)
    assert trial.kept.readings == {"a": Utilisation(Statistic(50.0), None, NOW - 10, smoothed=True)}
    await trial.polls(1)
    assert set(trial.kept.readings) == {"b"}


async def test_failure_keeps_the_last_answer() -> None:
    trial = Trial(answer(a=50.0, b=1.0), ProviderError("no answer within 10 s"))
    await trial.polls(3)
    assert set(trial.kept.readings) == {"a", "b"}
    assert trial.runner.state() == (
        "Scripted at http://there: failed 2 times in a row: no answer within 10 s; last answer 3 s ago; "
        "2 of 2 nodes matched; oldest reading 13 s old"
    )


async def test_empty_answer_is_a_failure() -> None:
    """A response without nodes (the rules were deleted) keeps the last readings, and is reported."""
    trial = Trial(answer(a=50.0, b=1.0), Answer({}, unusable=4))
    await trial.polls(2)
    assert set(trial.kept.readings) == {"a", "b"}
    assert "the answer has no node, and 4 values that are no measurements" in trial.runner.state()


async def test_any_exception_is_handled(caplog: pytest.LogCaptureFixture) -> None:
    trial = Trial(ZeroDivisionError("oh"))
    await trial.polls(1)
    assert trial.runner.state() == "Scripted at http://there: failed once: ZeroDivisionError: oh"
    assert "Traceback" in caplog.text


async def test_backoff_grows_and_ends() -> None:
    trial = Trial(*[ProviderError("no")] * 10, answer(a=1.0))
    with pytest.raises(asyncio.CancelledError):
        await trial.runner.run()
    expected = [min(2.0 * 2**n, LONGEST_PAUSE) for n in range(10)] + [30.0] * 10
    assert all(0.9 * usual <= slept <= 1.1 * usual for slept, usual in zip(trial.slept, expected, strict=True))
    assert len(set(trial.slept)) == 20


async def test_names_are_compared() -> None:
    trial = Trial(answer(**{"a": 1.0, "10.0.0.1:9100": 2.0}))
    await trial.polls(1)
    assert "1 of 2 nodes matched, without b, 1 names are no nodes: 10.0.0.1:9100;" in trial.runner.state()
    trial = Trial(answer(**{"10.0.0.1:9100": 2.0}))
    await trial.polls(1)
    assert "metricProvider.nodeLabel and nodePattern map their names to nodes" in trial.runner.state()


def test_many_names_are_cut() -> None:
    match = Match.of({f"x{i:04}": 1 for i in range(5000)}, [f"n{i:04}" for i in range(5000)])
    assert match.sentence() == (
        "0 of 5000 nodes matched, without n0000, n0001, n0002 and 4997 more, 5000 names are no nodes: x0000, x0001, "
        "x0002 and 4997 more; metricProvider.nodeLabel and nodePattern map their names to nodes"
    )


async def test_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trial = Trial(answer(a=1.0), ProviderError("no"), ProviderError("no"), answer(a=1.0))
    await trial.polls(5)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "INFO"]
    assert "gives nothing: no" in caplog.records[1].message


async def test_metrics_are_counted() -> None:
    trial = Trial(answer(a=1.0, x=2.0), ProviderError("no"))
    await trial.polls(3)
    label = 'plugin="P",provider="Scripted"'
    assert f'{{outcome="answered",{label}}} 1.0' in trial.metric("fetch_seconds_count")
    assert f'{{outcome="failed",{label}}} 2.0' in trial.metric("fetch_seconds_count")
    assert f'{{{label},state="unknown"}} 1.0' in trial.metric("nodes")
    assert f'{{{label},state="missing"}} 1.0' in trial.metric("nodes")
    assert trial.metric("last_answer_timestamp_seconds") == [
        f"{{{label}}} {NOW!r}".replace("1735689600.0", "1.7356896e+09")
    ]
    assert trial.metric("unusable_values_total") == [f"{{{label}}} 0.0"]
