"""Pods that were bound beyond max while the extender was away: who they are, and what becomes of them."""

from typing import Any

import pytest

from scheduler_plugins.preemption.settings import OverMaxRule
from scheduler_plugins.quota.over_max import over_max_usage
from tests.scheduler_plugins.preemption.plays import Play
from tests.scheduler_plugins.preemption.worlds import GPU

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
    """Team a has a quota of 2 and 2 pods of before it was last changed; b1 of the other team needs no room."""
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
    found = over_max_usage(
        play.world.cluster.ledger, play.world.cluster.pods.values(), play.world.cluster.quota_objects
    )
    return [pod.name for each in found for pod in each.pods]


def test_who_is_beyond() -> None:
    """Those without whom the namespace is within its max: the least important first, then the last bound."""
    play = _play(OverMaxRule.TELL)
    assert _named(play) == []
    _late(play, "late1", 1)
    assert _named(play) == ["late1"]
    _late(play, "late2", 2)
    assert _named(play) == ["late2", "late1"]
    _late(play, "vip", 3, priority=100)
    assert _named(play) == ["late2", "late1", "vip"]
    play.end("a1")
    assert _named(play) == ["late2", "late1"]


def test_lowered_max_names_nobody() -> None:
    """Pods that were bound before the quota was changed stay: a max that is lowered takes nothing away."""
    play = _play(OverMaxRule.EVICT)
    lowered = {**QUOTA, "spec": {"min": {GPU: "1"}, "max": {GPU: "1"}}}
    play.world.cluster.put_quota(lowered)
    assert _named(play) == []


def test_other_resources_do_not_matter() -> None:
    play = _play(OverMaxRule.TELL)
    _late(play, "late1", 1)
    _late(play, "none", 5, gpus=0)
    assert _named(play) == ["late1"]


@pytest.mark.parametrize(
    ("rule", "settings", "evicted"),
    [
        (OverMaxRule.TELL, {}, []),
        (OverMaxRule.EVICT, {}, ["late2", "late1"]),
        (OverMaxRule.EVICT, {"dry_run": True}, []),
        (OverMaxRule.EVICT, {"eviction_burst": 1, "evictions_per_second": 0.01}, ["late2"]),
    ],
)
async def test_what_becomes_of_them(rule: OverMaxRule, settings: dict[str, Any], evicted: list[str]) -> None:
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
