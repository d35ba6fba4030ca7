"""Evictions as they are asked for, rehearsed and told."""

import pytest

from crds import names
from headroom.kube import ApiError, ApiUnavailable
from manager.reconcile.steps.eviction import ClusterEvictionState, MidEvictions
from tests.manager.mid.eviction.made_mid import mid, three
from tests.manager.mid.eviction.stage import AFTER_SECONDS, PODS, Stage
from tests.support.objects import Json, report

BUDGET = ApiUnavailable(
    "The API server at x answers 429: Cannot evict pod as it would violate the pod's disruption budget.", status=429
)


async def test_lasting_deficit_evicts() -> None:
    """2 of 6 cores are short for longer than afterSeconds: the youngest of the lowest priority goes, asked by uid."""
    stage = Stage(*three())
    await stage.lasts()
    assert stage.evicted() == ["young"]
    (body,) = stage.api.written("POST", "/eviction")
    assert body["deleteOptions"] == {"preconditions": {"uid": "uid-young"}}
    assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")
    assert stage.api.written("DELETE", "") == []
    assert stage.metric("mid_evictions_total", result="evicted") == 1


async def test_arithmetic_is_told() -> None:
    """The Node and the pod get an event with what was requested, what may be published, and what is short."""
    stage = Stage(*three())
    await stage.lasts()
    (note,) = stage.reported("MidPodEvicted")
    assert note == (
        "Evicted Mid pod shop/young (priority 7000, requested 2000m CPU) from node n1: Mid pods on the node requested "
        "6000m CPU, 4000m CPU may be published: short by 2000m CPU for 301 s"
    )
    (event,) = stage.api.written("POST", "/namespaces/shop/events")
    assert (event["regarding"]["name"], event["regarding"]["uid"], event["note"]) == ("young", "uid-young", note)


async def test_short_deficit_waits() -> None:
    """Before afterSeconds nothing happens, and the node is looked at again in time."""
    stage = Stage(*three())
    assert await stage.lasts(AFTER_SECONDS - 40) == pytest.approx(40)
    assert stage.evicted() == []
    stage.later(40)
    await stage.reconcile()
    assert stage.evicted() == ["young"]


async def test_one_report_is_not_enough() -> None:
    """However long ago the only report that shows the deficit was taken: it takes another one to act."""
    stage = Stage(*three())
    stage.report()
    stage.later(0.2)
    await stage.reconcile()
    stage.later(AFTER_SECONDS + 100)
    await stage.reconcile()
    assert stage.evicted() == []
    stage.report()
    await stage.reconcile()
    assert stage.evicted() == ["young"]


async def test_unproven_deficit_is_explained() -> None:
    """A deficit that follows from a lost history alone evicts nobody, and an event says why, once for each reason."""
    stage = Stage(*three(), cpu="0")
    ready = {"type": names.CONDITION_PREDICTION_READY, "status": "False"}
    for conditions in ([ready], [ready], [{**ready, "type": names.CONDITION_COLLECTING}]):
        stage.report(report(reclaimable=("0", "0"), usage=("4", "24Gi"), conditions=conditions))
        await stage.reconcile()
        stage.later(AFTER_SECONDS)
    assert stage.evicted() == []
    begins = "No Mid pod is evicted for a deficit of 6000m CPU, as it follows from what is not known: "
    first = f"{begins}the prediction is not ready (condition PredictionReady)"
    second = f"{begins}the agent reports that it does not measure this node (condition Collecting)"
    reported = stage.reported()
    assert [each.partition(". If it were proven, first to go: ")[0] for each in reported] == [first, second]
    assert all("first to go: shop/young (" in each for each in reported)
    await stage.lasts()
    assert stage.evicted() == ["young", "old", "high"]
    assert len(stage.reported("MidEvictionWithheld")) == 2


async def test_nobody_goes_twice() -> None:
    """Until the watch tells of it, and while it ends, an evicted pod is neither asked again nor replaced by another."""
    stage = Stage(*three())
    await stage.lasts()
    stage.later(1)
    await stage.reconcile()
    stage.see()
    for _ in range(3):
        stage.later(100)
        stage.report()
        await stage.reconcile()
    assert stage.evicted() == ["young"]


async def test_pod_that_leaves_during_look_is_no_shortage() -> None:
    """A pod on its way out that is gone between the facts and the eviction does not make another one go for it."""
    stage = Stage(*three(), mid("out", 3000, terminating=True), maxPerNodePerMinute=1, cpu="3")
    await stage.lasts()  # 3 are short beside what is on its way out: two pods, one a minute
    stage.see()
    stage.eviction["maxPerNodePerMinute"] = 100
    stage.report()
    assert await stage.reconcile(meanwhile=lambda: stage.leave("out")) == 1.0
    assert stage.evicted() == ["young"]
    await stage.reconcile()
    assert stage.evicted() == ["young", "old"]


