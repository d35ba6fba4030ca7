"""An eviction with lost responses, pods that end early again, and pods that were bound beyond max."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from headroom.kube import ApiServer, ApiUnavailable
from headroom.kube.lease import NotLeading
from headroom.runtime.backoff import Backoff
from scheduler_plugins.preemption.eviction import Evicted, Outcome, evict
from scheduler_plugins.preemption.eviction_backoff import EARLY_SECONDS, WorkloadBackoff
from scheduler_plugins.preemption.selection.context import BudgetsRule
from scheduler_plugins.preemption.settings import OverMaxRule
from scheduler_plugins.quota.over_max import over_max_usage
from tests.scheduler_plugins.preemption.plays import Play
from tests.scheduler_plugins.preemption.worlds import GPU, NOW

LOST = [ApiUnavailable("the response timed out"), NotLeading("this replica no longer leads")]
Json = dict[str, Any]


async def evict_victim(play: Play, rule: BudgetsRule) -> Outcome:
    return await evict(cast("ApiServer", play.server), play.world.cluster.pods["a/a2"], rule, "", NOW)


def lose_responses(play: Play, verb: str, error: ApiUnavailable) -> None:
    method: Callable[..., Any] = getattr(play.server, verb)

    async def respond(*given: Any, **named: Any) -> Json:  # noqa: ANN401 - arguments of the method
        await method(*given, **named)
        raise error

    setattr(play.server, verb, respond)


@pytest.mark.parametrize("error", LOST)
@pytest.mark.parametrize(("rule", "verb"), [(BudgetsRule.RESPECT, "create"), (BudgetsRule.COUNT, "delete")])
async def test_response_is_lost(rule: BudgetsRule, verb: str, error: ApiUnavailable) -> None:
    """A pod that terminates despite a lost response is evicted: the controller reads it once more."""
    play = Play()
    lose_responses(play, verb, error)
    assert (await evict_victim(play, rule)).result is Evicted.EVICTED
    assert play.server.evicted == ["a2"]


@pytest.mark.parametrize("error", LOST)
@pytest.mark.parametrize("rule", list(BudgetsRule))
async def test_request_is_lost(rule: BudgetsRule, error: ApiUnavailable) -> None:
    play = Play()
    play.server.fail("EVICT" if rule is BudgetsRule.RESPECT else "PATCH", error)
    with pytest.raises(type(error)):
        await evict_victim(play, rule)
    assert play.server.evicted == []


@pytest.mark.parametrize("error", LOST)
async def test_eviction_is_recorded_without_condition(error: ApiUnavailable, monkeypatch: pytest.MonkeyPatch) -> None:
    play, texts = Play(), list[tuple[str, str]]()
    play.server.fail("PATCH a2", error)
    monkeypatch.setattr(
        play.controller._recorder, "did", lambda pod, _type, reason, _: texts.append((pod.name, reason))
    )
    await play.live(3)
    assert play.server.evicted == ["a2"]
    assert texts == [("b1", "Reclaiming"), ("a2", "Preempted")]
    assert play.registry.get_sample_value("headroom_scheduler_reclaim_evictions_total", {"result": "evicted"}) == 1


BACK_OFF = Backoff(60, 300)


def test_early_end_counts() -> None:
    guard, now = WorkloadBackoff(BACK_OFF), 0.0
    for wait in (60, 120):
        guard.freed_resources("uid", "ns/Job/j", now)
        guard.reconcile({"uid"}, now + 1)
        assert guard.waits("ns/Job/j", now + 1) == 0
        now += EARLY_SECONDS - 1
        guard.reconcile(set(), now)
        assert guard.waits("ns/Job/j", now) == wait
        assert guard.waits("ns/Job/another", now) == 0
        now += wait
        assert guard.waits("ns/Job/j", now) == 0


def test_late_end_does_not() -> None:
    """A pod that stayed used its resources, whenever it ends."""
    guard = WorkloadBackoff(BACK_OFF)
    guard.freed_resources("uid", "w", 0.0)
    guard.reconcile({"uid"}, EARLY_SECONDS)
    guard.reconcile(set(), EARLY_SECONDS + 1)
    assert guard.waits("w", EARLY_SECONDS + 1) == 0


def test_backoff_is_reset() -> None:
    guard = WorkloadBackoff(BACK_OFF)
    guard.freed_resources("one", "w", 0.0)
    guard.reconcile(set(), 10.0)
    guard.reconcile(set(), 10.0 + 60 + 300)
    guard.freed_resources("two", "w", 400.0)
    guard.reconcile(set(), 410.0)
    assert guard.waits("w", 410.0) == 60


QUOTA = {
    "metadata": {
        "name": "q", "namespace": "a", "uid": "q-a", "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [
            {"manager": "kubectl", "time": "2026-01-01T00:01:00Z"},
            {"manager": "headroom-scheduler", "subresource": "status", "time": "2026-01-01T09:00:00Z"},
        ],
    },
    "spec": {"min": {GPU: "1"}, "max": {GPU: "2"}},
}  # fmt: skip


def _play(rule: OverMaxRule, **settings: Any) -> Play:  # noqa: ANN401 - of ReclaimSettings
    """Return a play in which team a has a quota of 2 and two older pods; b1 of the other team needs no resources."""
    play = Play(over_max=rule, **settings)
    play.end("b1")
    for uid in list(play.world.cluster.quota_objects):
        play.world.cluster.delete_quota(uid)
    play.world.cluster.put_quota(QUOTA)
    play.watch()
    return play


def _late(play: Play, name: str, second: int, priority: int = 0, gpus: int = 1) -> None:
    started = f"2026-01-01T00:02:{second:02}Z"
    status = {"phase": "Running", "startTime": started}
    play.add("a", name, gpus, {"nodeName": "n1", "priority": priority}, status)
    play.watch()


def _named(play: Play) -> list[str]:
    result = over_max_usage(
        play.world.cluster.ledger, play.world.cluster.pods.values(), play.world.cluster.quota_objects
    )
    return [pod.name for entry in result for pod in entry.pods]


def test_pods_beyond_max() -> None:
    play = _play(OverMaxRule.REPORT)
    assert _named(play) == []
    _late(play, "late1", 1)
    assert _named(play) == ["late1"]
    _late(play, "late2", 2)
    assert _named(play) == ["late2", "late1"]
    _late(play, "vip", 3, priority=100)
    assert _named(play) == ["late2", "late1", "vip"]
    play.end("a1")
    assert _named(play) == ["late2", "late1"]


def test_lowered_max_selects_no_pods() -> None:
    play = _play(OverMaxRule.EVICT)
    lowered = {**QUOTA, "spec": {"min": {GPU: "1"}, "max": {GPU: "1"}}}
    play.world.cluster.put_quota(lowered)
    assert _named(play) == []


def test_other_resources_do_not_matter() -> None:
    play = _play(OverMaxRule.REPORT)
    _late(play, "late1", 1)
    _late(play, "none", 5, gpus=0)
    assert _named(play) == ["late1"]


@pytest.mark.parametrize(
    ("rule", "settings", "evicted"),
    [
        (OverMaxRule.REPORT, {}, []),
        (OverMaxRule.EVICT, {}, ["late2", "late1"]),
        (OverMaxRule.EVICT, {"dry_run": True}, []),
        (OverMaxRule.EVICT, {"eviction_burst": 1, "evictions_per_second": 0.01}, ["late2"]),
    ],
)
async def test_pods_beyond_max_by_rule(rule: OverMaxRule, settings: dict[str, Any], evicted: list[str]) -> None:
    play = _play(rule, **settings)
    _late(play, "late1", 1)
    _late(play, "late2", 2)
    await play.live(1)
    count = play.registry.get_sample_value(
        "headroom_scheduler_quota_pods_beyond_max", {"quota_namespace": "a", "quota": "q"}
    )
    assert count == 2
    await play.live(12)
    assert play.server.evicted == evicted


async def test_only_the_leader_evicts() -> None:
    play = _play(OverMaxRule.EVICT)
    _late(play, "late1", 1)
    play.leads = False
    await play.live(12)
    assert play.server.evicted == []
