"""Decisions and evictions against an API server that fails, or changes, at every moment between them."""

from collections.abc import Callable

import pytest

from kubeapi import ApiError, ApiUnavailable
from scheduler_plugins.quota.allowances import Allowance
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.reclaim.budgets import BudgetsRule
from scheduler_plugins.reclaim.leader import NotLeading
from tests.scheduler_plugins.reclaim.plays import OURS, Play
from tests.scheduler_plugins.reclaim.worlds import GPU, NOW


class Died(Exception):  # noqa: N818 - it is no error of the program
    """The process ended here."""


async def test_hold_comes_first() -> None:
    """Nobody is evicted before the hold is written, and seen by our own watch; then just whom it names."""
    play = Play()
    await play.controller.look()
    assert (play.held(), play.server.evicted) == (True, [])
    await play.controller.look()
    assert play.server.evicted == []  # the watch has not shown it
    play.watch()
    await play.controller.look()
    assert play.server.evicted == ["a2"]
    assert play.pod("b1")["status"]["nominatedNodeName"] == "n1"
    (target,) = play.pod("a2")["status"]["conditions"]
    assert (target["type"], target["reason"]) == ("DisruptionTarget", "PreemptionByScheduler")


@pytest.mark.parametrize("rule", list(BudgetsRule))
async def test_death_at_every_request(rule: BudgetsRule) -> None:
    """Wherever the process ends, before or after a request took effect, the next one evicts the same, once."""
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


async def test_room_is_used_and_nobody_more_leaves() -> None:
    """Once the victim is gone and the pod bound, nothing happens any more."""
    play = Play()
    await play.live()
    play.end("a2")
    await play.live(3)
    assert play.server.log[-1].startswith("PATCH b1")  # kube-scheduler is told to look again
    play.pod("b1")["spec"]["nodeName"] = "n1"
    play.watch()
    log = list(play.server.log)
    await play.live()
    assert play.server.log == log
    assert play.server.evicted == ["a2"]


async def test_preemptor_goes_in_between() -> None:
    """The pod is deleted after the hold was seen, and only the server knows: nobody leaves."""
    play = Play()
    await play.controller.look()
    play.watch()
    play.pod("b1")["metadata"]["deletionTimestamp"] = "2026-01-01T02:00:00Z"
    await play.controller.look()
    assert play.server.evicted == []
    await play.live()
    assert play.server.evicted == []


async def test_preemptor_is_bound_in_between() -> None:
    """kube-scheduler bound the pod meanwhile: the hold cannot be written, and nobody leaves."""
    play = Play()
    pod = play.pod("b1")
    pod["spec"]["nodeName"], pod["metadata"]["resourceVersion"] = "n1", "2"
    await play.controller.look()
    assert not play.held()
    await play.live()
    assert play.server.evicted == []


async def test_note_of_kube_scheduler_in_between() -> None:
    """kube-scheduler notes anew why the pod waits: the hold is written all the same, and known at once."""
    play = Play()
    pod = play.pod("b1")
    pod["status"]["conditions"][0]["message"], pod["metadata"]["resourceVersion"] = "0/2 nodes", "7"
    await play.controller.look()
    assert play.held()
    assert play.world.cluster.pods["b/b1"].hold is not None


async def test_hold_of_another_in_between() -> None:
    """Another replica has just written a hold: it stands, and ours is not written over it."""
    play, other = Play(), Hold("n9", NOW + 60, ("somebody",))
    pod = play.pod("b1")
    pod["metadata"] |= {"resourceVersion": "7", "annotations": other.annotations}
    pod["status"]["conditions"].append(other.condition)
    await play.controller.look()
    assert Hold.of_pod(pod) == other
    assert play.server.evicted == []


async def test_quota_changes_in_between() -> None:
    """A quota that the server has otherwise than we know it: nobody leaves before the watch has brought it."""
    play = Play()
    await play.controller.look()
    play.watch()
    (quota,) = play.server.quotas["a"]
    quota["spec"] = {"min": {GPU: "3"}, "max": {GPU: "3"}}
    await play.live()
    assert play.server.evicted == []
    play.world.cluster.put_quota(quota)  # the borrower borrows nothing any more
    await play.live()
    assert (play.held(), play.server.evicted) == (False, [])


async def test_victim_ends_in_between() -> None:
    """A victim that ended by itself after the hold was written: there is room, and nobody else leaves."""
    play = Play()
    await play.controller.look()
    play.end("a2")
    await play.live()
    assert play.server.evicted == []


async def test_another_pod_of_that_name() -> None:
    """A victim that was replaced by a pod of its name, and the watch does not know: that one stays."""
    play = Play()
    await play.controller.look()
    play.watch()
    play.pod("a2")["metadata"]["uid"] = "another"
    await play.controller.look()
    assert play.server.evicted == []


