"""One eviction whose answers are lost: what has happened is known, counted and told all the same."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from headroom.kube import ApiServer, ApiUnavailable
from headroom.kube.lease import NotLeading
from headroom.runtime.backoff import Backoff
from scheduler_plugins.preemption.eviction import Evicted, Outcome, evict
from scheduler_plugins.preemption.eviction_backoff import EARLY_SECONDS, WorkloadBackoff
from scheduler_plugins.preemption.selection.context import BudgetsRule
from tests.scheduler_plugins.preemption.plays import Play
from tests.scheduler_plugins.preemption.worlds import NOW

LOST = [ApiUnavailable("the answer did not come in time"), NotLeading("this replica does not lead any more")]
Json = dict[str, Any]


async def ask(play: Play, rule: BudgetsRule) -> Outcome:
    return await evict(cast("ApiServer", play.server), play.world.cluster.pods["a/a2"], rule, "", NOW)


def losing(play: Play, verb: str, error: ApiUnavailable) -> None:
    """Have the server do what it is asked by a verb, and its answer be lost."""
    method: Callable[..., Any] = getattr(play.server, verb)

    async def lost(*given: Any, **named: Any) -> Json:  # noqa: ANN401 - as the server takes them
        await method(*given, **named)
        raise error

    setattr(play.server, verb, lost)


@pytest.mark.parametrize("error", LOST)
@pytest.mark.parametrize(("rule", "verb"), [(BudgetsRule.RESPECT, "create"), (BudgetsRule.COUNT, "delete")])
async def test_answer_is_lost(rule: BudgetsRule, verb: str, error: ApiUnavailable) -> None:
    """A pod that leaves though the answer did not come is evicted: it was looked at once more."""
    play = Play()
    losing(play, verb, error)
    assert (await ask(play, rule)).result is Evicted.EVICTED
    assert play.server.evicted == ["a2"]


@pytest.mark.parametrize("error", LOST)
@pytest.mark.parametrize("rule", list(BudgetsRule))
async def test_request_is_lost(rule: BudgetsRule, error: ApiUnavailable) -> None:
    """A pod that stays was not evicted: that nobody answers is raised."""
    play = Play()
    play.server.fail("EVICT" if rule is BudgetsRule.RESPECT else "PATCH", error)
    with pytest.raises(type(error)):
        await ask(play, rule)
    assert play.server.evicted == []


@pytest.mark.parametrize("error", LOST)
async def test_eviction_is_told_though_it_cannot_be_marked(
    error: ApiUnavailable, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, told = Play(), list[tuple[str, str]]()
    play.server.fail("PATCH a2", error)
    monkeypatch.setattr(play.controller._recorder, "did", lambda pod, _type, reason, _: told.append((pod.name, reason)))
    await play.live(3)
    assert play.server.evicted == ["a2"]
    assert told == [("b1", "Reclaiming"), ("a2", "Preempted")]
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
    """A pod that stayed used its room, whatever becomes of it."""
    guard = WorkloadBackoff(BACK_OFF)
    guard.freed_resources("uid", "w", 0.0)
    guard.reconcile({"uid"}, EARLY_SECONDS)
    guard.reconcile(set(), EARLY_SECONDS + 1)
    assert guard.waits("w", EARLY_SECONDS + 1) == 0


def test_peace_forgives() -> None:
    """After as long as the longest wait without trouble it begins at the first again."""
    guard = WorkloadBackoff(BACK_OFF)
    guard.freed_resources("one", "w", 0.0)
    guard.reconcile(set(), 10.0)
    guard.reconcile(set(), 10.0 + 60 + 300)
    guard.freed_resources("two", "w", 400.0)
    guard.reconcile(set(), 410.0)
    assert guard.waits("w", 410.0) == 60
