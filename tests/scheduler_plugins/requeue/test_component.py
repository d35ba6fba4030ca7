"""Requeuing and Events as a component of the extender."""

from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from headroom.kube import ApiServer
from scheduler_plugins.framework.verdict import Refusal, Verdict
from scheduler_plugins.requeue.component import RequeueComponent
from scheduler_plugins.requeue.metrics import RequeueMetrics
from scheduler_plugins.requeue.settings import RequeueSettings
from tests.scheduler_plugins.requeue.site import HOT, Site, made


def _part(
    settings: RequeueSettings | None = None, metrics: RequeueMetrics | None = None
) -> tuple[Site, RequeueComponent]:
    site = Site()
    site.room(a=0)
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
    _refuse(site, part, made("p"))
    assert set(part.background) == background
    assert len(part.unschedulable.pods) == remembered


def test_pod_without_uid_is_nobody() -> None:
    site, part = _part()
    item = made("p")
    del item["metadata"]["uid"]
    _refuse(site, part, item)
    assert len(part.unschedulable.pods) == 0


def test_wait_is_measured() -> None:
    metrics = RequeueMetrics(CollectorRegistry())
    site, part = _part(metrics=metrics)
    _refuse(site, part, made("p"))
    _refuse(site, part, made("q"))
    site.now += 42
    part.unschedulable.delete_pod("uid-q")
    bound = made("p")
    bound["spec"]["nodeName"] = "a"
    part.unschedulable.put_pod(bound)
    (family,) = metrics.waited.collect()
    found = {sample.name.rpartition("_")[2]: sample.value for sample in family.samples}
    assert (found["count"], found["sum"]) == (1, 42)