async def test_budget_says_no() -> None:
    """The Eviction API refuses: the hold is withdrawn, nobody left, and that node rests for a while."""
    play = Play()

    def refuses(request: str) -> None:
        if request.startswith("EVICT"):
            raise ApiUnavailable("Cannot evict pod as it would violate the pod's disruption budget.", 429)

    play.server.before = refuses
    await play.controller.look()
    play.watch()
    assert play.held()
    await play.live()
    assert (play.held(), play.server.evicted) == (False, [])
    assert not any(each["type"].startswith("headroom") for each in play.pod("b1")["status"]["conditions"])
    play.server.before = lambda _: None
    await play.live(20)
    assert play.server.evicted == []
    await play.live(20)
    assert play.server.evicted == ["a2"]


async def test_leader_changes_in_between() -> None:
    """Who leads no longer writes no more; the next one goes on from the hold."""
    play = Play()
    await play.controller.look()
    play.watch()
    play.leads = False
    await play.live()
    assert play.server.evicted == []
    play.start()
    play.leads = True
    await play.live()
    assert play.server.evicted == ["a2"]


async def test_right_ends_in_a_write() -> None:
    """The session itself refuses the write when the right has ended meanwhile."""
    play = Play()

    def ends(request: str) -> None:
        if request.startswith("EVICT"):
            raise NotLeading("this replica does not lead any more")

    play.server.before = ends
    await play.controller.look()
    play.watch()
    with pytest.raises(NotLeading):
        await play.controller.look()
    assert (play.held(), play.server.evicted) == (True, [])


async def test_stubborn_victim_expires_the_hold() -> None:
    """A hold expires after the grace period and holdSeconds; then the pod waits, longer after each attempt."""
    play = Play(hold_seconds=10.0, back_off_seconds=20.0)
    play.pod("a2")["spec"]["terminationGracePeriodSeconds"] = 5
    await play.live(14)
    assert play.server.evicted == ["a2"]
    assert play.pod("b1")["status"]["nominatedNodeName"] == "n1"
    await play.live(4)
    assert play.pod("b1")["status"]["nominatedNodeName"] is None  # nothing is kept for it any more
    assert not play.world.cluster.holding(play.now)
    log = list(play.server.log)
    await play.live(15)
    assert play.server.log == log
    assert play.server.evicted == ["a2"]


async def test_room_that_another_took() -> None:
    """A more important pod took the room: the hold ends before its time, and others leave after the back-off."""
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


async def test_lost_node_costs_no_attempt() -> None:
    """Room on a node that is gone is none: the pod is decided for anew at once, and not made to wait."""
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
    assert '"attempt": 1' in play.pod("b1")["metadata"]["annotations"]["headroom.sh/reclaim-hold"]


async def test_rate_is_kept() -> None:
    """No more evictions than the rate allows; the rest follows."""
    play = Play(eviction_burst=1, evictions_per_second=0.1)
    for namespace, least in (("a", "0"), ("b", "3")):
        (quota,) = play.server.quotas[namespace]
        quota["spec"] = {"min": {GPU: least}, "max": {GPU: "3"}}
        play.world.cluster.put_quota(quota)
    play.pod("b1")["spec"]["containers"][0]["resources"]["requests"][GPU] = "3"
    play.watch()
    await play.live(4)
    assert len(play.server.evicted) == 1
    await play.live(12)
    assert sorted(play.server.evicted) == ["a1", "a2"]


async def test_nothing_is_decided_in_vain() -> None:
    """While the rate allows nobody to be evicted, nothing is decided either: that would cost much, for many pods."""
    play = Play(eviction_burst=1, evictions_per_second=0.01)
    refused = list(play.pod("b1")["status"]["conditions"])
    await play.live(4)
    assert play.server.evicted == ["a2"]
    play.end("b1")
    for number in range(3):
        play.add("b", f"c{number}", 2, {"schedulerName": OURS}, {"conditions": refused})
    play.watch()
    decided = "headroom_scheduler_reclaim_decision_seconds_count"
    before = play.registry.get_sample_value(decided)
    await play.live(10)
    assert before is not None
    assert play.registry.get_sample_value(decided) == before


async def test_rehearsal_writes_nothing() -> None:
    """With dryRun nothing is written."""
    play = Play(dry_run=True)
    await play.live()
    assert play.server.log == []


TOO_LONG = ApiError(422, "Invalid", "metadata.annotations: Too long: may not be more than 262144 bytes")


def refusing(request: str) -> Callable[[str], None]:
    """A server that refuses one request for what is in the object."""

    def refuses(asked: str) -> None:
        if asked == request:
            raise TOO_LONG

    return refuses


