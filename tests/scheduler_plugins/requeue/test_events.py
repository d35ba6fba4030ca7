"""Events of rejected pods, their rate, and requeuing and Events as a component."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import pytest
from prometheus_client import CollectorRegistry

from headroom.kube import ApiServer
from headroom.kube.events import EventRecorder
from scheduler_plugins.framework.verdict import Refusal, Verdict
from scheduler_plugins.requeue.component import RequeueComponent
from scheduler_plugins.requeue.events import REPEAT_SECONDS, RefusalEventRecorder
from scheduler_plugins.requeue.metrics import RequeueMetrics
from scheduler_plugins.requeue.settings import RequeueSettings
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.pod import PodRequest
from tests.scheduler_plugins.objects import Json
from tests.scheduler_plugins.requeue.site import HOT, FreeCpu, Site, new_pod


@dataclass
class FakeRecorder:
    waiting: int = 0
    events: list[tuple[str, ...]] = field(default_factory=list)
    regarding: list[dict[str, Any]] = field(default_factory=list)
    refuses: bool = False

    async def record(self, regarding: dict[str, Any], type_: str, reason: str, action: str, note: str) -> None:
        self.events.append((regarding["name"], type_, reason, action, note))
        self.regarding.append(regarding)
        self.waiting += self.refuses

    async def flush(self) -> None:
        """Do nothing."""


class Stage(Site):
    def __init__(self, settings: RequeueSettings | None = None, plugin: object | None = None) -> None:
        super().__init__(settings, plugin)
        self.recorder = FakeRecorder()
        self.refusals = RefusalEventRecorder(
            self.unschedulable,
            self.cache,
            self.cycle,
            cast("EventRecorder", self.recorder),
            self.settings,
            self.metrics,
            self.clock,
            self.monotonic,
        )

    def refused(self, pod: PodRequest, item: Json, names: Sequence[str], verdict: Verdict) -> None:
        super().refused(pod, item, names, verdict)
        self.refusals.refused(pod, verdict)

    async def new_events(self, after: float = 1.0) -> list[str]:
        self.now += after
        before = len(self.recorder.events)
        await self.refusals.record_due()
        return [event[0] for event in self.recorder.events[before:]]


async def test_closest_node_is_named() -> None:
    stage = Stage()
    stage.set_free(a=100, b=900, c=300)
    stage.refuse("p")
    assert await stage.new_events() == ["p"]
    note = f"0/3 nodes that fit otherwise have headroom: 3 {HOT}. Closest is b: 900 milli-cores are free."
    assert stage.recorder.events == [("p", "Warning", "HeadroomRefused", "Scheduling", note)]
    assert stage.recorder.regarding[0]["uid"] == "uid-p"


async def test_unexplained_refusal_is_recorded() -> None:
    stage = Stage()
    stage.cycle._explaining.clear()
    stage.set_free(a=100)
    stage.refuse("p")
    await stage.new_events()
    assert stage.recorder.events[0][-1].endswith(f"Closest is a: {HOT}.")


async def test_same_refusal_is_recorded_once() -> None:
    stage = Stage()
    stage.set_free(a=0)
    for _ in range(5):
        stage.refuse("p")
        await stage.new_events()
    assert len(stage.recorder.events) == 1
    assert stage.counted("refusal_events_total", result="suppressed") == 4
    stage.now += REPEAT_SECONDS
    stage.refuse("p")
    assert await stage.new_events() == ["p"]


async def test_events_are_rate_limited() -> None:
    stage = Stage(RequeueSettings(events_per_second=2, event_burst=5))
    stage.set_free(a=0)
    stage.refuse(*(f"p{number:03d}" for number in range(9)))
    stage.refuse("important", priority=5)
    texts = [await stage.new_events() for _ in range(4)]
    assert [len(names) for names in texts] == [5, 2, 2, 1]
    assert texts[0][0] == "important"


async def test_bound_pods_have_no_event() -> None:
    stage = Stage()
    stage.set_free(a=0)
    stage.refuse("p", "q")
    stage.unschedulable.delete_pod("uid-p")
    stage.set_free(a=1000)
    assert await stage.new_events() == []
    assert stage.counted("refusal_events_total", result="suppressed") == 2


async def test_events_are_retried() -> None:
    stage = Stage()
    stage.recorder.refuses = True
    stage.set_free(a=0)
    stage.refuse("p", "q", "r")
    assert len(await stage.new_events()) == 1
    assert await stage.new_events() == []
    stage.recorder.refuses, stage.recorder.waiting = False, 0
    assert len(await stage.new_events()) == 2


class Share(FreeCpu):
    used: ClassVar[int] = 0

    def pre_filter(self, _pod: PodRequest, _nodes: Nodes) -> Refusal:
        type(self).used += 1
        return Refusal(f"share: {self.used} of 1 used.", kind="share exceeded")


async def test_refusal_of_pod_is_recorded_once() -> None:
    stage = Stage(plugin=Share())
    stage.set_free(a=100, b=900)
    stage.refuse("p")
    assert await stage.new_events() == ["p"]
    (*_, note) = stage.recorder.events[0]
    assert note == f"No node may have it: share: {Share.used} of 1 used."
    stage.now += 120
    assert stage.retry("p") == [False]
    assert await stage.new_events() == []


def _part(
    settings: RequeueSettings | None = None, metrics: RequeueMetrics | None = None
) -> tuple[Site, RequeueComponent]:
    site = Site.refusing()
    metrics = metrics or RequeueMetrics(CollectorRegistry())
    api = cast("ApiServer", site.api)
    return site, RequeueComponent(
        settings or RequeueSettings(), site.cache, site.cycle, api, metrics, site.clock, site.monotonic
    )


def _refuse(site: Site, component: RequeueComponent, item: dict[str, Any]) -> None:
    component.refused(site.cache.read(item), item, ["a"], Verdict.all_refused(1, Refusal(HOT)))


@pytest.mark.parametrize(
    ("settings", "background", "remembered"),
    [
        (RequeueSettings(), {"requeue", "refusal events"}, 1),
        (RequeueSettings(events=False), {"requeue"}, 1),
        (RequeueSettings(enabled=False), {"refusal events"}, 1),
        (RequeueSettings(enabled=False, events=False), set(), 0),
    ],
)
def test_settings_decide(settings: RequeueSettings, background: set[str], remembered: int) -> None:
    site, part = _part(settings)
    _refuse(site, part, new_pod("p"))
    assert set(part.background) == background
    assert len(part.unschedulable.pods) == remembered


def test_pod_without_uid_is_ignored() -> None:
    site, part = _part()
    item = new_pod("p")
    del item["metadata"]["uid"]
    _refuse(site, part, item)
    assert len(part.unschedulable.pods) == 0


def test_wait_is_measured() -> None:
    metrics = RequeueMetrics(CollectorRegistry())
    site, part = _part(metrics=metrics)
    _refuse(site, part, new_pod("p"))
    _refuse(site, part, new_pod("q"))
    site.now += 42
    part.unschedulable.delete_pod("uid-q")
    bound = new_pod("p")
    bound["spec"]["nodeName"] = "a"
    part.unschedulable.put_pod(bound)
    (family,) = metrics.waited.collect()
    result = {sample.name.rpartition("_")[2]: sample.value for sample in family.samples}
    assert (result["count"], result["sum"]) == (1, 42)
