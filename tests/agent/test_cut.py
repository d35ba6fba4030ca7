"""A run that is cut in two equals the uncut run, bit for bit: histories, windows, predictions."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agent.numerics.packing import unpack
from agent.pods import PodRef
from agent.prediction.node import predict
from agent.predictors import PREDICTORS
from agent.samples import CPU, MEMORY, NODE, SYS, Sample
from agent.trainer.trainer import Trainer
from agent.tsdb.tsdb import Tsdb
from crds.predict_policy import ModelChoice, PredictPolicy
from tests.agent.made import FACTS, GIB, SLOT_START, LongRun, pod

SLOTS = 40
SUMS = {"training/roster", "training/cpu", "training/memory"}


def _pods(slot: int) -> list[PodRef]:
    """A pod that stays, a Deployment's pod that is replaced twice, and a short job now and then."""
    pods = [pod("stays", 4000), pod(f"cart-{slot // 15}", 2000, workload="shop/Deployment/cart")]
    return [*pods, pod(f"job-{slot}", 500, workload="shop/Job/clean")] if slot % 8 == 5 else pods


def _run(slots: range, node: LongRun) -> LongRun:
    random = np.random.default_rng(7)
    for number in range(slots.stop):
        usage = random.uniform(0.0, 3.0, 3)  # the same for a slot, in any order
        if number in slots:
            pods = _pods(number)
            node.slot({one.uid: float(cores) for one, cores in zip(pods, usage, strict=False)}, pods, system=0.2)
    return node


def _policies() -> list[PredictPolicy]:
    of = (ModelChoice("sum-max"), ModelChoice("borg-default"))
    return [PredictPolicy(model=name, of=of if name == "max" else None) for name in PREDICTORS]


def _assert_same(left: Trainer, right: Trainer, *, index: bool = True) -> None:
    """Everything that two learners know is the same, to the last bit; only the numbers of the rows may differ."""
    result, expected = left.checkpoints(), right.checkpoints()
    names = SUMS if index else SUMS - {"training/roster"}
    assert {name: result[name] for name in names} == {name: expected[name] for name in names}
    entities = list(unpack(result["training/roster"])[0]["series"]["members"])
    for metric, history in left.histories.items():
        ours, theirs = history.windows, right.histories[metric].windows
        np.testing.assert_array_equal(ours.held, theirs.held)
        rows, others = ([trainer.row(entity) for entity in entities] for trainer in (left, right))
        np.testing.assert_array_equal(
            ours.read(np.array(rows, dtype=np.intp), ours.held), theirs.read(np.array(others, dtype=np.intp), ours.held)
        )


def _predictions(trainer: Trainer, now: float, pods: Sequence[PodRef]) -> list[object]:
    return [predict(now, trainer, pods, FACTS, policy) for policy in _policies()]


@pytest.mark.parametrize("cut", [1, 13, 16, 31, 39])
def test_cut_run_equals_uncut_wherever_it_is_cut(cut: int) -> None:
    whole = _run(range(SLOTS), LongRun())
    first = _run(range(cut), LongRun())
    second = LongRun(now=first.now)
    second.trainer = Trainer(first.trainer.settings)
    second.trainer.restore(first.trainer.checkpoints())
    _run(range(cut, SLOTS), second)
    pods = _pods(SLOTS - 1)
    _assert_same(second.trainer, whole.trainer)
    assert _predictions(second.trainer, second.now, pods) == _predictions(whole.trainer, whole.now, pods)


def test_restored_trainer_has_all_averages_also_of_ended_workloads() -> None:
    node = _run(range(SLOTS), LongRun())
    again = Trainer(node.trainer.settings)
    again.restore(node.trainer.checkpoints())
    _assert_same(again, node.trainer)
    assert len(again.histories[CPU].windows.held) == SLOTS


def test_little_is_written_again() -> None:
    """Between two saves only the current hour and the sums change; a past hour is the very same bytes."""
    node = _run(range(SLOTS), LongRun())
    before = node.trainer.checkpoints()
    node.slot({"stays": 1.0}, _pods(SLOTS))
    after = node.trainer.checkpoints()
    changed = {name for name, data in after.items() if before.get(name) is not data}
    past = {name for name in after if name.startswith("training/windows/")} - changed
    assert len(past) == 3
    assert len(changed - SUMS) == 1


def test_checkpoint_size_is_constant() -> None:
    node = LongRun()
    node.trainer.resize_windows(7.0)
    sizes: list[tuple[int, int]] = []
    for hours in (6, 6):
        for number in range(hours * 12):
            name = f"job-{len(sizes)}-{number}"
            node.slot({name: 1.0}, [pod(name, workload="shop/Job/clean")])
        rows = json.dumps(sorted(node.trainer.checkpoints()))
        sizes.append((len(node.trainer.histories[CPU].observed), rows.count("inherited")))
    assert sizes[1] == sizes[0]


def test_killed_agent_learns_the_rest_from_the_store(tmp_path: Path) -> None:
    pods = [pod("a", 2000)]
    random = np.random.default_rng(3)

    def tick(store: Tsdb, now: float) -> None:
        cores = {"a": random.uniform(0.0, 2.0), SYS: 0.25}
        cores[NODE] = sum(cores.values())
        both = [(CPU, 1.0), (MEMORY, float(GIB))]
        store.append(now, [Sample(m, e, now, scale * value) for m, scale in both for e, value in cores.items()])

    store, trainer, now = Tsdb.open(tmp_path / "a.db"), Trainer(), SLOT_START
    for number in range(600):
        now += 2.0
        tick(store, now)
        if number % 15 == 0:
            trainer.train(now, store, pods)
        if number == 330:
            saved = trainer.checkpoints()
    store.close()
    again = Trainer()
    again.restore(saved)
    with Tsdb.open(tmp_path / "a.db") as reopened:
        again.train(now, reopened, pods)
        trainer.train(now, reopened, pods)
    assert _predictions(again, now, pods) == _predictions(trainer, now, pods)
    _assert_same(again, trainer, index=False)  # evicted at other moments
