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
from agent.prediction.policy import resolve
from agent.prediction.readiness import Readiness, with_accuracy
from agent.prediction.stated_risk import StatedRisk
from agent.report_metrics import show_accuracy
from agent.samples import CPU, MEMORY
from agent.settings import TrainSettings
from agent.trainer.trainer import Trainer
from agent.training import CheckpointedTrainer
from agent.tsdb.tsdb import Tsdb
from crds.predict_policy import DEFAULTS, ModelChoice, PredictPolicy
from crds.priority import PriorityBand
from tests.agent.made import GIB, pod

FIRST = 5_666_666
HOURS_6 = 72  # in slots
DAY, SHORT = StatedRisk(24.0, 1.5, "24h"), StatedRisk(6.0, 2.0, "6h")
A, B = pod("a"), pod("b")
MID, ENDED = pod("m", band=PriorityBand.MID), pod("t", terminal=True)


@dataclass
class _History:
    windows: PeakWindows = field(default_factory=lambda: PeakWindows(8, 2 * SLOTS_PER_DAY))


@dataclass
class Node:
    accuracy: Accuracy = field(default_factory=Accuracy)
    histories: dict[str, _History] = field(default_factory=lambda: {CPU: _History(), MEMORY: _History()})
    rows: dict[str, int] = field(default_factory=dict)
    slot: int = FIRST
    risk: StatedRisk = DAY

    def row(self, uid: str) -> int | None:
        return self.rows.get(uid)

    def predict(self, pods: list[PodRef], cores: float | None, gib: float | None = None) -> bool:
        peak = {
            name: int(value) for name, value in ((CPU, cores and cores * 1000), (MEMORY, gib and gib * GIB)) if value
        }
        classes = {"prod": ClassNumbers({}, {}, peak, 0, 0)}
        ready = Readiness(ready=True, reason="Ready", message="")
        risks = {CPU: self.risk, MEMORY: DAY}
        result = NodePrediction(0.0, DEFAULTS, classes, 0, (), {}, {}, {}, ready, risks=risks)
        return self.accuracy.observe(cast("Trainer", self), pods, result)

    def use(self, usage: Mapping[str, float], gib: float = 0.5) -> None:
        """Five minutes pass in which the pods use that many cores, and that much memory each."""
        self.measure(usage, gib)
        self.slot += 1
        self.measure({}, gib)

    def measure(self, usage: Mapping[str, float], gib: float) -> None:
        rows = np.array([self.rows.setdefault(uid, len(self.rows)) for uid in usage], dtype=np.intp)
        ticks = self.slot * 300.0 + np.array([0.0, 150.0])
        for history, values in (
            (self.histories[CPU], list(usage.values())),
            (self.histories[MEMORY], [gib * GIB] * len(usage)),
        ):
            history.windows.add(rows, ticks, np.array([values, values]).T.reshape(len(usage), 2), 150.0)


def score(node: Node, horizon: str = "5m", resource: str = CPU) -> tuple[float, ...] | None:
    """Return how many predictions were evaluated and exceeded, and by how much: the mean and the worst."""
    result: Score | None = node.accuracy.score(resource, horizon)
    return (
        None
        if result is None
        else (result.evaluated, result.exceeded, round(result.mean_excess, 9), round(result.worst_excess, 9))
    )


def live(node: Node, *slots: tuple[list[PodRef], float | None, dict[str, float]]) -> Node:
    """Slots of five minutes: a prediction for these pods of so many cores, and their usage."""
    node.measure({}, 0.0)
    for pods, cores, usage in slots:
        node.predict(pods, cores)
        node.use(usage)
    node.predict(slots[-1][0], slots[-1][1])
    return node


