"""How good predictions were: worked numbers, comings and goings, gaps, restarts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pytest

from agent.metrics import Metrics
from agent.numerics.packing import CheckpointError, pack, unpack
from agent.numerics.peaks import SLOTS_PER_DAY, PeakWindows
from agent.pods import PodRef
from agent.prediction.accuracy import NAME, Accuracy, Score
from agent.prediction.node import ClassNumbers, NodePrediction
from agent.prediction.readiness import Readiness
from agent.report_metrics import show_accuracy
from agent.samples import CPU, MEMORY
from agent.settings import TrainSettings
from agent.trainer.trainer import Trainer
from agent.training import CheckpointedTrainer
from agent.tsdb.tsdb import Tsdb
from crds.predict_policy import DEFAULTS
from crds.priority import PriorityBand
from tests.agent.made import GIB, pod

FIRST = 5_666_666
A, B, C = pod("a"), pod("b"), pod("c")


@dataclass
class _History:
    windows: PeakWindows = field(default_factory=lambda: PeakWindows(8, 2 * SLOTS_PER_DAY))


@dataclass
class Node:
    """A node whose pods use what a test says, slot by slot."""

    accuracy: Accuracy = field(default_factory=Accuracy)
    histories: dict[str, _History] = field(default_factory=lambda: {CPU: _History(), MEMORY: _History()})
    rows: dict[str, int] = field(default_factory=dict)
    slot: int = FIRST

    def row(self, uid: str) -> int | None:
        """As the trainer."""
        return self.rows.get(uid)

    def predict(self, pods: list[PodRef], cores: float | None, gib: float | None = None) -> bool:
        """The prediction of the moment is made."""
        peak = {
            name: int(value) for name, value in ((CPU, cores and cores * 1000), (MEMORY, gib and gib * GIB)) if value
        }
        classes = {"prod": ClassNumbers({}, {}, peak, 0, 0)}
        ready = Readiness(ready=True, reason="Ready", message="")
        found = NodePrediction(0.0, DEFAULTS, classes, 0, (), {}, {}, {}, ready)
        return self.accuracy.observe(cast("Trainer", self), pods, found)

    def use(self, usage: Mapping[str, float], gib: float = 0.5) -> None:
        """Five minutes pass in which the pods use that many cores, and that much memory each."""
        self.measure(usage, gib)
        self.slot += 1
        self.measure({}, gib)

    def measure(self, usage: Mapping[str, float], gib: float) -> None:
        """The slot of the moment gets its samples."""
        rows = np.array([self.rows.setdefault(uid, len(self.rows)) for uid in usage], dtype=np.intp)
        ticks = self.slot * 300.0 + np.array([0.0, 150.0])
        for history, values in (
            (self.histories[CPU], list(usage.values())),
            (self.histories[MEMORY], [gib * GIB] * len(usage)),
        ):
            history.windows.add(rows, ticks, np.array([values, values]).T.reshape(len(usage), 2), 150.0)


def scores(node: Node, horizon: str = "5m") -> Score | None:
    """The score of CPU."""
    return node.accuracy.score(CPU, horizon)


def assert_score(found: Score | None, judged: int, exceeded: int, mean: float, worst: float) -> None:
    """The score is this one."""
    assert found is not None
    assert (found.judged, found.exceeded) == (judged, exceeded)
    assert found.mean_excess == pytest.approx(mean)
    assert found.worst_excess == pytest.approx(worst)


def test_excess_is_counted() -> None:
    """Four slots against 2 cores: 1, 2, 2.5 and 3 cores exceed it twice, by 25 and 50 percent."""
    node = Node()
    node.measure({}, 0.0)
    for cores in (1.0, 2.0, 2.5, 3.0):
        assert node.predict([A], 2.0, gib=1.0)
        assert not node.predict([A], 7.0)  # the slot has its prediction
        node.use({"a": cores})
    node.predict([A], 2.0)
    assert_score(scores(node), 4, 2, 0.375, 0.5)
    assert_score(node.accuracy.score(MEMORY, "5m"), 4, 0, 0.0, 0.0)
    assert scores(node, "24h") is None


def test_outage_is_not_idle() -> None:
    """While the agent is away no pod is measured: a pod that left in the meantime has not used nothing."""
    node = Node()
    node.measure({"sys": 0.5}, 0.0)
    node.predict([A], 2.0)
    node.use({"a": 3.0, "sys": 0.5})
    node.predict([A], 2.0)
    node.slot += 6
    node.measure({"sys": 0.5}, 0.0)
    node.predict([B], 2.0)
    assert_score(scores(node), 1, 1, 0.5, 0.5)


def test_new_pod_counts_against_nobody() -> None:
    """A pod that came after a prediction is not what was predicted."""
    node = Node()
    node.measure({}, 0.0)
    node.predict([A], 2.0)
    node.use({"a": 1.0, "b": 9.0})
    node.predict([A, B], 3.0)
    assert_score(scores(node), 1, 0, 0.0, 0.0)
    node.use({"a": 1.0, "b": 9.0})
    node.predict([A, B], 3.0)
    assert_score(scores(node), 2, 1, 7 / 3, 7 / 3)


def test_departed_pod_uses_nothing() -> None:
    """What is left of the set counts; a pod that left for good and comes back under its name is another one."""
    node = Node()
    node.measure({}, 0.0)
    node.predict([A, B], 3.0)
    node.use({"a": 2.0, "b": 2.0})
    node.predict([A], 3.0)  # b left during the slot, in which it was measured
    assert_score(scores(node), 1, 1, 1 / 3, 1 / 3)
    node.use({"a": 2.0})
    node.predict([A], 3.0)
    assert_score(scores(node), 2, 1, 1 / 3, 1 / 3)


def test_unmeasured_pod_is_a_gap() -> None:
    """A pod that is there and was not measured makes the sum unknown: nothing is judged, neither good nor bad."""
    node = Node()
    node.measure({}, 0.0)
    node.predict([A, B], 1.0)
    node.use({"a": 2.0})
    node.predict([A, B], 1.0)
    assert scores(node) is None


def test_other_classes_do_not_count() -> None:
    """Mid and ended pods are not Prod's; a node without Prod pods has nothing to judge."""
    node = Node()
    node.measure({}, 0.0)
    others = [pod("m", band=PriorityBand.MID), pod("t", terminal=True)]
    node.predict(others, 1.0)
    node.use({"m": 5.0, "t": 5.0})
    node.predict([A, *others], 1.0)
    assert scores(node) is None
    node.use({"a": 0.5, "m": 5.0})
    node.predict([A, *others], 1.0)
    assert_score(scores(node), 1, 0, 0.0, 0.0)


