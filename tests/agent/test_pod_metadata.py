"""Whose the series in the database are."""

import pytest

from agent import pod_metadata
from agent.numerics.packing import CheckpointError, pack
from agent.pod_metadata import KEPT_SECONDS, PodMetadataStore
from agent.settings import TrainSettings
from agent.training import CheckpointedTrainer
from agent.tsdb.tsdb import Tsdb
from crds.priority import PriorityBand
from tests.agent.made import GIB, START, pod


def test_pod_outlives_itself() -> None:
    """What a pod requested is known after it has ended and the agent was started anew."""
    before = PodMetadataStore("worker-1")
    web = pod("web", 250, band=PriorityBand.NONE, limits={"cpu": 500})
    before.update(START, [web, pod("spare", band=PriorityBand.BATCH)])
    before.update(START + 30, [pod("spare", band=PriorityBand.BATCH)])
    after = PodMetadataStore()
    after.restore(before.checkpoint())
    assert after.node == "worker-1"
    assert after.pods == before.pods
    assert (after.pods["web"].class_name, after.pods["web"].requests) == ("prod", {"cpu": 250, "memory": GIB})
    assert (after.pods["web"].ended, after.pods["spare"].ended) == (START + 30, None)
    header, spare, row = after.rows(["web", "spare"])
    assert header == list(pod_metadata.COLUMNS)
    assert spare[:5] == ["spare", "worker-1", "shop/spare", "", "batch"]
    assert row == ["web", "worker-1", "shop/web", "", "prod", "250", "500", "1024", ""]


def test_pod_that_ended_meanwhile() -> None:
    """A pod that ended while the agent was away has ended when the agent is back, and one that came back is here."""
    before = PodMetadataStore()
    before.update(START, [pod("a"), pod("b")])
    before.update(START + 30, [pod("a")])
    after = PodMetadataStore()
    after.restore(before.checkpoint())
    after.update(START + 600, [pod("b")])
    assert (after.pods["a"].ended, after.pods["b"].ended) == (START + 600, None)


def test_old_pods_are_forgotten() -> None:
    """Pods that ended a month ago are forgotten."""
    known = PodMetadataStore()
    for number in range(5):
        known.update(START + number, [pod(f"p{number}")])
    known.update(START + 4 + KEPT_SECONDS, [])
    assert sorted(known.all_pods()) == ["p3", "p4"]  # which ended KEPT_SECONDS ago at most
    known.update(START + 5 + KEPT_SECONDS, [pod("new")])
    assert sorted(known.all_pods()) == ["new", "p4"]


def test_thousands_of_ended_pods_take_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of pods that ended all are remembered, a few as objects; what is saved is written once."""
    known, written, before = PodMetadataStore("n"), 0, dict[str, bytes]()
    for number in range(2000):
        known.update(START + number, [pod(f"p{number}", 100)])
        if number % 100 == 0:
            content = known.checkpoint()
            written += sum(len(data) for name, data in content.items() if data is not before.get(name))
            before = content
        assert len(known.pods) <= 2 * pod_metadata.PACKED
    assert len(known.all_pods()) == 2000
    assert written < 400_000
    again = PodMetadataStore()
    again.restore(known.checkpoint())
    assert again.all_pods() == known.all_pods()
    _, row = again.rows(["p7"])
    assert row[:3] == ["p7", "n", "shop/p7"]
    monkeypatch.setattr(pod_metadata, "MOST", 2)
    known.update(START + 2000, [])
    assert len(known.all_pods()) <= 4 * pod_metadata.PACKED
    assert "p1999" in known.all_pods()
    known.update(START + 2001 + KEPT_SECONDS, [pod("new")])
    assert known.checkpoint().keys() == {pod_metadata.NAME}


def test_unchanged_is_not_packed_again() -> None:
    """Nothing new is the same bytes object, so the database does not write it again."""
    known = PodMetadataStore()
    known.update(START, [pod("a")])
    packed = known.checkpoint()
    known.update(START + 30, [pod("a")])
    assert known.checkpoint()[pod_metadata.NAME] is packed[pod_metadata.NAME]
    known.update(START + 60, [pod("a", 1)])
    assert known.checkpoint() != packed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        pack({}, {}),
        pack({"node": "n", "pods": []}, {}),
        pack({"node": "n", "pods": {"a": {"name": "a"}}}, {}),
        pack({"node": "n", "pods": {"a": ["a", "prod", None, {}, {}]}}, {}),
    ],
)
def test_damage_is_told(data: bytes) -> None:
    """A checkpoint of something else changes nothing and says so."""
    known = PodMetadataStore("n")
    known.update(START, [pod("a")])
    with pytest.raises(CheckpointError):
        known.restore({pod_metadata.NAME: data})
    assert list(known.pods) == ["a"]


def test_learning_saves_them() -> None:
    """They are saved with what was learned, under the node's name, and restored with it."""
    with Tsdb.in_memory() as store:
        learning = CheckpointedTrainer(store, TrainSettings(interval_seconds=1.0), node="worker-1")
        learning.step(START, [pod("a")])
        learning.step(START + 30, [pod("a")])
        learning.save(START + 30)
        again = CheckpointedTrainer(store, TrainSettings())
        assert (again.pod_metadata.node, list(again.pod_metadata.pods)) == ("worker-1", ["a"])


@pytest.mark.parametrize("jump", [7200.0, -7200.0, -START, 400 * 86400.0])
def test_set_clock_forgets_nobody(jump: float) -> None:
    """A clock that is set, by hours, a year or to 1970, and set right again makes no name be forgotten."""
    with Tsdb.in_memory() as store:
        learning, now = CheckpointedTrainer(store, TrainSettings(interval_seconds=1.0)), START
        for listed in ("ab", "ab", "a", "ac", "a", "ad"):
            learning.step(now, [pod(name) for name in listed])
            now += 30.0
            if listed in ("a", "ac"):
                now, jump = now + jump, -jump
    assert sorted(learning.pod_metadata.all_pods()) == ["a", "b", "c", "d"]


def test_other_clock_is_none_of_ours() -> None:
    """Times of an older version, or of a clock that began anew since, count as now: no pod is kept for ever."""
    before = PodMetadataStore()
    before.update(START, [pod("a"), pod("b")])
    before.update(START + 30, [pod("a")])
    after = PodMetadataStore()
    after.restore(before.checkpoint())
    after.update(60.0, [pod("a"), pod("c")])
    assert after.pods["b"].ended == 60.0
    after.update(61.0 + KEPT_SECONDS, [pod("a")])
    assert sorted(after.all_pods()) == ["a", "c"]