@pytest.mark.parametrize(
    ("slots", "found"),
    [
        # 1, 2, 2.5 and 3 cores exceed 2 cores twice, by 25 and 50 percent
        ([([A], 2.0, {"a": cores}) for cores in (1.0, 2.0, 2.5, 3.0)], (4, 2, 0.375, 0.5)),
        # a pod newer than the prediction does not count
        ([([A], 2.0, {"a": 1.0, "b": 9.0}), ([A, B], 3.0, {})], (1, 0, 0.0, 0.0)),
        ([([A], 2.0, {"a": 1.0, "b": 9.0}), ([A, B], 3.0, {"a": 1.0, "b": 9.0})], (2, 1, 2.333333333, 2.333333333)),
        # a pod that leaves during a slot was measured in it; after that it uses nothing
        ([([A, B], 3.0, {"a": 2.0, "b": 2.0}), ([A], 3.0, {"a": 2.0})], (2, 1, 0.333333333, 0.333333333)),
        # one that is there and was not measured makes the sum unknown
        ([([A, B], 1.0, {"a": 2.0})], None),
        # Mid and ended pods are not Prod's; without Prod pods or a prediction there is no result
        ([([MID, ENDED], 1.0, {"m": 5.0, "t": 5.0})], None),
        ([([A, MID, ENDED], 1.0, {"a": 0.5, "m": 5.0})], (1, 0, 0.0, 0.0)),
        ([([A], None, {"a": 1.0})], None),
    ],
)
def test_usage_is_compared_with_the_prediction(
    slots: list[tuple[list[PodRef], float | None, dict[str, float]]], found: tuple[float, ...] | None
) -> None:
    assert score(live(Node(), *slots)) == found


def test_slot_keeps_its_first_prediction_and_resources_are_apart() -> None:
    node = Node()
    node.measure({}, 0.0)
    assert node.predict([A], 2.0, gib=1.0)
    assert not node.predict([A], 7.0)
    node.use({"a": 3.0})
    node.predict([A], 2.0)
    assert (score(node), score(node, resource=MEMORY), score(node, "24h")) == ((1, 1, 0.5, 0.5), (1, 0, 0.0, 0.0), None)


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
    assert score(node) == (1, 1, 0.5, 0.5)


def hours(node: Node, numbers: range, usage: dict[int, float]) -> None:
    """Slots of one core, but where the test says otherwise, against 2 cores."""
    live(node, *(([A], 2.0, {"a": usage.get(number, 1.0)}) for number in numbers))


def test_slot_of_3_cores_exceeds_every_prediction_of_the_24_hours_before_it_once_these_are_over() -> None:
    node, spike = Node(), {SLOTS_PER_DAY + 24: 3.0}
    hours(node, range(SLOTS_PER_DAY + 12), spike)
    # The first 13 have seen their 24 hours, and the spike is still ahead.
    assert score(node, "24h") == (13, 0, 0.0, 0.0)
    hours(node, range(SLOTS_PER_DAY + 12, 2 * SLOTS_PER_DAY - 1), spike)
    # Those 25 to 287 had the spike within their next 24 hours; those 0 to 24 were over before it.
    assert score(node, "24h") == (288, 263, 0.5, 0.5)
    assert score(node) == (288, 1, 0.5, 0.5)


def test_prediction_is_evaluated_over_its_own_horizon() -> None:
    """The 3 cores in slot 80 exceed the predictions of slots 9 to 80, which have to hold for 72 slots."""
    node, spike = Node(risk=SHORT), {80: 3.0}
    hours(node, range(160), spike)
    assert score(node, "24h") is None
    assert score(node, "6h") == (160 - HOURS_6 + 1, 72, 0.5, 0.5)
    rate = node.accuracy.violation_rates()[CPU]
    assert (rate.evaluated, rate.exceeded, rate.risk) == (160 - HOURS_6 + 1, 72, SHORT)
    assert MEMORY not in node.accuracy.violation_rates()  # no horizon of 24 hours is over