def test_unknown_prediction_is_not_judged() -> None:
    """Where no peak could be predicted, nothing can have exceeded it."""
    node = Node()
    node.measure({}, 0.0)
    node.predict([A], None)
    node.use({"a": 1.0})
    node.predict([A], None)
    assert scores(node) is None


def _slots(node: Node, numbers: range, usage: Mapping[int, float]) -> None:
    """Slots of one core, but where the test says otherwise, against 2 cores."""
    node.measure({}, 0.0)
    for number in numbers:
        node.predict([A], 2.0)
        node.use({"a": usage.get(number, 1.0)})
    node.predict([A], 2.0)


def test_day_is_followed_to_its_end() -> None:
    """One slot of 3 cores after 26 hours exceeds every prediction of the 24 hours before it, once these are over."""
    node, spike = Node(), {SLOTS_PER_DAY + 24: 3.0}
    _slots(node, range(SLOTS_PER_DAY + 12), spike)
    # The first 13 have seen their 24 hours, and the spike is still ahead.
    assert_score(scores(node, "24h"), 13, 0, 0.0, 0.0)
    _slots(node, range(SLOTS_PER_DAY + 12, 2 * SLOTS_PER_DAY - 1), spike)
    # Those 25 to 287 had the spike within their next 24 hours; those 0 to 24 were over before it.
    assert_score(scores(node, "24h"), 288, 263, 0.5, 0.5)
    assert_score(scores(node), 288, 1, 0.5, 0.5)


def test_half_a_day_is_needed() -> None:
    """A prediction of whose 24 hours less than half was measured is not judged."""
    node = Node()
    node.measure({}, 0.0)
    node.predict([A], 2.0)
    node.use({"a": 1.0})
    node.slot += SLOTS_PER_DAY
    node.measure({}, 0.0)
    node.predict([A], 2.0)
    assert scores(node, "24h") is None


