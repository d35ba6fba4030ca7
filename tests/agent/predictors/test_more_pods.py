"""Adding pods never lowers the peak of present pods, in any model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.numerics.arrays import FloatArray
from agent.numerics.history import cpu_history
from agent.numerics.peaks import SLOT_SECONDS, SLOTS
from agent.predictors import PREDICTORS, build
from agent.predictors.base import ClassView, Model
from crds.models import COMBINING
from crds.predict_policy import ModelChoice, ResourcePolicy

DAY = 86400.0
PARTS = (ModelChoice("diversity"), ModelChoice("borg-default"))
MODELS = {name: build(ResourcePolicy(name, {}, PARTS if name in COMBINING else (), 0)) for name in PREDICTORS}
CLASS_ALONE = {"nsigma-v1"}
"""Their peak is one of the class series alone: a pod that fills the valleys of the others lowers the deviation of the
sum. With the series unchanged they count a present pod as all models do."""


def seen(usage: FloatArray, days: FloatArray) -> ClassView:
    """Pods with the listed usage, nothing in the rest of a week, and their class."""
    history = cpu_history()
    rows = np.arange(len(usage) + 1)
    history.grow(len(rows))
    values_of_all = np.vstack([usage.sum(axis=0), usage])
    for slot, values in enumerate(values_of_all.T):
        history.learn(rows, values, SLOT_SECONDS * (slot + 1), np.full(len(rows), SLOT_SECONDS))
    averages = np.zeros((len(rows), SLOTS), dtype=np.float32)
    averages[:, -usage.shape[1] :] = values_of_all
    history.windows.slot = SLOTS - 1
    history.windows.write(rows, np.arange(SLOTS), averages)
    history.observed[1:] = days * DAY
    return ClassView(history, 0, rows[1:], np.full(len(usage), 4.0))


def part(view: ClassView, count: int) -> ClassView:
    # of the same history only the first pods are there
    return ClassView(view.history, view.series, view.pods[:count], view.requests[:count])


@st.composite
def _pods(draw: st.DrawFn) -> tuple[FloatArray, FloatArray, int]:
    """Usage, days of evidence, and how many of them are there first."""
    count, slots = draw(st.integers(2, 12)), draw(st.integers(2, 12))
    cores = st.sampled_from([0.0, 0.1, 1.0, 4.0]) | st.floats(0.0, 16.0)
    usage = [draw(st.lists(cores, min_size=slots, max_size=slots)) for _ in range(count)]
    if draw(st.booleans()):  # each peaks when the others rest
        usage = (np.eye(count, slots) * [draw(cores) for _ in range(slots)]).tolist()
    days = draw(st.lists(st.sampled_from([1.0, 14.0]) | st.floats(0.0, 14.0), min_size=count, max_size=count))
    return np.array(usage), np.array(days), draw(st.integers(1, count - 1))


@pytest.mark.parametrize("name", MODELS)
@given(made=_pods())
def test_of_one_history_more_pods_that_are_present_are_never_less(
    name: str, made: tuple[FloatArray, FloatArray, int]
) -> None:
    usage, days, count = made
    view = seen(usage, days)
    assert _peak(MODELS[name], part(view, count)) <= _peak(MODELS[name], view)


@pytest.mark.parametrize("name", sorted(MODELS.keys() - CLASS_ALONE))
@given(made=_pods())
def test_additional_pods_never_lower_the_peak_of_a_node(name: str, made: tuple[FloatArray, FloatArray, int]) -> None:
    usage, days, count = made
    assert _peak(MODELS[name], seen(usage[:count], days[:count])) <= _peak(MODELS[name], seen(usage, days))


@pytest.mark.parametrize("name", sorted(MODELS.keys() - CLASS_ALONE))
def test_old_pods_say_nothing_of_young_ones_with_rare_bursts(name: str) -> None:
    usage = 0.2 * np.eye(40)  # one after the other, the young ones first
    days = np.repeat([1.0, 14.0], 20)
    alone, together = seen(usage[:20], days[:20]), seen(usage, days)
    assert _peak(MODELS[name], alone) <= _peak(MODELS[name], together)


def _peak(model: Model, view: ClassView) -> float:
    """The peak, without the last bits, which are of the order of additions."""
    return round(float(np.max(model.peak(view, 1.0))), 6)