async def test_pod_that_takes_no_hold() -> None:
    """A pod whose annotations leave no room for a hold, which anybody may create, keeps nobody else waiting."""
    play = Play()
    refused = play.pod("b1")["status"]["conditions"]
    play.add("b", "b2", 2, {"schedulerName": OURS}, {"conditions": list(refused)})
    play.watch()
    play.server.before = refusing("PATCH b1")
    await play.live()
    assert not play.held()
    assert Hold.of_pod(play.pod("b2")) is not None
    assert play.server.evicted == ["a2"]
    assert play.server.log.count("GET a2") < 10  # b1 is left alone for a while


async def test_holder_that_cannot_be_woken() -> None:
    """A pod onto which nothing can be written once room is held for it keeps nobody else waiting."""
    play = Play()
    await play.live(3)
    play.end("a2")
    play.server.before = refusing("PATCH b1")
    play.add("c", "c1", 1, {"nodeName": "n2"}, {"phase": "Running", "startTime": "2026-01-01T00:00:09Z"})
    for namespace, least in (("c", "0"), ("d", "1")):
        spec = {"min": {GPU: least}, "max": {GPU: "3"}}
        quota = {"metadata": {"name": "q", "namespace": namespace}, "spec": spec}
        play.server.quotas[namespace] = [quota]
        play.world.cluster.put_quota(quota)
    play.world.cluster.put_node({"metadata": {"name": "n2"}, "status": {"allocatable": {GPU: "1", "pods": "9"}}})
    refused = play.pod("b1")["status"]["conditions"]
    play.add("d", "d1", 1, {"schedulerName": OURS}, {"conditions": list(refused)})
    play.watch()
    await play.live(8)
    assert play.server.evicted == ["a2", "c1"]


async def test_missing_right_stops_all() -> None:
    """A right that is missing is missing for all pods: that ends the look, and is told."""
    play = Play()

    def forbids(request: str) -> None:
        if request == "PATCH b1":
            raise ApiError(403, "Forbidden", "cannot patch pods/status")

    play.server.before = forbids
    with pytest.raises(ApiError):
        await play.controller.look()


async def test_pod_that_preempts_nobody_speaks_for_itself() -> None:
    """Of two pods alike in all else, the one that wants nobody evicted does not answer for the other."""
    play = Play()
    refused = play.pod("b1")["status"]["conditions"]
    play.pod("b1")["spec"]["preemptionPolicy"] = "Never"
    play.add("b", "b2", 2, {"schedulerName": OURS}, {"conditions": list(refused)})
    play.watch()
    await play.live()
    assert not play.held()
    assert play.server.evicted == ["a2"]


async def test_kube_scheduler_evicts_at_the_same_moment() -> None:
    """kube-scheduler was allowed others while the hold was being written: ours stay, and the hold is taken back."""
    play = Play()
    cluster = play.world.cluster

    def asks(request: str) -> None:
        if request == "PATCH b1":
            pod, victim = cluster.pods["b/b1"], cluster.pods["a/a1"]
            cluster.allowances.add(Allowance(pod, play.now, {"n1": [victim]}, {"n1": "why"}))
            play.server.before = lambda _: None

    play.server.before = asks
    await play.live(4)
    assert (play.held(), play.server.evicted) == (False, [])


async def test_kube_scheduler_has_evicted() -> None:
    """kube-scheduler evicted somebody as it was allowed, and took the nomination away again: nobody else leaves."""
    play = Play()
    cluster, status = play.world.cluster, play.pod("b1")["status"]
    cluster.allowances.add(Allowance(cluster.pods["b/b1"], play.now, {"n1": [cluster.pods["a/a1"]]}, {"n1": "why"}))
    play.pod("a1")["metadata"]["deletionTimestamp"] = "2026-01-01T02:00:00Z"
    status["nominatedNodeName"] = "n1"
    play.watch()
    await play.live(1)
    status["nominatedNodeName"] = ""
    play.watch()
    await play.live(20)
    assert (play.held(), play.server.evicted) == (False, [])
    await play.live(200)  # it never ends: after a while it is not waited for any longer
    assert play.held()


async def test_no_quota_any_more() -> None:
    """All quotas are gone after the hold was written: it would be right by priority, but is no matter of ours."""
    play = Play()
    play.pod("b1")["spec"]["priority"] = 10
    play.watch()
    await play.controller.look()
    assert play.held()
    for uid in list(play.world.cluster.quota_objects):
        play.world.cluster.delete_quota(uid)
    play.server.quotas.clear()
    play.watch()
    await play.live()
    assert (play.held(), play.server.evicted) == (False, [])
