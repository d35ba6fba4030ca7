"""Decisions and evictions against an API server that fails, or changes, at every step between them."""

from collections.abc import Callable
from typing import cast

import pytest

from headroom.kube import ApiError, ApiServer, ApiUnavailable
from headroom.kube.lease import NotLeading
from scheduler_plugins.preemption.eviction import Evicted, evict
from scheduler_plugins.preemption.selection.context import BudgetsRule
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.preemption_grants import SECONDS, PreemptionGrant
from tests.scheduler_plugins.preemption.plays import Play
from tests.scheduler_plugins.preemption.worlds import GPU, NOW


class Died(BaseException):
    """The process ended here."""


async def test_hold_precedes_eviction() -> None:
    """The controller evicts after its own watch has shown the hold, and only the hold's victims."""
    play = Play()
    await play.controller.reconcile()
    assert (play.held(), play.server.evicted) == (True, [])
    await play.controller.reconcile()
    assert play.server.evicted == []  # the watch has not shown the hold
    play.watch()
    await play.controller.reconcile()
    assert play.server.evicted == ["a2"]
    assert play.pod("b1")["status"]["nominatedNodeName"] == "n1"
    (target,) = play.pod("a2")["status"]["conditions"]
    assert (target["type"], target["reason"]) == ("DisruptionTarget", "PreemptionByScheduler")


@pytest.mark.parametrize("rule", list(BudgetsRule))
async def test_crash_at_every_request(rule: BudgetsRule) -> None:
    """Wherever the process ends, before or after a request took effect, the next one evicts the same pods, once."""
    whole = Play(disruption_budgets=rule)
    requests: list[str] = []
    whole.server.before = requests.append
    await whole.live(3)
    assert whole.server.evicted == ["a2"]

    for end in range(len(requests)):
        play, count = Play(disruption_budgets=rule), 0

        def dies(_request: str, end: int = end) -> None:
            nonlocal count
            count += 1
            if count == end + 1:
                raise Died

        play.server.before = dies
        with pytest.raises(Died):
            await play.live(3)
        play.server.before = lambda _: None
        done, held = list(play.server.evicted), play.held()
        play.start()  # the next one
        assert play.held() == held
        await play.live(4)
        assert play.server.evicted == ["a2"], (end, requests[end], done)
        assert play.held()


async def test_free_resources_avoid_evictions() -> None:
    play = Play()
    await play.live()
    play.end("a2")
    await play.live(3)
    assert play.server.log[-1].startswith("PATCH b1")  # the pod is requeued
    play.pod("b1")["spec"]["nodeName"] = "n1"
    play.watch()
    log = list(play.server.log)
    await play.live()
    assert play.server.log == log
    assert play.server.evicted == ["a2"]


@pytest.mark.parametrize(
    ("change", "rounds"),
    [
        pytest.param(
            lambda play: play.pod("b1")["metadata"].update(deletionTimestamp="2026-01-01T02:00:00Z"),
            6,
            id="the pod is deleted, and only the server knows",
        ),
        pytest.param(lambda play: play.end("a2"), 6, id="the victim ended by itself: its resources are free"),
        pytest.param(
            lambda play: play.pod("a2")["metadata"].update(uid="another"), 1, id="another pod has the victim's name"
        ),
    ],
)
async def test_pods_deleted_in_between(change: Callable[[Play], None], rounds: int) -> None:
    """The controller evicts no pod after such a change to a pod of the hold."""
    play = Play()
    await play.hold()
    change(play)
    await play.live(rounds)
    assert play.server.evicted == []


async def test_preemptor_is_bound_in_between() -> None:
    """kube-scheduler bound the pod meanwhile: the hold cannot be written, and no pod is evicted."""
    play = Play()
    pod = play.pod("b1")
    pod["spec"]["nodeName"], pod["metadata"]["resourceVersion"] = "n1", "2"
    await play.controller.reconcile()
    assert not play.held()
    await play.live()
    assert play.server.evicted == []


async def test_condition_updated_in_between() -> None:
    """kube-scheduler updates the pod's condition meanwhile: the hold is written, and observed at once."""
    play = Play()
    pod = play.pod("b1")
    pod["status"]["conditions"][0]["message"], pod["metadata"]["resourceVersion"] = "0/2 nodes", "7"
    await play.controller.reconcile()
    assert play.held()
    assert play.world.cluster.pods["b/b1"].hold is not None