async def test_left_pod_calls_for_no_other() -> None:
    """When an evicted pod has gone, usage that was measured while it ran does not count as somebody else's."""
    full = report(reclaimable=("9", "20Gi"), usage=("16", "24Gi"), mid=("6", "1Gi"))  # unused: 15 - (16 - 1 - 6) = 6
    stage = Stage(*three(), mid("more", 1000, age=1))
    stage.report(full)
    stage.later(0.2)
    await stage.reconcile()
    stage.later(AFTER_SECONDS + 1)
    stage.report(full)
    await stage.reconcile()
    assert stage.evicted() == ["more"]
    stage.leave("more")
    for _ in range(4):
        stage.later(70)
        stage.report(full)
        await stage.reconcile()
    assert stage.evicted() == ["more"]


async def test_budget_sends_to_the_next() -> None:
    """A pod that its PodDisruptionBudget keeps stays; the next one goes; it is asked again a minute later."""
    stage = Stage(*three())
    stage.api.refused["young"] = BUDGET
    await stage.lasts()
    assert stage.evicted() == ["young", "old"]
    assert stage.metric("mid_evictions_total", result="refused-by-budget") == 1
    assert "kept by its PodDisruptionBudget" in stage.reported("MidEvictionRefused")[0]
    stage = Stage(mid("only", 5000))
    stage.api.refused["only"] = BUDGET
    assert await stage.lasts() == pytest.approx(60)
    stage.later(59)
    await stage.reconcile()
    assert stage.evicted() == ["only"]
    assert "only is kept by its PodDisruptionBudget" in stage.reported("MidEvictionImpossible")[0]
    stage.api.refused.clear()
    stage.later(1)
    await stage.reconcile()
    assert stage.evicted() == ["only", "only"]
    assert stage.metric("mid_evictions_total", result="evicted") == 1


async def test_refusal_takes_no_place() -> None:
    """What a budget refuses does not count against the limits."""
    stage = Stage(*three(), maxPerNodePerMinute=1, maxPerMinute=1)
    stage.api.refused["young"] = BUDGET
    await stage.lasts()
    assert stage.evicted() == ["young", "old"]


async def test_other_refusal_is_told() -> None:
    """Whatever else refuses, such as an admission webhook, is told with its words, and the next pod is asked."""
    stage = Stage(*three())
    stage.api.refused["young"] = ApiError(403, "Forbidden", "webhook says no")
    await stage.lasts()
    assert stage.evicted() == ["young", "old"]
    assert "webhook says no" in stage.reported("MidEvictionRefused")[0]


async def test_conflict_is_not_gone() -> None:
    """A conflict does not say that a pod is gone: it is asked again, and one that changes each time has stayed."""
    stage, conflict = Stage(*three()), ApiError(409, "Conflict", "the object has been modified")
    stage.api.refused["young"] = conflict
    await stage.lasts()
    assert stage.evicted() == ["young", "young", "young", "old"]
    assert "it has changed each of 3 times" in stage.reported("MidEvictionRefused")[0]
    stage = Stage(*three())
    stage.api.once["young"] = conflict
    await stage.lasts()
    assert (stage.evicted()[:2], stage.reported("MidEvictionRefused")) == (["young", "young"], [])


@pytest.mark.parametrize("error", [ApiUnavailable("overloaded", status=429), ApiUnavailable("away")])
async def test_overload_ends_the_look(error: ApiUnavailable) -> None:
    """A server that is overloaded or away is left alone: the look fails, and is repeated later."""
    stage = Stage(*three())
    stage.api.refused["young"] = error
    with pytest.raises(ApiUnavailable):
        await stage.lasts()
    assert stage.evicted() == ["young"]
    # It may have been taken all the same: whatever replaces the pod is left alone.
    guard, now = stage.context.state_of(ClusterEvictionState).backoff, stage.steady.now
    assert guard.backoff_until("shop/Pod/young", stage.wall.now, now) == now + 600


async def test_another_pod_of_the_name_stays() -> None:
    """A pod that has become another one meanwhile, moved, ends already or is gone is not asked for; its room counts."""
    for change in ({"uid": "new"}, {"deletionTimestamp": "2027-01-15T08:00:00Z"}, {"nodeName": "n2"}, None):
        stage = Stage(*three())
        if change is None:
            del stage.api.objects[f"{PODS}/young"]
        else:
            stage.api.objects[f"{PODS}/young"]["spec" if "nodeName" in change else "metadata"].update(change)
        await stage.lasts()
        assert stage.evicted() == []
        assert stage.metric("mid_evictions_total", result="gone") == 1


async def test_limits_per_node_and_cluster() -> None:
    """One per minute: of three that must go, one goes each minute; 0 means none."""
    stage = Stage(*three(), cpu="0", maxPerNodePerMinute=1)
    assert await stage.lasts() == pytest.approx(60)
    stage.see()
    stage.later(59)
    await stage.reconcile()
    assert stage.evicted() == ["young"]
    assert (
        stage.metric("mid_evictions_skipped_total", reason="node-rate") == 1
    )  # of "old", however often it is looked at
    stage.later(1)
    await stage.reconcile()
    assert stage.evicted() == ["young", "old"]
    stage = Stage(*three(), cpu="0", maxPerMinute=2)
    await stage.lasts()
    assert stage.evicted() == ["young", "old"]
    assert stage.metric("mid_evictions_skipped_total", reason="cluster-rate") == 1
    stage = Stage(*three(), maxPerMinute=0)
    assert await stage.lasts() is None
    assert stage.evicted() == []


