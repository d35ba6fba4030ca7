"""Evidence, not age: each rule of the prediction with numbers that can be checked by hand.

The node has 16 cores, of which 15.5 are allocatable: 0.5 are reserved. The margin is 10 percent, a pod is cold for
two hours, and memory goes as CPU does: a GiB for each core.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from agent.pods import PodRef
from agent.prediction.node import NodePrediction, NodeResources, predict
from agent.samples import CPU, MEMORY, SYS
from crds.predict_policy import PredictPolicy
from crds.priority import PriorityBand
from tests.agent.made import GIB, SLOT, LongRun, pod

FACTS = NodeResources({CPU: 15_500, MEMORY: int(15.5 * GIB)}, {CPU: 16_000, MEMORY: 16 * GIB})
DAY = 86400.0


def _predicted(node: LongRun, pods: Sequence[PodRef], model: str = "sum-max", **keys: int) -> NodePrediction:
    policy = PredictPolicy(model=model, **{"cold_start_period_seconds": 7200, "safety_margin_percent": 10, **keys})  # type: ignore[arg-type]
    return predict(node.now, node.trainer, pods, FACTS, policy)


def _prod(
    name: str,
    cores: float,
    *,
    band: PriorityBand = PriorityBand.PROD,
    limits: Mapping[str, int] | None = None,
    workload: str | None = None,
) -> PodRef:
    return pod(name, int(cores * 1000), int(cores * GIB), band=band, limits=limits, workload=workload)


@pytest.mark.parametrize(
    "model", ["nsigma-v2", "percentile", "coincidence", "diversity", "borg-default", "resource-central"]
)
def test_empty_node(model: str) -> None:
    """No pods at all: Prod's peak is 0, nothing is reclaimable, and the system is known: 0.3 * 1.1 = 0.33 cores."""
    node = LongRun()
    node.hours(2.2, {}, [], system=0.3)
    result = _predicted(node, [], model)
    assert result.reclaimable == {CPU: 0, MEMORY: 0}
    assert result.classes["prod"].peak == {CPU: 0, MEMORY: 0}
    if model != "percentile":  # which returns the end of a histogram's bucket
        assert result.classes[SYS].peak[CPU] == pytest.approx(330, abs=1)  # rounded up
    assert (result.readiness.ready, result.readiness.reason) == (True, "NoProdPods")


def test_all_cold() -> None:
    """Two cold pods count at their requests of 4 and 2 cores: 4 + 2 - 6 = 0, however little they use."""
    node, pods = LongRun(), [_prod("a", 4.0), _prod("b", 2.0)]
    node.hours(1.8, {"a": 0.5, "b": 0.1}, pods)
    result = _predicted(node, pods)
    assert result.classes["prod"].peak[CPU] == 6000
    assert result.reclaimable[CPU] == 0
    assert result.readiness.reason == "CollectingHistory"


@pytest.mark.parametrize(
    ("request_cores", "limit_cores", "used", "counted"),
    [
        (2.0, 4.0, 0.5, 2000),  # the request, not the limit
        (0.0, 4.0, 0.5, 4000),  # without a request: the limit
        (2.0, 4.0, 3.0, 3000),  # it was seen to use more than its request: that, without a margin
        (0.0, 0.0, 0.5, 500),  # neither: its observed usage
    ],
)
def test_cold_pod_counts_at(request_cores: float, limit_cores: float, used: float, counted: int) -> None:
    """A cold pod counts at max(request, else limit; highest seen), and the margin does not multiply it."""
    limits = {CPU: int(limit_cores * 1000)} if limit_cores else None
    node, pods = LongRun(), [_prod("a", request_cores, limits=limits)]
    node.hours(1.0, {"a": used}, pods)
    assert _predicted(node, pods).classes["prod"].peak[CPU] == counted


