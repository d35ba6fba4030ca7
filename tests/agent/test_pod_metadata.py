"""The pods behind the series in the database."""

import pytest

from agent import pod_metadata
from agent.numerics.packing import CheckpointError, pack
from agent.pod_metadata import KEPT_SECONDS, PodMetadataStore
from agent.settings import TrainSettings
from agent.training import CheckpointedTrainer
from agent.tsdb.tsdb import Tsdb
from crds.priority import PriorityBand
from tests.agent.made import START, pod


def restored(before: PodMetadataStore) -> PodMetadataStore:
    after = PodMetadataStore()
    after.restore(before.checkpoint())
    return after


def test_requests_of_a_pod_outlive_it_and_a_restart() -> None:
    before = PodMetadataStore("worker-1")
    spare = pod("spare", band=PriorityBand.BATCH)
    before.update(START, [pod("web", 250, band=PriorityBand.NONE, limits={"cpu": 500}), spare])
    before.update(START + 30, [spare])
    after = restored(before)
    assert (after.node, after.pods) == ("worker-1", before.pods)
    assert (after.pods["web"].ended, after.pods["spare"].ended) == (START + 30, None)
    header, first, row = after.rows(["web", "spare"])
    assert header == list(pod_metadata.COLUMNS)
    assert first[:5] == ["spare", "worker-1", "shop/spare", "", "batch"]
    assert row == ["web", "worker-1", "shop/web", "", "prod", "250", "500", "1024", ""]


@pytest.mark.parametrize("now", [START + 600, 60.0])
def test_pod_that_ended_while_the_agent_was_away_has_ended_when_it_is_back(now: float) -> None:
    """A pod expires by either clock: a clock reset keeps no pod for ever. A pod that returns is present."""
    before = PodMetadataStore()
    before.update(START, [pod("a"), pod("b"), pod("c"), pod("d")])
    before.update(START + 30, [pod("a"), pod("b")])
    after = restored(before)
    after.update(now, [pod("c"), pod("b")])
    assert [after.pods[name].ended for name in "abcd"] == [now, None, None, min(START + 30, now)]
    after.update(now + 1 + KEPT_SECONDS, [pod("b")])
    assert sorted(after.all_pods()) == ["b", "c"]


def test_pods_that_ended_a_month_ago_are_forgotten() -> None:
    metadata = PodMetadataStore()
    for number in range(5):
        metadata.update(START + number, [pod(f"p{number}")])
    metadata.update(START + 4 + KEPT_SECONDS, [])
    assert sorted(metadata.all_pods()) == ["p3", "p4"]  # which ended KEPT_SECONDS ago at most
    metadata.update(START + 5 + KEPT_SECONDS, [pod("new")])
    assert sorted(metadata.all_pods()) == ["new", "p4"]


def test_thousands_of_ended_pods_take_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of ended pods are remembered, a few as objects; saved ones are written once."""
    cached, written, before = PodMetadataStore("n"), 0, dict[str, bytes]()
    for number in range(2000):
        cached.update(START + number, [pod(f"p{number}", 100)])
        if number % 100 == 0:
            content = cached.checkpoint()
            written += sum(len(data) for name, data in content.items() if data is not before.get(name))
            before = content
        assert len(cached.pods) <= 2 * pod_metadata.PACKED
    assert len(cached.all_pods()) == 2000
    assert written < 400_000
    again = restored(cached)
    assert again.all_pods() == cached.all_pods()
    _, row = again.rows(["p7"])
    assert row[:3] == ["p7", "n", "shop/p7"]
    monkeypatch.setattr(pod_metadata, "MOST", 2)
    cached.update(START + 2000, [])
    assert len(cached.all_pods()) <= 4 * pod_metadata.PACKED
    assert "p1999" in cached.all_pods()
    cached.update(START + 2001 + KEPT_SECONDS, [pod("new")])
    assert cached.checkpoint().keys() == {pod_metadata.NAME}


def test_nothing_new_is_the_same_bytes_which_are_not_written_again() -> None:
    metadata = PodMetadataStore()
    metadata.update(START, [pod("a")])
    packed = metadata.checkpoint()
    metadata.update(START + 30, [pod("a")])
    assert metadata.checkpoint()[pod_metadata.NAME] is packed[pod_metadata.NAME]
    metadata.update(START + 60, [pod("a", 1)])
    assert metadata.checkpoint() != packed


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
def test_checkpoint_of_something_else_changes_nothing(data: bytes) -> None:
    metadata = PodMetadataStore("n")
    metadata.update(START, [pod("a")])
    with pytest.raises(CheckpointError):
        metadata.restore({pod_metadata.NAME: data})
    assert list(metadata.pods) == ["a"]


def test_learning_saves_them() -> None:
    """They are saved with the checkpoint, under the node's name, and restored with it."""
    with Tsdb.in_memory() as store:
        learning = CheckpointedTrainer(store, TrainSettings(interval_seconds=1.0), node="worker-1")
        learning.step(START, [pod("a")])
        learning.step(START + 30, [pod("a")])
        learning.save(START + 30)
        again = CheckpointedTrainer(store, TrainSettings())
        assert (again.pod_metadata.node, list(again.pod_metadata.pods)) == ("worker-1", ["a"])


@pytest.mark.parametrize("jump", [7200.0, -7200.0, -START, 400 * 86400.0])
def test_set_clock_forgets_no_pod(jump: float) -> None:
    """A clock that is set, by hours, a year or to 1970, and set right again makes no name be forgotten."""
    with Tsdb.in_memory() as store:
        learning, now = CheckpointedTrainer(store, TrainSettings(interval_seconds=1.0)), START
        for listed in ("ab", "ab", "a", "ac", "a", "ad"):
            learning.step(now, [pod(name) for name in listed])
            now += 30.0
            if listed in ("a", "ac"):
                now, jump = now + jump, -jump
    assert sorted(learning.pod_metadata.all_pods()) == ["a", "b", "c", "d"]