def test_horizons_of_two_policies_stay_apart() -> None:
    node = Node()
    hours(node, range(SLOTS_PER_DAY), {})
    node.risk = SHORT
    hours(node, range(SLOTS_PER_DAY, SLOTS_PER_DAY + 100), {SLOTS_PER_DAY + 50: 3.0})
    # The first slot of the second part begins with the former policy's prediction.
    assert score(node, "24h") == (101, 50, 0.5, 0.5)
    assert score(node, "6h") == (28, 28, 0.5, 0.5)
    rate = node.accuracy.violation_rates()[CPU]
    assert (rate.evaluated, rate.exceeded) == (28, 28)  # those of the former policy do not count


def test_violations_of_two_weeks_are_counted() -> None:
    node = Node(risk=StatedRisk(1.0, 5.0, "1h"))
    hours(node, range(5 * SLOTS_PER_DAY), {600: 3.0})
    rate = node.accuracy.violation_rates()[CPU]
    assert (rate.evaluated, rate.exceeded) == (5 * SLOTS_PER_DAY - 11, 12)
    assert rate.text == "target 5 %, measured 0.8 % over 4d within 1h"
    hours(node, range(5 * SLOTS_PER_DAY, 20 * SLOTS_PER_DAY), {})
    rate = node.accuracy.violation_rates()[CPU]
    assert 13 * SLOTS_PER_DAY <= rate.evaluated <= 14 * SLOTS_PER_DAY
    assert rate.exceeded == 0


@pytest.mark.parametrize(
    ("policy", "risk"),
    [
        (PredictPolicy(), (24.0, 1.5)),
        (PredictPolicy(parameters={"targetViolationPercent": 2, "horizonHours": 6}), (6.0, 2.0)),
        (PredictPolicy(model="diversity"), (24.0, None)),
        (
            PredictPolicy(
                model="max",
                of=(ModelChoice("sum-max"), ModelChoice("coincidence", parameters={"horizonHours": 6})),
            ),
            (6.0, None),
        ),
    ],
)
def test_risk_of_a_policy(policy: PredictPolicy, risk: tuple[float, float | None]) -> None:
    stated = resolve(policy).models[CPU].risk
    assert (stated.horizon_hours, stated.target_percent) == risk
    assert resolve(policy).models[CPU].risk == stated
    assert resolve(PredictPolicy(model="coincidence", safety_margin_percent=7)).models[CPU].risk.policy != stated.policy


def test_condition_has_target_and_rate() -> None:
    node = Node(risk=SHORT)
    hours(node, range(160), {80: 3.0})
    ready = Readiness(ready=True, reason="Ready", message="1 of 1 Prod pods are predicted from history.")
    assert with_accuracy(ready, {}) == ready
    assert with_accuracy(ready, node.accuracy.violation_rates()).message == (
        "1 of 1 Prod pods are predicted from history. "
        "Usage exceeded predictions: cpu: target 2 %, measured 80.9 % over 7h25m within 6h."
    )
    cold = Readiness(ready=False, reason="CollectingHistory", message="None is.")
    assert with_accuracy(cold, node.accuracy.violation_rates()) == cold


def test_prediction_of_a_day_with_few_measurements_is_not_evaluated() -> None:
    node = live(Node(), ([A], 2.0, {"a": 1.0}))
    node.slot += SLOTS_PER_DAY
    node.measure({}, 0.0)
    node.predict([A], 2.0)
    assert score(node, "24h") is None


@pytest.mark.parametrize("jump", [-24, 24, -1, -50, 100_000, -FIRST])
def test_clock_that_is_set_and_set_right_again_forgets_no_prediction(jump: int) -> None:
    node = Node()
    hours(node, range(10), {5: 3.0})
    for step in (jump, -jump):
        node.slot += step
        for cores in (1.0, 3.0):
            node.measure({}, 0.0)
            node.predict([A], 2.0)
            node.use({"a": cores})
    node.measure({}, 0.0)
    node.predict([A], 2.0)
    assert score(node) == (14, 3, 0.5, 0.5)