async def test_replacement_is_left_alone() -> None:
    """The pod that replaces an evicted one on the same node stays for 10 minutes; a sibling from before may go."""
    job = ("Job", "report")
    stage = Stage(mid("first", 5000, age=100, owner=job))
    await stage.lasts()
    stage.leave("first")
    second = mid("second", 5000, age=-(AFTER_SECONDS + 3), owner=job)
    stage.add(second)
    await stage.lasts(AFTER_SECONDS + 2)
    assert stage.evicted() == ["first"]
    assert stage.metric("mid_evictions_skipped_total", reason="loop-guard") == 1
    assert "may replace a pod of shop/Job/report" in stage.reported("MidEvictionImpossible")[0]
    stage.add(mid("sibling", 5000, age=900, owner=job))
    stage.report()
    await stage.reconcile()
    assert stage.evicted() == ["first", "sibling"]
    stage.leave("sibling")
    await stage.lasts(700)
    assert stage.evicted() == ["first", "sibling", "second"]


async def test_who_comes_back_stays() -> None:
    """A DaemonSet's pod, a static pod and a pod above Mid are named with the reason, and never asked for."""
    stage = Stage(
        mid("daemon", 2000, owner=("DaemonSet", "d")),
        mid("static", 2000, owner=("Node", "n1"), annotations={names.ANNOTATION_CONFIG_MIRROR: "x"}),
        mid("prod", 2000, priority=9500),
    )
    await stage.lasts()
    assert stage.evicted() == []
    (note,) = stage.reported("MidEvictionImpossible")
    assert "shop/daemon is of a DaemonSet" in note
    assert "shop/static is a static pod" in note
    assert "shop/prod has a priority above Mid" in note
    assert stage.metric("mid_evictions_skipped_total", reason="kept") == 3


async def test_off_says_nothing() -> None:
    """Mode off: nothing is asked, told or counted, but the time of the deficit."""
    stage = Stage(*three(), mode="off")
    await stage.lasts()
    assert (stage.evicted(), stage.reported()) == ([], [])
    assert stage.metric("mid_deficit_seconds_total", node="n1", resource="cpu") == pytest.approx(AFTER_SECONDS + 1)
    assert stage.metric("mid_deficit_seconds_total", node="n1", resource="memory") == 0


async def test_new_leader_looks_for_itself() -> None:
    """What was seen before the leadership was lost is no evidence later; a gone node's metrics go with it."""
    stage = Stage(*three())
    await stage.lasts(AFTER_SECONDS - 10)
    MidEvictions().forget(stage.context, "n1")
    assert stage.metric("mid_deficit_seconds_total", node="n1", resource="cpu") == 0
    stage.later(20)
    stage.report()
    await stage.reconcile()
    assert stage.evicted() == []
    await stage.lasts()
    assert stage.evicted() == ["old"]  # "young" may replace a pod that the leader before evicted
    assert stage.metric("mid_evictions_skipped_total", reason="loop-guard") == 1


async def test_gone_node_ends_nothing() -> None:
    """When a node goes, the leader does not forget what it evicted elsewhere, nor since when it decides."""
    stage = Stage(*three())
    MidEvictions().forget(stage.context, "another")
    await stage.lasts()
    assert stage.evicted() == ["young"]


async def test_lost_leadership_stops_before_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that loses the Lease between reading the pod and asking does not ask, and takes no place."""
    stage = Stage(*three(), maxPerMinute=1)
    get = stage.api.get

    async def lose(path: str, params: object = None) -> Json:
        found = await get(path, params)
        stage.lead(leads=False)
        return found

    monkeypatch.setattr(stage.api, "get", lose)
    await stage.lasts()
    assert stage.api.calls[-1][:2] == ("GET", f"{PODS}/young")
    assert stage.context.state_of(ClusterEvictionState).rate.free_at(1, stage.steady.now) == stage.steady.now


async def test_eviction_without_effect_is_repeated() -> None:
    """A pod that is not even terminating a minute after its eviction was taken is asked for again."""
    stage = Stage(mid("odd", 5000))
    await stage.lasts()
    del stage.api.objects[f"{PODS}/odd"]["metadata"]["deletionTimestamp"]
    stage.later(59)
    stage.report()
    await stage.reconcile()
    stage.later(2)
    stage.report()
    await stage.lasts()
    assert stage.evicted() == ["odd", "odd"]


async def test_limits_are_shared_by_nodes() -> None:
    """The cluster's limit counts the evictions of all nodes."""
    stage = Stage(*three(), maxPerMinute=1)
    stage.context.state_of(ClusterEvictionState).rate.take(stage.steady.now + AFTER_SECONDS - 20)
    await stage.lasts()
    assert stage.evicted() == []
