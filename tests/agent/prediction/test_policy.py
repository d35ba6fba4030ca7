from dataclasses import replace

import pytest

from agent.prediction.policy import in_force, resolve
from agent.predictors import PolicyError
from agent.predictors.base import Model
from agent.predictors.borg_default import BorgDefault
from agent.predictors.diversity import Diversity
from agent.predictors.max_of import MaxOf
from agent.predictors.nsigma_v2 import NSigmaV2
from agent.predictors.recent_max import RecentMax
from crds.predict_policy import ModelChoice, PredictPolicy, ResourceOverride, with_defaults

BORG = PredictPolicy(model="borg-default")


def test_default_policy_can_be_followed() -> None:
    """Without a policy the default holds: diversity without a margin, a day of cold start."""
    found = resolve(None)
    assert {model.model for model in found.models.values()} == {Diversity()}
    assert [model.margin for model in found.models.values()] == [1.0, 1.0]
    assert (found.cold_start_seconds, found.reclaim_ratio, found.problem) == (86400.0, 1.0, "")


def test_resources_override() -> None:
    """A part per resource overrides model, parameters and margin for that resource alone."""
    policy = PredictPolicy(
        model="recent-max",
        parameters={"windowDays": 3},
        safety_margin_percent=20,
        memory=ResourceOverride(model="nsigma-v2", safety_margin_percent=0),
        cpu=ResourceOverride(parameters={"windowDays": 2}),
    )
    found = resolve(policy).models
    assert (found["cpu"].model, found["cpu"].margin) == (RecentMax(2), 1.2)
    assert (found["memory"].model, found["memory"].margin) == (NSigmaV2(), 1.0)


def test_system_needs_measuring_model() -> None:
    """A model that looks at requests alone does not judge the system: the default model does."""
    found = resolve(BORG).models["cpu"]
    assert found.model == BorgDefault()
    assert found.for_system.model == Diversity()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (PredictPolicy(cold_start_period_seconds=-1), "spec.predictPolicy.coldStartPeriodSeconds"),
        (PredictPolicy(reclaim_ratio_percent=101), "spec.predictPolicy.reclaimRatioPercent"),
        (PredictPolicy(cpu=ResourceOverride(safety_margin_percent=101)), "spec.predictPolicy.cpu.safetyMarginPercent"),
        (PredictPolicy(model="nonsense"), "spec.predictPolicy.model"),
        (PredictPolicy(memory=ResourceOverride(model="nonsense")), "spec.predictPolicy.memory.model"),
        (PredictPolicy(model="max", of=(ModelChoice("nonsense"),)), "spec.predictPolicy.of[0].model"),
    ],
)
def test_bad_policy_is_refused(wrong: PredictPolicy, field: str) -> None:
    """A policy that cannot be followed is refused with the field's path."""
    with pytest.raises(PolicyError) as caught:
        resolve(wrong)
    assert str(caught.value).startswith(field + ":")


def test_last_good_policy_stays() -> None:
    """The last good policy stays in force, and the reason is kept."""
    found = in_force(PredictPolicy(model="nonsense"), BORG)
    assert found.policy.model == "borg-default"
    assert "nonsense" in found.problem


def test_default_stands_in_last() -> None:
    """Without a good policy, or with one that is not good any more, the default is in force."""
    for last in (None, PredictPolicy(model="uninstalled")):
        found = in_force(PredictPolicy(model="nonsense"), last)
        assert found.policy == with_defaults(None)
        assert "nonsense" in found.problem


def test_longest_window_is_found() -> None:
    """How far a policy looks back is found in whichever part says it: what is kept follows the longest."""
    parts = (ModelChoice("recent-max", {"windowDays": 3}), ModelChoice("resource-central", {"windowHours": 240}))
    assert resolve(None).window_days == 14.0
    assert resolve(PredictPolicy(model="nsigma-v2")).window_days == 7.0
    assert resolve(PredictPolicy(parameters={"windowDays": 3})).window_days == 3.0
    assert resolve(PredictPolicy(model="max", of=parts)).window_days == 10.0
    assert (
        resolve(PredictPolicy(cpu=ResourceOverride(model="sum-max", parameters={"windowDays": 14}))).window_days == 14
    )


@pytest.mark.parametrize(
    ("asked", "models"),
    [
        (PredictPolicy(model="load-profile", parameters={"spreadShare": 2}), {Diversity()}),
        (PredictPolicy(model="load-profile", cpu=ResourceOverride(parameters={"profileShare": 0})), {Diversity()}),
        (PredictPolicy(memory=ResourceOverride(model="load-profile")), {Diversity()}),
        (PredictPolicy(model="max", of=(ModelChoice("load-profile", {"windowDays": 3}),)), {MaxOf((Diversity(),))}),
    ],
)
def test_retired_model_has_a_successor(asked: PredictPolicy, models: set[Model]) -> None:
    """A policy that names a model that is no more keeps all else that it says, and reports what is in its place."""
    careful = replace(asked, reclaim_ratio_percent=50, cold_start_period_seconds=3600)
    found = in_force(careful, BORG)
    assert {model.model for model in found.models.values()} == models
    assert (found.reclaim_ratio, found.cold_start_seconds) == (0.5, 3600.0)
    assert "model load-profile is no more, diversity is in its place: name that, or none" in found.problem


def test_retired_model_is_not_fallen_back_to() -> None:
    """The last good policy of before an upgrade may name one as well."""
    last = PredictPolicy(model="load-profile", reclaim_ratio_percent=50)
    found = in_force(PredictPolicy(model="nonsense"), last)
    assert (found.models["cpu"].model, found.reclaim_ratio) == (Diversity(), 0.5)