@pytest.mark.parametrize("jump", [-24, 24, -1, -50, 100_000, -FIRST])
def test_clock_may_jump(jump: int) -> None:
    """A clock that is set, by hours or to 1970, and set right again makes no prediction be forgotten."""
    node = Node()
    _slots(node, range(10), {5: 3.0})
    for step in (jump, -jump):
        node.slot += step
        for cores in (1.0, 3.0):
            node.measure({}, 0.0)
            node.predict([A], 2.0)
            node.use({"a": cores})
    node.measure({}, 0.0)
    node.predict([A], 2.0)
    assert_score(scores(node), 14, 3, 0.5, 0.5)


def test_slots_pass_after_a_set_clock() -> None:
    """After a clock that was set back, predictions are followed for their 24 hours, and leave after 24 more."""
    node = Node()
    _slots(node, range(10), {})
    node.slot -= 24
    node.measure({}, 0.0)
    _slots(node, range(SLOTS_PER_DAY), {0: 3.0})
    assert_score(scores(node, "24h"), 12, 12, 0.5, 0.5)
    assert_score(scores(node), SLOTS_PER_DAY, 1, 0.5, 0.5)


def test_older_checkpoint_is_understood() -> None:
    """A checkpoint of before slots had numbers of their own goes on."""
    node, again = Node(), Accuracy()
    _slots(node, range(5), {2: 3.0})
    facts, arrays = unpack(node.accuracy.checkpoint()[NAME])
    del facts["number"]
    again.restore({NAME: pack(facts, arrays)})
    assert list(again.scores()) == list(node.accuracy.scores())


def test_cut_run_equals_uncut() -> None:
    """A run that is cut in two by a restart knows what the uncut one knows."""
    uncut, cut = Node(), Node()
    for node in (uncut, cut):
        _slots(node, range(20), {5: 3.0})
        if node is cut:
            saved = node.accuracy.checkpoint()
            assert node.accuracy.checkpoint()[NAME] is saved[NAME]  # nothing to write again while nothing changed
            node.accuracy = Accuracy()
            node.accuracy.restore(saved)
        for cores in (1.0, 4.0):
            node.use({"a": cores})
            node.predict([A], 2.0)
    assert list(uncut.accuracy.scores()) == list(cut.accuracy.scores())
    assert cut.accuracy.checkpoint() == uncut.accuracy.checkpoint()


def test_checkpoint_does_not_grow() -> None:
    """After pods without end, what is saved is as large as ever: it holds those that are here."""
    node = Node()
    node.rows = {"a": 0, **{f"p{number}": 1 for number in range(100)}}
    for number in range(100):
        node.measure({}, 0.0)
        node.predict([A, pod(f"p{number}")], 2.0)
        node.use({"a": 1.0, f"p{number}": 0.1})
        assert len(node.accuracy.arrived) == 2
    assert len(node.accuracy.checkpoint()[NAME]) < 16_000


@pytest.mark.parametrize("data", [b"", b"HRC1 and then nonsense", Accuracy().checkpoint()[NAME][:-1]])
def test_damage_is_noticed(data: bytes) -> None:
    """Damaged bytes are refused, and nothing changes."""
    accuracy = Accuracy()
    with pytest.raises(CheckpointError):
        accuracy.restore({NAME: data})
    assert accuracy.slot < 0


def test_metrics_show_what_is_known() -> None:
    """What can be judged is on /metrics, and what cannot is not there."""
    node, metrics = Node(), Metrics()
    _slots(node, range(4), {2: 3.0})
    show_accuracy(metrics, node.accuracy)
    labels = {"class": "prod", "resource": "cpu", "horizon": "5m"}
    found = {
        name: metrics.registry.get_sample_value(f"headroom_agent_prediction_{name}", labels)
        for name in ("judged", "exceeded_ratio", "excess_mean_ratio", "excess_max_ratio")
    }
    assert found == {"judged": 4, "exceeded_ratio": 0.25, "excess_mean_ratio": 0.5, "excess_max_ratio": 0.5}
    assert metrics.registry.get_sample_value("headroom_agent_prediction_judged", {**labels, "horizon": "24h"}) is None


def test_restart_forgets_nothing(tmp_path: object) -> None:
    """It is kept in the agent's database beside what was learned."""
    path, settings = f"{tmp_path}/agent.db", TrainSettings()
    node = Node()
    _slots(node, range(4), {2: 3.0})
    with Tsdb.open(path) as store:
        learning = CheckpointedTrainer(store, settings)
        learning.accuracy = node.accuracy
        learning.save(FIRST * 300.0)
    with Tsdb.open(path) as store:
        assert list(CheckpointedTrainer(store, settings).accuracy.scores()) == list(node.accuracy.scores())