async def test_hold_of_other_replica_in_between() -> None:
    """Another replica has just written a hold: the controller does not overwrite it."""
    play, other = Play(), Hold("n9", NOW + 60, ("another",))
    pod = play.pod("b1")
    pod["metadata"] |= {"resourceVersion": "7", "annotations": other.annotations}
    pod["status"]["conditions"].append(other.condition)
    await play.controller.reconcile()
    assert Hold.of_pod(pod) == other
    assert play.server.evicted == []


async def test_quota_changes_in_between() -> None:
    """The server's quota differs from the watched one: no pod is evicted before the watch delivers it."""
    play = Play()
    await play.hold()
    play.put_quota("a", 3)
    await play.live()
    assert play.server.evicted == []
    play.world.cluster.put_quota(*play.server.quotas["a"])  # the borrower no longer borrows
    await play.live()
    assert (play.held(), play.server.evicted) == (False, [])


@pytest.mark.parametrize("rule", list(BudgetsRule))
async def test_victim_replaced_before_eviction(rule: BudgetsRule) -> None:
    """A victim is replaced after the last read: the API server's precondition keeps the other pod."""
    play = Play(disruption_budgets=rule)
    await play.hold()

    def replaced(request: str) -> None:
        if request.startswith(("EVICT", "DELETE")):
            play.pod("a2")["metadata"]["uid"] = "another"

    play.server.before = replaced
    await play.controller.reconcile()
    assert any(line.startswith(("EVICT", "DELETE")) for line in play.server.log), "no pod was evicted"
    assert play.server.evicted == []


async def test_budget_rejects_eviction() -> None:
    """The Eviction API rejects: the hold is withdrawn, no pod is evicted, and the node is skipped for a while."""
    play = Play()
    play.server.fail("EVICT", ApiUnavailable("Cannot evict pod as it would violate the pod's disruption budget.", 429))
    await play.hold()
    assert play.held()
    await play.live()
    assert (play.held(), play.server.evicted) == (False, [])
    assert not any(condition["type"].startswith("headroom") for condition in play.pod("b1")["status"]["conditions"])
    play.server.before = lambda _: None
    await play.live(20)
    assert play.server.evicted == []
    await play.live(20)
    assert play.server.evicted == ["a2"]


@pytest.mark.parametrize("rule", list(BudgetsRule))
async def test_changed_victim_is_evicted_again(rule: BudgetsRule) -> None:
    """A conflict does not mean that a victim is gone: the controller evicts it again if it still exists."""
    play, verb = Play(disruption_budgets=rule), "EVICT" if rule is BudgetsRule.RESPECT else "DELETE"
    play.server.fail(verb, ApiError(409, "Conflict", "the object has been modified"), times=2)
    await play.live()
    assert (play.held(), play.server.evicted) == (True, ["a2"])


async def test_victim_condition_fails() -> None:
    play = Play(disruption_budgets=BudgetsRule.COUNT)
    play.server.fail("PATCH a2", ApiError(403, "Forbidden", "pods/status must not be patched"))
    outcome = await evict(cast("ApiServer", play.server), play.world.cluster.pods["a/a2"], BudgetsRule.COUNT, "", NOW)
    assert (outcome.result, play.server.evicted) == (Evicted.REFUSED, [])
    assert "must not be patched" in outcome.why


async def test_victim_with_endless_conflicts() -> None:
    play = Play()
    play.server.fail("EVICT", ApiError(409, "Conflict", "the object has been modified"))
    await play.live()
    assert (play.held(), play.server.evicted) == (False, [])


async def test_leader_changes_in_between() -> None:
    play = Play()
    await play.hold()
    play.leads = False
    await play.live()
    assert play.server.evicted == []
    play.start()
    play.leads = True
    await play.live()
    assert play.server.evicted == ["a2"]


async def test_lease_expires_during_write() -> None:
    play = Play()
    play.server.fail("EVICT", NotLeading("this replica no longer leads"))
    await play.hold()
    with pytest.raises(NotLeading):
        await play.controller.reconcile()
    assert (play.held(), play.server.evicted) == (True, [])


async def test_victim_that_stays_expires_hold() -> None:
    """A hold expires after the grace period and holdSeconds; then the pod waits, longer after each attempt."""
    play = Play(hold_seconds=10.0, back_off_seconds=20.0)
    play.pod("a2")["spec"]["terminationGracePeriodSeconds"] = 5
    await play.live(14)
    assert play.server.evicted == ["a2"]
    assert play.pod("b1")["status"]["nominatedNodeName"] == "n1"
    await play.live(4)
    assert play.pod("b1")["status"]["nominatedNodeName"] is None  # its hold is withdrawn
    assert not play.world.cluster.holding(play.now)
    log = list(play.server.log)
    await play.live(15)
    assert play.server.log == log
    assert play.server.evicted == ["a2"]