def test_margin_on_measured_and_ratio_on_warm_only() -> None:
    """Warm 1 core measured, cold 3 requested: 1.1 * 1 + 3 = 4.1 cores; 4 + 3 - 4.1 = 2.9 are reclaimable.

    At 80 percent of the warm 4 cores: 3.2 + 3 - 4.1 = 2.1; a cold pod's request is not cut.
    """
    node, pods = LongRun(), [_prod("a", 4.0), _prod("b", 3.0)]
    node.hours(2.2, {"a": 1.0}, pods[:1])
    node.hours(0.25, {"a": 1.0, "b": 0.1}, pods)
    result = _predicted(node, pods)
    assert result.classes["prod"].peak[CPU] == 4100
    assert result.reclaimable[CPU] == 2900
    assert _predicted(node, pods, reclaim_ratio_percent=80).reclaimable[CPU] == 2100


@pytest.mark.parametrize(
    ("model", "peak"), [("sum-max", 1100), ("coincidence", 1100), ("diversity", 1100), ("nsigma-v2", 1100)]
)
def test_departed_pods(model: str, peak: int) -> None:
    """Pods of 1 core and of 6 cores; the second has left: only 1 * 1.1 cores are expected of the present one."""
    node, pods = LongRun(), [_prod("a", 4.0), _prod("gone", 8.0)]
    node.hours(2.2, {"a": 1.0, "gone": 6.0}, pods)
    node.hours(0.25, {"a": 1.0}, pods[:1])
    result = _predicted(node, pods[:1], model)
    assert result.classes["prod"].peak[CPU] == peak
    assert result.reclaimable[CPU] == 4000 - peak


def test_one_sample() -> None:
    """A single sample has no spread, even without a minimum time: the pod counts at its request."""
    node, pods = LongRun(), [_prod("a", 4.0)]
    node.slot({"a": 1.0}, pods)
    result = _predicted(node, pods, cold_start_period_seconds=0)
    assert (result.classes["prod"].peak[CPU], result.warm) == (4000, 0)
    node.slot({"a": 1.0}, pods)
    result = _predicted(node, pods, cold_start_period_seconds=0)
    assert (result.classes["prod"].peak[CPU], result.warm) == (1100, 1)


def test_three_days_away() -> None:
    """Three days without the agent age nothing: a day of 2 cores still says mean 1.9, and the pod is still warm."""
    node, pods = LongRun(), [_prod("a", 4.0)]
    node.hours(24.0, {"a": 2.0}, pods)
    before = _row(node, "a")
    node.now += 3 * DAY
    node.hours(1.0, {"a": 1.0}, pods)
    after = _row(node, "a")
    assert after["observed"] == before["observed"] + 12 * SLOT
    # On the wall clock 3 days are 6 half-lives of CPU, and the last hour would weigh most: a mean of 1.2.
    assert after["mean"] == pytest.approx(1.93, abs=0.01)
    result = _predicted(node, pods)
    assert (result.warm, result.classes["prod"].peak[CPU]) == (1, 2200)


def test_eight_days_away() -> None:
    """After eight days the week's window is nearly empty: the pod's highest sample replaces it."""
    node, pods = LongRun(), [_prod("a", 4.0)]
    node.hours(6.0, {"a": 2.0}, pods)
    node.now += 8 * DAY
    node.hours(1.0, {"a": 0.5}, pods)
    for model in ("recent-max", "sum-max", "coincidence", "diversity", "resource-central"):
        assert _predicted(node, pods, model).classes["prod"].peak[CPU] == 2200, model


def test_nightly_peak() -> None:
    """A pod uses 3 cores for one hour of each night, else 1: models with memory observe it, the other models may not.

    The 12 slots of the hour are more than the one percent of the day's 288 that Resource Central leaves out, and less
    than the five percent that Koordinator's does. N-sigma: mean 1.04, deviation 0.28 at the end of the day.
    """
    node, pods = LongRun(), [_prod("a", 4.0)]
    for _ in range(2):
        node.hours(1.0, {"a": 3.0}, pods)
        node.hours(23.0, {"a": 1.0}, pods)

    def peak(model: str) -> int:
        return _predicted(node, pods, model, safety_margin_percent=0).classes["prod"].peak[CPU]

    assert [peak(model) for model in ("recent-max", "sum-max", "coincidence", "diversity", "resource-central")] == [
        3000
    ] * 5
    assert peak("percentile") == pytest.approx(1040, abs=1)  # its bucket ends at 1035, which is below the mean
    row = _row(node, "a")
    assert row["mean"] == pytest.approx(1.04, abs=0.005)
    assert row["stdev"] == pytest.approx(0.28, abs=0.005)
    assert peak("nsigma-v1") == math.ceil(1000 * (row["mean"] + 3 * row["stdev"]))


