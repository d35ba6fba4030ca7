"""Accuracy of predictions, on line: the usage of the Prod pods against their prediction.

Every five minutes (a slot) the predicted peak of Prod is stored as reported, with margin and cold pods. At the end of
a slot, its usage is compared with every prediction with a horizon that is not over. Both are about the same pods: a
pod that started after a prediction does not count against it, and one that ended uses nothing.

    usage(s, k) = sum of the averages in slot k of the pods that were there when prediction s was made

    horizon 5m: prediction k is exceeded when usage(k, k) > predicted(k): the usage while it was in force
    its own:    prediction s is exceeded when usage(s, k) > predicted(s) for any slot k of s, s + 1, … s + n - 1

n is the horizon that the policy stated when it made the prediction: `horizonHours` of the model, 24 h by default. An
excess is (usage - predicted) / predicted. Statistics are about predictions with a horizon that ended in the last 24
hours, once half of it has samples; `stated_risk` counts those of 14 days. A slot without
samples of a pod is skipped for its predictions. One without system usage, for which every pod is needed,
is skipped for all: the usage of a pod that ended while the agent was away is unknown. A node without
Prod pods has no statistics.

Slots are numbered in order: after a clock that was set back, or on by more than a day, the next slot has the
next number, so that no prediction is lost. The same holds after an agent was away for longer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from agent.numerics.arrays import BoolArray, FloatArray, IntArray
from agent.numerics.packing import CheckpointError, pack, unpack
from agent.numerics.peaks import SLOT_SECONDS, SLOTS_PER_DAY
from agent.pods import PodRef
from agent.prediction.node import PROD, UNITS, NodePrediction
from agent.prediction.stated_risk import StatedRisk, ViolationCounts, ViolationRate
from agent.samples import CPU, MEMORY, SYS
from agent.series_index import CLASS_NAMES
from agent.trainer.trainer import Trainer
from crds.duration import format_span

NAME: Final = "accuracy"  # under what name its checkpoint is kept
SLOT: Final = "5m"  # the shortest horizon: as long as a prediction is in force
RESOURCES: Final = (CPU, MEMORY)  # the evaluated resources, in the order of the columns
_SLOTS: Final = 2 * SLOTS_PER_DAY
_ENOUGH: Final = 0.5
_NEVER: Final = -1
_LATER: Final = ("slots", *(f"days_{resource}" for resource in RESOURCES))  # arrays that older checkpoints lack
_SMALLEST: Final[Mapping[str, float]] = {CPU: 0.01, MEMORY: float(16 << 20)}


@dataclass(frozen=True, slots=True)
class Score:
    """Accuracy of the predictions of a resource over one horizon."""

    evaluated: int  # predictions of a horizon that ended in the last 24 hours, with enough samples
    exceeded: int  # the number of exceeded ones
    mean_excess: float  # their mean excess, as a share of the prediction; 0 without any
    worst_excess: float  # the largest excess; 0 without any


class Accuracy:
    """Stores predictions and evaluates them. Arrays are rings of 48 hours, shape (slots, resources)."""

    def __init__(self) -> None:
        self.slot = _NEVER  # the slot of the last stored prediction, in slots since 1970
        self._number = _NEVER
        self.arrived: dict[str, int] = {}
        """The number of the first slot with a prediction for this pod, by uid, of the present pods."""
        shape = (_SLOTS, len(RESOURCES))
        self._labels: IntArray = np.full(_SLOTS, _NEVER, dtype=np.intp)
        self._arrays: dict[str, FloatArray] = {
            "predicted": np.full(shape, np.nan),
            "at_once": np.full(shape, np.nan),
            "highest": np.full(shape, np.nan),
            "seen": np.zeros(shape),
            "slots": np.full(shape, float(SLOTS_PER_DAY)),  # the horizon of the prediction
        }
        self._violations = {resource: ViolationCounts() for resource in RESOURCES}
        self._packed: bytes | None = None

    def observe(self, trainer: Trainer, pods: Sequence[PodRef], prediction: NodePrediction) -> bool:
        """Evaluate the slots that are over, and remember the prediction of the one that has begun.

        Whether one has; until then nothing happens. The trainer knows the averages of the slots.
        """
        slot = max(history.windows.slot for history in trainer.histories.values())
        if slot < 0 or slot == self.slot:
            return False
        present = {pod.uid for pod in pods if not pod.terminal and CLASS_NAMES[pod.band] == PROD}
        if self.slot == _NEVER:
            self._number = slot
        else:
            passed = slot - self.slot if 0 < slot - self.slot <= SLOTS_PER_DAY else 1  # else the clock was set
            for over in range(passed):
                self._evaluate(self.slot + over, self._number + over, trainer, present)
            self._number += passed
        self.slot = slot
        self._remember(present, prediction)
        self._packed = None
        return True

    def score(self, resource: str, horizon: str) -> Score | None:
        """Return the accuracy of a resource over one of its `horizons`; None without evaluated predictions."""
        column, length = RESOURCES.index(resource), self.horizons(resource).get(horizon, 0)
        predicted = self._arrays["predicted"][:, column]
        used = self._arrays["at_once" if horizon == SLOT else "highest"][:, column]
        measured = ~np.isnan(used) if horizon == SLOT else self._measured(column, length)
        ended = (self._labels >= 0) & (self._labels + length <= self._number)
        recent = self._labels + length > self._number - SLOTS_PER_DAY
        evaluated: BoolArray = ended & recent & measured & ~np.isnan(predicted)
        if not evaluated.any():
            return None
        excess = (used[evaluated] - predicted[evaluated]) / np.maximum(predicted[evaluated], _SMALLEST[resource])
        beyond = excess[excess > 0.0]
        mean, worst = (float(beyond.mean()), float(beyond.max())) if beyond.size else (0.0, 0.0)
        return Score(int(evaluated.sum()), int(beyond.size), mean, worst)

    def horizons(self, resource: str) -> dict[str, int]:
        """Return the horizons of the stored predictions, such as "5m" and "24h", in slots."""
        lengths = np.unique(self._arrays["slots"][self._labels >= 0, RESOURCES.index(resource)]).astype(int).tolist()
        return {SLOT: 1, **{format_span(length * SLOT_SECONDS): length for length in lengths}}

    def scores(self) -> Iterator[tuple[str, str, Score]]:
        """Every resource and horizon with evaluated predictions."""
        for resource in RESOURCES:
            for horizon in self.horizons(resource):
                score = self.score(resource, horizon)
                if score is not None:
                    yield resource, horizon, score

    def violation_rates(self) -> dict[str, ViolationRate]:
        """Return how often usage exceeded the predictions of the policy in force, by resource, once there is one."""
        rates = {resource: counts.rate(self._number) for resource, counts in self._violations.items()}
        return {resource: rate for resource, rate in rates.items() if rate is not None}

    def checkpoint(self) -> dict[str, bytes]:
        """Everything, as bytes of a size that does not grow with time; the same object while nothing changed."""
        if self._packed is not None:
            return {NAME: self._packed}
        facts = {"slot": self.slot, "number": self._number, "arrived": self.arrived, "resources": list(RESOURCES)}
        facts["risks"] = {resource: counts.facts() for resource, counts in self._violations.items()}
        self._packed = pack(facts, self._all_arrays())
        return {NAME: self._packed}

    def restore(self, content: Mapping[str, bytes]) -> None:
        """Take over what `checkpoint` gave; CheckpointError if it is damaged or of another layout, nothing changed."""
        if NAME not in content:
            return
        facts, arrays = unpack(data := content[NAME])
        mine = self._all_arrays()
        arrays = {**{name: mine[name] for name in _LATER}, **arrays}  # of a checkpoint from before they were added
        shapes = {name: array.shape for name, array in mine.items()}
        if facts.get("resources") != list(RESOURCES) or {name: one.shape for name, one in arrays.items()} != shapes:
            raise CheckpointError("the checkpoint of the predictions' accuracy is of another layout")
        slot, arrived = _whole(facts["slot"]), {uid: _whole(first) for uid, first in facts["arrived"].items()}
        violations = {resource: ViolationCounts() for resource in RESOURCES}
        try:
            for resource, risk in facts.get("risks", {}).items():
                violations[resource].restore(risk, arrays[f"days_{resource}"])
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint of the predictions' accuracy has no valid risk: {error}") from error
        self.slot, self._number, self.arrived = slot, _whole(facts.get("number", slot)), arrived
        self._labels, self._violations = arrays["labels"].astype(np.intp), violations
        self._arrays, self._packed = {name: arrays[name] for name in self._arrays}, data

    def _all_arrays(self) -> dict[str, FloatArray]:
        days = {f"days_{resource}": counts.days for resource, counts in self._violations.items()}
        return {"labels": self._labels.astype(np.float64), **self._arrays, **days}

    def _evaluate(self, over: int, number: int, trainer: Trainer, present: set[str]) -> None:
        """Compare the usage of one slot, which has that number, with every prediction that has it in its horizon."""
        order = sorted((first, uid) for uid, first in self.arrived.items() if first <= number)
        arrivals = np.array([slot for slot, _ in order], dtype=np.intp)
        begun = (self._labels >= 0) & (self._labels <= number)
        for column, resource in enumerate(RESOURCES):
            live = np.flatnonzero(begun & (self._labels + self._arrays["slots"][:, column] > number))
            count = np.searchsorted(arrivals, self._labels[live], side="right")
            usage = _usage(trainer, resource, [uid for _, uid in order], over, present)
            used = np.append(0.0, np.cumsum(usage))[count]
            self._note(live, column, np.where(count > 0, used, np.nan), number)
            self._count(live, column, number)
        for uid in self.arrived.keys() - present:
            del self.arrived[uid]

    def _note(self, live: IntArray, column: int, used: FloatArray, number: int) -> None:
        measured = ~np.isnan(used)
        highest, seen = self._arrays["highest"], self._arrays["seen"]
        highest[live, column] = np.fmax(highest[live, column], used)
        seen[live, column] += measured
        of_slot = live[self._labels[live] == number]
        self._arrays["at_once"][of_slot, column] = used[self._labels[live] == number]

    def _count(self, live: IntArray, column: int, number: int) -> None:
        """Count the predictions with a horizon that ends with this slot."""
        lengths, predicted = self._arrays["slots"][:, column], self._arrays["predicted"][:, column]
        rows = live[self._labels[live] + lengths[live] == number + 1]
        rows = rows[self._measured(column, lengths)[rows] & ~np.isnan(predicted[rows])]
        exceeded = self._arrays["highest"][rows, column] > predicted[rows]
        self._violations[RESOURCES[column]].add(number, self._labels[rows], exceeded)

    def _measured(self, column: int, lengths: FloatArray | int) -> BoolArray:
        """Return which predictions with horizons of these lengths have enough samples, shape (slots,)."""
        arrays = self._arrays
        result: BoolArray = (arrays["seen"][:, column] >= _ENOUGH * lengths) & (arrays["slots"][:, column] == lengths)
        return result

    def _remember(self, present: set[str], prediction: NodePrediction) -> None:
        number, place = self._number, self._number % _SLOTS
        self.arrived = {uid: self.arrived.get(uid, number) for uid in present}
        peak = prediction.classes[PROD].peak if PROD in prediction.classes and present else {}
        self._labels[place] = number
        for name, empty in (("at_once", np.nan), ("highest", np.nan), ("seen", 0.0)):
            self._arrays[name][place] = empty
        for column, resource in enumerate(RESOURCES):
            risk = prediction.risks.get(resource, StatedRisk())
            self._violations[resource].put_in_force(risk, number)
            self._arrays["slots"][place, column] = risk.slots
        self._arrays["predicted"][place] = [
            peak[resource] / UNITS[resource] if resource in peak else np.nan for resource in RESOURCES
        ]


def _usage(trainer: Trainer, resource: str, uids: Sequence[str], slot: int, present: set[str]) -> FloatArray:
    """Average of each pod in a slot; 0 for one that is gone, NaN for one that is there and was not measured."""
    rows = [trainer.row(uid) for uid in uids]
    known_rows = np.array([row if row is not None else 0 for row in rows], dtype=np.intp)
    windows = trainer.histories[resource].windows
    averages = windows.read(known_rows, np.array([slot], dtype=np.intp))[:, 0].astype(np.float64)
    averages[[row is None for row in rows]] = np.nan
    gone = np.array([uid not in present for uid in uids], dtype=np.bool_)
    system = trainer.row(SYS)
    if system is not None and np.isnan(windows.read(np.array([system]), np.array([slot]))).all():
        gone[:] = False  # no pod has samples: the agent was away, or could not identify the pods
    result: FloatArray = np.where(np.isnan(averages) & gone, 0.0, averages)
    return result


def _whole(value: Any) -> int:  # noqa: ANN401 - a file may have any content
    if not isinstance(value, int):
        raise CheckpointError(f"the checkpoint of the predictions' accuracy holds {value!r} in place of a slot")
    return value
