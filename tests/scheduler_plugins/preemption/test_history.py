"""Runs with kills, changes of leader, delayed writes and late watches, checked as histories."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from headroom.kube import ApiUnavailable
from headroom.kube.lease import NotLeading
from tests.scheduler_plugins.preemption.plays import Play
from tools.soak.quota_history import Bound, Ended, Evicted, LeaseTaken, QuotaWritten, faults

ROUNDS = 60


class Died(BaseException):
    """The process ended here."""


class Run:
    def __init__(self, seed: int) -> None:
        self.lot = random.Random(seed)  # noqa: S311 - a repeatable test
        self.play = Play()
        self.server = self.play.server
        self.leaders = 0
        self.server.history += [QuotaWritten(0, "a", {"gpu": 3}), QuotaWritten(0, "b", {"gpu": 3})]
        for name in ("b2", "b3"):
            self.play.wait("b", name, 1)
        self.server.before = self.problem
        self.lead()

    @property
    def at(self) -> float:
        return float(len(self.server.log))

    def lead(self) -> None:
        self.leaders += 1
        self.server.writer = f"leader-{self.leaders}"
        self.server.history.append(LeaseTaken(self.at, self.server.writer))
        self.play.start()

    def problem(self, _request: str) -> None:
        what = self.lot.random()
        if what < 0.05:
            raise Died
        if what < 0.1:
            raise ApiUnavailable("away")
        if what < 0.12:
            raise NotLeading("this replica no longer leads")

    def next_event(self) -> None:
        leaving = [pod for pod in self.server.pods.values() if "deletionTimestamp" in pod["metadata"]]
        some: list[Callable[[], None]] = [self.play.watch, self.play.watch, self.lead, self.late]
        if leaving:
            some.append(lambda: self.end(self.lot.choice(leaving)))
        self.lot.choice(some)()
        self.bind()

    def late(self) -> None:
        self.play.now += self.lot.choice([0.5, 1, 5, 200])

    def end(self, pod: dict[str, Any]) -> None:
        path = next(path for path, other in self.server.pods.items() if other is pod)
        del self.server.pods[path]
        self.server.history.append(Ended(self.at, pod["metadata"]["uid"]))

    def bind(self) -> None:
        there = [pod for pod in self.server.pods.values() if pod["spec"].get("nodeName")]
        free = 3 - sum(map(_gpus, there))
        for pod in self.server.pods.values():
            node = pod["status"].get("nominatedNodeName")
            if node and not pod["spec"].get("nodeName") and _gpus(pod) <= free and self.lot.random() < 0.5:
                pod["spec"]["nodeName"] = node
                self.server.version += 1
                pod["metadata"]["resourceVersion"] = str(self.server.version)
                self.server.history.append(Bound(self.at, pod["metadata"]["uid"], "b", {"gpu": _gpus(pod)}, 0))
                return

    async def live(self) -> None:
        for _ in range(ROUNDS):
            try:
                await self.play.controller.reconcile()
            except Died:
                self.lead()
            except (ApiUnavailable, NotLeading):
                pass  # the next round retries
            self.next_event()
            self.play.now += 1


def _gpus(pod: dict[str, Any]) -> int:
    (container,) = pod["spec"]["containers"]
    return int(container["resources"]["requests"]["nvidia.com/gpu"])


@pytest.mark.parametrize("seed", range(20))
async def test_history_has_no_faults(seed: int) -> None:
    run = Run(seed)
    await run.live()
    assert faults(run.server.history) == []
    assert run.leaders > 1


async def test_histories_have_evictions() -> None:
    evicted = 0
    for seed in range(10):
        run = Run(seed)
        await run.live()
        evicted += sum(isinstance(event, Evicted) for event in run.server.history)
    assert evicted >= 5
