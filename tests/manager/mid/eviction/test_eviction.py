from typing import Any

import pytest

from crds import names
from headroom.kube import ApiError, ApiUnavailable
from headroom.kube.lease import NotLeading
from manager.inputs import PodInputs
from manager.reconcile.steps.eviction import MidEvictions
from tests.manager.mid.eviction.evicting_node import AFTER_SECONDS, PODS, EvictingNode, mid, three
from tests.support.objects import Json, at, node, report, resources
from tests.support.world import World

BUDGET = ApiUnavailable(
    "The API server at x answers 429: Cannot evict pod as it would violate the pod's disruption budget.", status=429
)
CONFLICT = ApiError(409, "Conflict", "the object has been modified")
YOUNG = f"{PODS}/young"


async def test_lasting_deficit_evicts() -> None:
    """2 of 6 cores are short for longer than afterSeconds: the youngest of the lowest priority goes, by its uid."""
    under = EvictingNode(*three())
    await under.lasts()
    ((_, path, body),) = [call for call in under.api.calls if "/eviction" in call[1]]
    assert (path, body["apiVersion"], body["kind"]) == (f"{YOUNG}/eviction", "policy/v1", "Eviction")
    assert body["deleteOptions"] == {"preconditions": {"uid": "uid-young"}}
    assert under.metric("mid_evictions_total", result="evicted") == 1
    (note,) = under.events()
    assert note == (
        "Evicted Mid pod shop/young (priority 7000, requested 2000m CPU) from node n1: Mid pods on the node requested "
        "6000m CPU, 4000m CPU may be published: short by 2000m CPU for 301 s"
    )
    (event,) = under.api.written("POST", "/namespaces/shop/events")
    assert (event["regarding"]["name"], event["regarding"]["uid"], event["note"]) == ("young", "uid-young", note)


async def test_usage_beyond_requests_is_evicted_alone() -> None:
    """10 GiB may be published and 11 are requested: the pod that uses 1.3 GiB of 64 MiB goes, and then no other."""
    under = EvictingNode(mid("a", 0, 64, priority=7900), mid("b", 0, 64), mid("c", 0, 11_112))
    pods = [
        {"namespace": "shop", "name": name, "podUsage": resources("0", memory)}
        for name, memory in {"a": "1331Mi", "b": "20Mi", "c": "1Mi"}.items()
    ]
    metric = report(usage=("4", "24Gi"), podsMetric=pods)
    await under.lasts(metric=metric)
    assert under.evicted() == ["a"]
    assert "(priority 7900, requested 64Mi memory, used 1.2Gi memory beyond)" in under.events("MidPodEvicted")[0]
    under.leave("a")
    for _ in range(4):
        await under.next(60, metric)
    assert under.evicted() == ["a"]


async def test_deficit_waits_for_after_seconds_and_a_second_report() -> None:
    under = EvictingNode(*three())
    assert await under.lasts(AFTER_SECONDS - 40) == pytest.approx(40)
    under.later(39)
    await under.reconcile()
    assert under.evicted() == []
    under.later(1)
    await under.reconcile()
    assert under.evicted() == ["young"]
    once = EvictingNode(*three())
    once.report()
    for _ in range(3):
        once.later(AFTER_SECONDS)
        await once.reconcile()
    assert once.evicted() == []


async def test_dry_run_names_victims_once_and_again_when_the_list_changes() -> None:
    under = EvictingNode(*three(), cpu="1", mode="dry-run")
    await under.lasts()
    await under.next(60)
    (note,) = under.events("MidEvictionDryRun")
    assert note == (
        "Would evict 3 pods (midEviction.mode is dry-run): Mid pods on the node requested 6000m CPU, 1000m CPU may be "
        "published: short by 5000m CPU for 301 s. First to go: shop/young (priority 7000, requested 2000m CPU), "
        "shop/old (priority 7000, requested 2000m CPU), shop/high (priority 7900, requested 2000m CPU)"
    )
    for cpu, would, events in (("1", 3, 1), ("3", 2, 2), ("6", 0, 2)):
        under.cpu = cpu
        await under.next(1)
        assert under.metric("mid_would_evict", node="n1") == would
        assert len(under.events("MidEvictionDryRun")) == events
    assert under.evicted() == []