def test_system_above_reservation() -> None:
    """System 1.1 with margin, reserved 0.5: the extra 0.6 falls on 1.5 unrequested cores first, then on Reclaimable.

    14 cores requested: slack 1.5, nothing charged, 14 - 1.1 = 12.9. All 15.5 requested: 15.5 - 1.1 - 0.6 = 13.8.
    """
    node, pods = LongRun(), [_prod("a", 14.0)]
    node.hours(2.2, {"a": 1.0}, pods, system=1.0)
    result = _predicted(node, pods)
    assert result.terms[CPU].system_extra == pytest.approx(600.0)
    assert result.terms[CPU].slack == pytest.approx(1500.0)
    assert result.reclaimable[CPU] == 12_900
    assert result.prod_peak[CPU] == 2200
    full = [_prod("a", 15.5)]
    assert _predicted(node, full).reclaimable[CPU] == 13_800


def test_known_workload_is_warm() -> None:
    """A new pod of a Deployment watched for two hours is warm at once, and counts at what its predecessor used."""
    node = LongRun()
    old, new = (
        _prod("cart-1", 4.0, workload="shop/Deployment/cart"),
        _prod("cart-2", 4.0, workload="shop/Deployment/cart"),
    )
    node.hours(2.2, {"cart-1": 1.0}, [old])
    node.slot({"cart-2": 0.1}, [new])
    result = _predicted(node, [new])
    assert (result.warm, result.classes["prod"].peak[CPU], result.reclaimable[CPU]) == (1, 1100, 2900)


def test_young_workload_stays_cold() -> None:
    """A workload's history counts at its length: an hour of it leaves a new pod cold for another hour."""
    node = LongRun()
    old, new = (
        _prod("cart-1", 4.0, workload="shop/Deployment/cart"),
        _prod("cart-2", 4.0, workload="shop/Deployment/cart"),
    )
    node.hours(1.0, {"cart-1": 1.0}, [old])
    node.hours(0.75, {"cart-2": 1.0}, [new])
    assert _predicted(node, [new]).warm == 0
    node.hours(0.25, {"cart-2": 1.0}, [new])
    assert _predicted(node, [new]).warm == 1


@pytest.mark.parametrize("jump", [400 * DAY, -400 * DAY, 7200.0, -7200.0])
def test_clock_jumps_age_nothing(jump: float) -> None:
    """The wall clock jumps: half a day of 2 cores keep their weight, the pod stays warm, the window keeps its peak."""
    node, pods = LongRun(), [_prod("a", 4.0)]
    node.hours(12.0, {"a": 2.0}, pods)
    before = _row(node, "a")
    node.now += jump
    node.slot({"a": 1.0}, pods)
    node.now -= jump  # and is set right again
    node.hours(1.0, {"a": 1.0}, pods)
    after = _row(node, "a")
    assert after["observed"] == pytest.approx(before["observed"] + 13 * SLOT, abs=SLOT)
    assert after["mean"] == pytest.approx(1.87, abs=0.02)
    assert _predicted(node, pods).classes["prod"].peak[CPU] == 2200


def _row(node: LongRun, entity: str) -> Mapping[str, float]:
    row, history = node.trainer.row(entity), node.trainer.histories[CPU]
    assert row is not None
    rows = np.array([row])
    return {
        "observed": float(history.observed[row]),
        "mean": float(history.moments.mean(rows)[0]),
        "stdev": float(history.moments.stdev(rows)[0]),
    }