def test_slots_pass_after_a_set_clock() -> None:
    """After a clock that was set back, predictions are followed for their 24 hours, and leave after 24 more."""
    node = Node()
    hours(node, range(10), {})
    node.slot -= 24
    node.measure({}, 0.0)
    hours(node, range(SLOTS_PER_DAY), {0: 3.0})
    assert score(node, "24h") == (12, 12, 0.5, 0.5)
    assert score(node) == (SLOTS_PER_DAY, 1, 0.5, 0.5)


def test_older_checkpoint_is_understood() -> None:
    """A checkpoint of before slots had numbers of their own, and predictions a horizon, goes on."""
    node, again = Node(), Accuracy()
    hours(node, range(5), {2: 3.0})
    facts, arrays = unpack(node.accuracy.checkpoint()[NAME])
    for name in ("number", "risks"):
        del facts[name]
    for name in ("slots", "days_cpu", "days_memory"):
        del arrays[name]
    again.restore({NAME: pack(facts, arrays)})
    assert list(again.scores()) == list(node.accuracy.scores())


def test_cut_run_equals_uncut() -> None:
    uncut, cut = Node(), Node()
    for node in (uncut, cut):
        hours(node, range(20), {5: 3.0})
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


def test_checkpoint_holds_present_pods_alone() -> None:
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
    accuracy = Accuracy()
    with pytest.raises(CheckpointError):
        accuracy.restore({NAME: data})
    assert accuracy.slot < 0


def test_metrics_show_only_evaluated_predictions() -> None:
    node, metrics = Node(), Metrics()
    hours(node, range(4), {2: 3.0})
    show_accuracy(metrics, node.accuracy)
    labels = {"class": "prod", "resource": "cpu", "horizon": "5m"}
    result = {
        name: metrics.registry.get_sample_value(f"headroom_agent_prediction_{name}", labels)
        for name in ("evaluated", "exceeded_ratio", "excess_mean_ratio", "excess_max_ratio")
    }
    assert result == {"evaluated": 4, "exceeded_ratio": 0.25, "excess_mean_ratio": 0.5, "excess_max_ratio": 0.5}
    assert (
        metrics.registry.get_sample_value("headroom_agent_prediction_evaluated", {**labels, "horizon": "24h"}) is None
    )


@pytest.mark.parametrize("risk", [{}, {"cpu": 3}, {"cpu": {"policy": "x"}}, {"disk": {}}])
def test_damaged_risk_is_noticed(risk: dict[str, object]) -> None:
    facts, arrays = unpack(Accuracy().checkpoint()[NAME])
    accuracy, saved = Accuracy(), pack({**facts, "risks": risk or 3}, arrays)
    with pytest.raises(CheckpointError):
        accuracy.restore({NAME: saved})


def test_metrics_show_target_and_rate() -> None:
    node, metrics = Node(risk=SHORT), Metrics()
    hours(node, range(160), {80: 3.0})
    show_accuracy(metrics, node.accuracy)
    labels = {"class": "prod", "resource": "cpu", "horizon": "6h"}
    result = {
        name: metrics.registry.get_sample_value(f"headroom_agent_prediction_{name}", labels)
        for name in ("target_ratio", "violations_ratio", "violations_evaluated_seconds")
    }
    assert result == {
        "target_ratio": 0.02,
        "violations_ratio": pytest.approx(72 / 89),
        "violations_evaluated_seconds": 89 * 300,
    }


def test_scores_are_kept_in_the_database(tmp_path: object) -> None:
    path, settings = f"{tmp_path}/agent.db", TrainSettings()
    node = Node()
    hours(node, range(4), {2: 3.0})
    with Tsdb.open(path) as store:
        learning = CheckpointedTrainer(store, settings)
        learning.accuracy = node.accuracy
        learning.save(FIRST * 300.0)
    with Tsdb.open(path) as store:
        assert list(CheckpointedTrainer(store, settings).accuracy.scores()) == list(node.accuracy.scores())
