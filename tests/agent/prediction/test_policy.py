import pytest

from agent.prediction.policy import in_force, resolve
from agent.predictors import PolicyError
from agent.predictors.borg_default import BorgDefault
from agent.predictors.coincidence import Coincidence
from agent.predictors.nsigma_v2 import NSigmaV2
from agent.predictors.recent_max import RecentMax
from crds.predict_policy import ModelChoice, PredictPolicy, ResourceOverride, with_defaults

BORG = PredictPolicy(model="borg-default")
LONG = (ModelChoice("recent-max", {"windowDays": 3}), ModelChoice("resource-central", {"windowHours": 240}))


def test_default_policy_is_coincidence_without_margin_after_a_day() -> None:
    result = resolve(None)
    assert [(model.model, model.margin) for model in result.models.values()] == [(Coincidence(), 1.0)] * 2
    assert (result.cold_start_seconds, result.reclaim_ratio, result.problem) == (86400.0, 1.0, "")


def test_part_of_a_resource_overrides_for_it_alone() -> None:
    policy = PredictPolicy(
        model="recent-max",
        parameters={"windowDays": 3},
        safety_margin_percent=20,
        memory=ResourceOverride(model="nsigma-v2", safety_margin_percent=0),
        cpu=ResourceOverride(parameters={"windowDays": 2}),
    )
    result = {name: (one.model, one.margin) for name, one in resolve(policy).models.items()}
    assert result == {"cpu": (RecentMax(2), 1.2), "memory": (NSigmaV2(), 1.0)}


def test_model_of_requests_alone_does_not_check_the_system() -> None:
    result = resolve(BORG).models["cpu"]
    assert (result.model, result.for_system.model) == (BorgDefault(), Coincidence())


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (PredictPolicy(cold_start_period_seconds=-1), "coldStartPeriodSeconds"),
        (PredictPolicy(reclaim_ratio_percent=101), "reclaimRatioPercent"),
        (PredictPolicy(cpu=ResourceOverride(safety_margin_percent=101)), "cpu.safetyMarginPercent"),
        (PredictPolicy(model="nonsense"), "model"),
        (PredictPolicy(memory=ResourceOverride(model="nonsense")), "memory.model"),
        (PredictPolicy(model="max", of=(ModelChoice("nonsense"),)), "of[0].model"),
    ],
)
def test_policy_that_cannot_be_followed_is_refused_by_field(wrong: PredictPolicy, field: str) -> None:
    with pytest.raises(PolicyError) as caught:
        resolve(wrong)
    assert str(caught.value).startswith(f"spec.predictPolicy.{field}:")


@pytest.mark.parametrize(
    ("last", "policy"),
    [(BORG, with_defaults(BORG)), (None, with_defaults(None)), (PredictPolicy(model="gone"), with_defaults(None))],
)
def test_last_good_policy_stays_in_force_or_the_default(last: PredictPolicy | None, policy: PredictPolicy) -> None:
    result = in_force(PredictPolicy(model="nonsense"), last)
    assert with_defaults(result.policy) == policy
    assert "nonsense" in result.problem


@pytest.mark.parametrize(
    ("policy", "days"),
    [
        (None, 14.0),
        (PredictPolicy(model="nsigma-v2"), 7.0),
        (PredictPolicy(parameters={"windowDays": 3}), 3.0),
        (PredictPolicy(model="max", of=LONG), 10.0),
        (PredictPolicy(cpu=ResourceOverride(model="sum-max", parameters={"windowDays": 14})), 14.0),
    ],
)
def test_longest_window_of_all_parts_is_kept(policy: PredictPolicy | None, days: float) -> None:
    assert resolve(policy).window_days == days