async def test_event_names_the_first_of_a_long_list_and_counts_the_others() -> None:
    pods = [mid(f"{'long-name-' * 6}{number:03}", 1000, age=number) for number in range(50)]
    under = EvictingNode(*pods, cpu="0", mode="dry-run")
    await under.lasts()
    (note,) = under.events("MidEvictionDryRun")
    assert note.endswith(" and 44 more")
    assert len(note.encode()) < 1024


async def test_dry_run_is_default() -> None:
    world = World()
    world.has_node(node())
    world.configure('{"enable": true, "midEviction": {"afterSeconds": 0}}')
    for made in three():
        world.run.context.cluster.put_pod(PodInputs.from_object(made))
    for age in (10, 5):
        world.steady.now += 1
        world.reports(report(age=age))
        await world.reconcile()
    assert "MidEvictionDryRun" in world.events_recorded()
    assert world.api.written("POST", "/eviction") == []


async def test_off_only_counts_the_deficit() -> None:
    under = EvictingNode(*three(), mode="off")
    await under.lasts()
    assert (under.evicted(), under.events()) == ([], [])
    deficits = [under.metric("mid_deficit_seconds_total", node="n1", resource=entry) for entry in ("cpu", "memory")]
    assert deficits == [pytest.approx(AFTER_SECONDS + 1), 0]


async def test_unproven_deficit_is_explained() -> None:
    """A deficit from a lost history alone evicts no pod, and an event states the reason once."""
    under = EvictingNode(*three(), cpu="0")
    ready = {"type": names.CONDITION_PREDICTION_READY, "status": "False"}
    for conditions in ([ready], [ready], [{**ready, "type": names.CONDITION_COLLECTING}]):
        under.report(report(reclaimable=("0", "0"), usage=("4", "24Gi"), conditions=conditions))
        await under.reconcile()
        under.later(AFTER_SECONDS)
    assert under.evicted() == []
    begins = "No Mid pod is evicted for a deficit of 6000m CPU, because it follows from unknown inputs: "
    reasons = (
        "the prediction is not ready (condition PredictionReady)",
        "the agent reports that it does not measure this node (condition Collecting)",
    )
    ends = ". If it were proven, first to go: shop/young (priority 7000, requested 2000m CPU), "
    assert [event.partition(ends)[:2] for event in under.events()] == [(begins + reason, ends) for reason in reasons]
    await under.lasts()
    assert under.evicted() == ["young", "old", "high"]
    assert len(under.events("MidEvictionWithheld")) == 2


async def test_evicted_pod_is_neither_evicted_again_nor_replaced() -> None:
    under = EvictingNode(*three())
    await under.lasts()
    under.later(1)
    await under.reconcile()
    under.observe()
    for _ in range(3):
        await under.next(100)
    assert under.evicted() == ["young"]


async def test_terminating_pod_that_leaves_meanwhile_is_no_shortage() -> None:
    under = EvictingNode(*three(), mid("out", 3000, terminating=True), maxPerNodePerMinute=1, cpu="3")
    await under.lasts()  # 3 are short beyond terminating pods: two pods, one a minute
    under.observe()
    under.eviction["maxPerNodePerMinute"] = 100
    under.report()
    assert await under.reconcile(meanwhile=lambda: under.leave("out")) == 1.0
    assert under.evicted() == ["young"]
    await under.reconcile()
    assert under.evicted() == ["young", "old"]