async def test_backoff_doubles() -> None:
    """The hold records when a pod may try again, so a restart keeps it: each failed attempt doubles the wait."""
    holds = Play(back_off_seconds=60.0, longest_back_off_seconds=300.0).controller._holds
    waits = [holds._may_try_again(Hold("n1", 1000.0, ("v",), attempt)) - 1000 for attempt in (1, 2, 3, 4, 10**6)]
    assert waits == [60, 120, 240, 300, 300]


@pytest.mark.parametrize("ahead", [500.0, -500.0])
async def test_clock_adjustment(ahead: float) -> None:
    """A clock adjustment of more than holdSeconds expires no hold: it lasts at least half its time."""
    play = Play()
    await play.live(3)
    assert play.server.evicted == ["a2"]
    play.ahead = ahead
    await play.live(50)
    assert play.world.cluster.holding(play.now + ahead)
    assert play.server.evicted == ["a2"]
    play.now += 250
    await play.live(1)
    assert not play.world.cluster.holding(play.now + ahead)


@pytest.mark.parametrize("ahead", [500.0, -500.0])
async def test_clock_adjustment_of_other_replica(ahead: float) -> None:
    play = Play()
    play.ahead = ahead
    cluster, wall = play.world.cluster, NOW + ahead
    flying = {"metadata": {"name": "c1", "namespace": "c", "uid": "c/c1"}, "spec": {"containers": []}}
    play.cache.charge(play.cache.read(flying), ["n1"], wall)
    cluster.preemption_grants.add(PreemptionGrant(cluster.pods["b/b1"], wall, {}, {}))
    await play.live(3)
    assert play.server.evicted == []
    play.now += SECONDS
    await play.live(3)
    assert play.server.evicted == ["a2"]
    assert list(play.cache.in_flight) == ["c/c1"]


async def test_resources_taken_by_other_pod() -> None:
    """A pod of higher priority took the resources: the hold ends early, and the next eviction follows the back-off."""
    play = Play(back_off_seconds=20.0)
    await play.live(3)
    play.end("a2")
    urgent = {"nodeName": "n1", "priority": 1000}
    play.add("a", "urgent", 1, urgent, {"phase": "Running", "startTime": "2026-01-01T00:00:09Z"})
    play.watch()
    await play.live(12)
    assert not play.world.cluster.holding(play.now)
    assert play.server.evicted == ["a2"]
    await play.live(25)
    assert play.server.evicted == ["a2", "a1"]


async def test_deleted_node_is_no_attempt() -> None:
    play = Play()
    await play.live(3)
    assert play.server.evicted == ["a2"]
    play.world.cluster.delete_node("n1")
    play.end("a2")
    has = {GPU: "2", "cpu": "9", "pods": "9"}
    play.world.cluster.put_node({"metadata": {"name": "n2"}, "status": {"allocatable": has}})
    play.add("a", "a3", 2, {"nodeName": "n2"}, {"phase": "Running", "startTime": "2026-01-01T00:00:05Z"})
    play.watch()
    await play.live()
    assert play.server.evicted == ["a2", "a3"]
    assert '"attempt": 1' in play.pod("b1")["metadata"]["annotations"]["headroom.dev/reclaim-hold"]


async def test_rate_limit() -> None:
    play = Play(eviction_burst=1, evictions_per_second=0.1)
    for namespace, least in (("a", 0), ("b", 3)):
        play.put_quota(namespace, least)
        play.world.cluster.put_quota(*play.server.quotas[namespace])
    play.pod("b1")["spec"]["containers"][0]["resources"]["requests"][GPU] = "3"
    play.watch()
    await play.live(4)
    assert len(play.server.evicted) == 1
    await play.live(12)
    assert sorted(play.server.evicted) == ["a1", "a2"]


async def test_no_needless_decisions() -> None:
    play = Play(eviction_burst=1, evictions_per_second=0.01)
    await play.live(4)
    assert play.server.evicted == ["a2"]
    play.end("b1")
    for number in range(3):
        play.wait("b", f"c{number}", 2)
    play.watch()
    decided = "headroom_scheduler_reclaim_decision_seconds_count"
    before = play.registry.get_sample_value(decided)
    await play.live(10)
    assert before is not None
    assert play.registry.get_sample_value(decided) == before


async def test_dry_run_writes_nothing() -> None:
    play = Play(dry_run=True)
    await play.live()
    assert play.server.log == []