@pytest.mark.parametrize(
    ("error", "result", "evicted", "why"),
    [
        (BUDGET, "refused-by-budget", ["young", "old"], "kept by its PodDisruptionBudget"),
        (ApiError(403, "Forbidden", "webhook says no"), "refused", ["young", "old"], "webhook says no"),
        (CONFLICT, "refused", [*["young"] * 3, "old"], "it has changed each of 3 times"),
    ],
)
async def test_refusal_sends_to_the_next(error: Exception, result: str, evicted: list[str], why: str) -> None:
    """A pod whose eviction is rejected stays, with the reason, and does not count in the limits."""
    under = EvictingNode(*three(), maxPerNodePerMinute=1, maxPerMinute=1)
    under.api.refused["young"] = error
    await under.lasts()
    assert under.evicted() == evicted
    assert under.metric("mid_evictions_total", result=result) == 1
    assert why in under.events("MidEvictionRefused")[0]


async def test_refused_pod_is_tried_again_in_a_minute() -> None:
    under = EvictingNode(mid("only", 5000))
    under.api.refused["only"] = BUDGET
    assert await under.lasts() == pytest.approx(60)
    under.later(59)
    await under.reconcile()
    assert under.evicted() == ["only"]
    assert "only is kept by its PodDisruptionBudget" in under.events("MidEvictionImpossible")[0]
    under.api.refused.clear()
    under.later(1)
    await under.reconcile()
    assert under.evicted() == ["only", "only"]
    assert under.metric("mid_evictions_total", result="evicted") == 1


@pytest.mark.parametrize("error", [ApiUnavailable("overloaded", status=429), ApiUnavailable("away")])
async def test_overload_ends_the_pass(error: ApiUnavailable) -> None:
    under = EvictingNode(*three())
    under.api.refused["young"] = error
    with pytest.raises(ApiUnavailable):
        await under.lasts()
    assert under.evicted() == ["young"]
    now = under.steady.now
    assert under.cluster_state.backoff.backoff_until("shop/Pod/young", under.wall.now, now) == now + 600


@pytest.mark.parametrize("change", [{"uid": "new"}, {"deletionTimestamp": at(0)}, {"nodeName": "n2"}, None])
async def test_another_pod_of_the_name_stays(change: Json | None) -> None:
    """A pod that was recreated, terminates, moved or is gone is not evicted; its resources count."""
    under = EvictingNode(*three())
    if change is None:
        del under.api.objects[YOUNG]
    else:
        under.api.objects[YOUNG]["spec" if "nodeName" in change else "metadata"].update(change)
    await under.lasts()
    assert under.evicted() == []
    assert under.metric("mid_evictions_total", result="gone") == 1


@pytest.mark.parametrize(
    ("limits", "evicted", "a_minute_later", "skipped"),
    [
        ({"maxPerNodePerMinute": 1}, ["young"], ["young", "old"], "node-rate"),
        ({"maxPerMinute": 2}, ["young", "old"], ["young", "old", "high"], "cluster-rate"),
        ({"maxPerMinute": 0}, [], [], "cluster-rate"),
    ],
)
async def test_limits_per_node_and_cluster(
    limits: dict[str, int], evicted: list[str], a_minute_later: list[str], skipped: str
) -> None:
    """A pod skipped by a limit counts once, for any number of reconciliations; a limit of 0 skips all."""
    under = EvictingNode(*three(), cpu="0", **limits)
    assert await under.lasts() == (pytest.approx(60) if evicted else None)
    under.observe()
    under.later(59)
    await under.reconcile()
    assert under.evicted() == evicted
    assert under.metric("mid_evictions_skipped_total", reason=skipped) == 1
    under.later(1)
    await under.reconcile()
    assert under.evicted() == a_minute_later


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (ApiUnavailable("overloaded", status=429), "/eviction"),
        (ApiUnavailable("away"), "/eviction"),
        (NotLeading("lapsed"), "/eviction"),
        (ApiUnavailable("away"), "GET /api/v1/namespaces/shop/pods/young"),
        (ApiError(403, "Forbidden", "no"), "GET /api/v1/namespaces/shop/pods/young"),
    ],
)
async def test_failed_eviction_keeps_no_place(error: Exception, part: str) -> None:
    under = EvictingNode(*three(), cpu="0", maxPerNodePerMinute=1, maxPerMinute=1)
    under.api.fails[part] = error
    with pytest.raises((ApiError, ApiUnavailable)):
        await under.lasts()
    under.api.fails.clear()
    await under.next(5)
    assert under.api.objects[YOUNG]["metadata"]["deletionTimestamp"]
    rate, now = under.cluster_state.rate, under.steady.now
    assert (rate.free_at(1, now), rate.free_at(2, now)) == (now + 60, now)


@pytest.mark.parametrize("error", [ApiUnavailable("no response in time"), NotLeading("lapsed")])
async def test_eviction_without_response_is_reported(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    under = EvictingNode(*three(), cpu="0", maxPerNodePerMinute=1)
    create = under.api.create

    async def lost(path: str, body: Json, params: Any = None) -> Json:  # noqa: ANN401 - as the API has it
        answer = await create(path, body, params)
        if path.endswith("/eviction"):
            raise error
        return answer

    monkeypatch.setattr(under.api, "create", lost)
    await under.lasts()
    assert under.evicted() == ["young"]
    assert [note for note in under.events("MidPodEvicted") if "shop/young" in note]


async def test_replacement_is_left_alone() -> None:
    """The pod that replaces an evicted one on the same node stays for 10 minutes; a sibling from before may go."""
    job = ("Job", "report")
    under = EvictingNode(mid("first", 5000, age=100, owner=job))
    await under.lasts()
    under.leave("first")
    under.add(mid("second", 5000, age=-(AFTER_SECONDS + 3), owner=job))
    await under.lasts(AFTER_SECONDS + 2)
    assert under.evicted() == ["first"]
    assert under.metric("mid_evictions_skipped_total", reason="loop-guard") == 1
    assert "may replace a pod of shop/Job/report" in under.events("MidEvictionImpossible")[0]
    under.add(mid("sibling", 5000, age=900, owner=job))
    await under.next(0)
    assert under.evicted() == ["first", "sibling"]
    under.leave("sibling")
    await under.lasts(700)
    assert under.evicted() == ["first", "sibling", "second"]


async def test_new_leader_observes_for_itself() -> None:
    """Observations from before a loss of leadership prove nothing later; the node's metrics go with it."""
    under = EvictingNode(*three())
    await under.lasts(AFTER_SECONDS - 10)
    MidEvictions().forget(under.context, "n1")
    assert under.metric("mid_deficit_seconds_total", node="n1", resource="cpu") == 0
    await under.next(20)
    assert under.evicted() == []
    await under.lasts()
    assert under.evicted() == ["old"]  # "young" may replace a pod that the leader before evicted
    assert under.metric("mid_evictions_skipped_total", reason="loop-guard") == 1


async def test_gone_node_ends_nothing() -> None:
    under = EvictingNode(*three())
    MidEvictions().forget(under.context, "another")
    await under.lasts()
    assert under.evicted() == ["young"]


async def test_lost_leadership_stops_before_evicting_and_takes_no_place() -> None:
    under = EvictingNode(*three(), maxPerMinute=1)
    under.api.before["GET"] = lambda: under.lead(leads=False)
    await under.lasts()
    assert under.api.calls[-1][:2] == ("GET", YOUNG)
    assert under.cluster_state.rate.free_at(1, under.steady.now) == under.steady.now


async def test_eviction_without_effect_is_repeated_after_a_minute() -> None:
    under = EvictingNode(mid("finalized", 5000))
    await under.lasts()
    del under.api.objects[f"{PODS}/finalized"]["metadata"]["deletionTimestamp"]
    await under.next(59)
    assert under.evicted() == ["finalized"]
    under.later(2)
    await under.lasts()
    assert under.evicted() == ["finalized", "finalized"]
