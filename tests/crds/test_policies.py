import dataclasses
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import colocation, from_json, predict_policy, to_json
from crds.codec import json_fields
from crds.predict_policy import ModelChoice, PredictPolicy, ResourceOverride, effective, with_defaults
from crds.ranges import Choice, Range, problems


def test_predict_policy_defaults() -> None:
    assert to_json(with_defaults(None)) == {
        "resourceDiffThresholdPercent": 5,
        "checkIntervalSeconds": 20,
        "forceUpdateIntervalSeconds": 600,
        "coldStartPeriodSeconds": 86400,
        "reclaimRatioPercent": 100,
        "safetyMarginPercent": 0,
        "useWorkloadHistory": True,
        "workloadHistoryMarginPercent": 0,
        "workloadHistoryPodDays": 3,
        "workloadHistoryNodes": 2,
        "model": "coincidence",
    }


def test_strategy_defaults() -> None:
    assert to_json(colocation.DEFAULTS) == {
        "enable": False,
        "metricAggregateDurationSeconds": 300,
        "metricReportIntervalSeconds": 60,
        "metricAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
        "metricMemoryCollectPolicy": "usageWithoutPageCache",
        "cpuReclaimThresholdPercent": 60,
        "memoryReclaimThresholdPercent": 65,
        "cpuCalculatePolicy": "usage",
        "memoryCalculatePolicy": "usage",
        "degradeTimeMinutes": 15,
        "updateTimeThresholdSeconds": 300,
        "resourceDiffThreshold": 0.1,
        "midCPUThresholdPercent": 100,
        "midMemoryThresholdPercent": 100,
        "midUnallocatedPercent": 0,
        "midStaticCPUReservedPercent": 0,
        "midStaticMemoryReservedPercent": 0,
        "mode": "active",
        "midPolicy": "reclaimable",
        "midShrinkPolicy": "floor",
        "midIncreaseHoldSeconds": 120,
        "midEviction": {"mode": "dry-run", "afterSeconds": 300, "maxPerNodePerMinute": 1, "maxPerMinute": 10},
        "hotNodes": {
            "mode": "off",
            "measure": "usage",
            "cpuThresholdPercent": 65,
            "memoryThresholdPercent": 95,
            "marginPercent": 10,
            "afterSeconds": 300,
            "maxNodesPercent": 20,
            "maxPerMinute": 10,
        },
    }


def test_defaults_are_allowed() -> None:
    assert problems(to_json(predict_policy.DEFAULTS), predict_policy.RANGES) == []
    assert problems(to_json(colocation.DEFAULTS), colocation.ALLOWED) == []
    assert problems(to_json(colocation.DEFAULTS)["midEviction"], colocation.ALLOWED_MID_EVICTION) == []
    assert problems(to_json(colocation.DEFAULTS)["hotNodes"], colocation.ALLOWED_HOT_NODES) == []


def test_rules_name_real_fields() -> None:
    assert predict_policy.RANGES.keys() <= json_fields(PredictPolicy).keys()
    assert colocation.ALLOWED.keys() <= json_fields(colocation.ColocationStrategy).keys()
    assert colocation.ALLOWED_MID_EVICTION.keys() == json_fields(colocation.MidEviction).keys()
    assert colocation.ALLOWED_HOT_NODES.keys() == json_fields(colocation.HotNodes).keys()


def test_every_number_has_a_range() -> None:
    """No number or choice of the strategy goes unchecked."""
    free = {"enable", "metricAggregatePolicy", "extensions", "midEviction", "hotNodes", "nodePredictPolicy"}
    assert colocation.ALLOWED.keys() | free == json_fields(colocation.ColocationStrategy).keys()


def test_problem_is_a_sentence() -> None:
    """A value out of range is reported with its path, the allowed range, and the value."""
    result = problems({"model": "x", "safetyMarginPercent": 101}, predict_policy.RANGES, "nodePredictPolicy")
    assert result == ["nodePredictPolicy.safetyMarginPercent: must be 0 to 100, got 101"]


def test_long_ranges_are_written_out() -> None:
    """Bounds are numbers that people read, such as 2592000, not 2.592e+06."""
    result = problems({"coldStartPeriodSeconds": -1}, predict_policy.RANGES, "nodePredictPolicy")
    assert result == ["nodePredictPolicy.coldStartPeriodSeconds: must be 0 to 2592000, got -1"]
    assert str(Range(0.01, 30)) == "0.01 to 30"


@pytest.mark.parametrize(
    ("rule", "value", "allowed"),
    [
        (Range(0, 1), 0, True),
        (Range(0, 1), 1.0, True),
        (Range(0, 1), 1.01, False),
        (Range(0, 1), True, False),  # true is not a number
        (Range(0, 1), "1", False),
        (Range(0, 1), float("nan"), False),
        (Choice(("a", "b")), "a", True),
        (Choice(("a", "b")), "A", False),
    ],
)
def test_rule_ends(rule: Range | Choice, value: object, allowed: bool) -> None:  # noqa: FBT001
    """Ranges include both ends; choices are literal."""
    assert rule.allows(value) is allowed


def test_resource_part_comes_first() -> None:
    """A resource's own model and margin override the general ones, and only for that resource."""
    policy = from_json(
        PredictPolicy,
        {
            "model": "diversity",
            "parameters": {"windowDays": 3},
            "memory": {"model": "max", "of": [{"model": "recent-max"}], "safetyMarginPercent": 0},
        },
    )
    cpu, memory = effective(policy, "cpu"), effective(policy, "memory")
    assert (cpu.model, cpu.parameters, cpu.of, cpu.safety_margin_percent) == ("diversity", {"windowDays": 3}, (), 0)
    assert (memory.model, memory.parameters, memory.safety_margin_percent) == ("max", {}, 0)
    assert [choice.model for choice in memory.of] == ["recent-max"]


def test_parameters_belong_to_model() -> None:
    """Another model does not inherit parameters; the same model with a part of its own does."""
    general = PredictPolicy(parameters={"windowDays": 3})
    assert effective(replace(general, cpu=ResourceOverride(model="percentile")), "cpu").parameters == {}
    own_margin = replace(general, cpu=ResourceOverride(safety_margin_percent=3))
    assert effective(own_margin, "cpu").parameters == {"windowDays": 3}


@pytest.mark.parametrize(
    ("policy", "cpu", "memory"),
    [
        (PredictPolicy(), 0, 0),
        (PredictPolicy(model="diversity"), 0, 0),
        (PredictPolicy(model="coincidence", cpu=ResourceOverride(model="diversity")), 0, 0),
        (PredictPolicy(model="nsigma-v2"), 10, 10),
        (PredictPolicy(model="max", of=(ModelChoice("diversity"),)), 10, 10),
        (PredictPolicy(cpu=ResourceOverride(model="sum-max")), 10, 0),
        (PredictPolicy(model="sum-max", memory=ResourceOverride(model="diversity")), 10, 0),
        (PredictPolicy(safety_margin_percent=7, cpu=ResourceOverride(model="sum-max")), 7, 7),
        (PredictPolicy(safety_margin_percent=0, model="sum-max"), 0, 0),
        (PredictPolicy(cpu=ResourceOverride(model="sum-max", safety_margin_percent=4)), 4, 0),
        (PredictPolicy(cpu=ResourceOverride(parameters={"windowDays": 3})), 0, 0),
    ],
)
def test_margin_follows_model(policy: PredictPolicy, cpu: int, memory: int) -> None:
    """A margin stated nowhere is none for coincidence and diversity and 10 percent for others, by resource."""
    for stated in (policy, with_defaults(policy), from_json(PredictPolicy, to_json(with_defaults(policy)))):
        assert effective(stated, "cpu").safety_margin_percent == cpu
        assert effective(stated, "memory").safety_margin_percent == memory


def test_defaults_leave_resources_to_model() -> None:
    """A named model applies to both resources: the default has no parts of its own for one of them."""
    full = with_defaults(PredictPolicy(model="diversity"))
    assert (full.cpu, full.memory, full.parameters) == (None, None, None)
    assert {effective(full, "cpu").model, effective(full, "memory").model} == {"diversity"}


optional_percent = st.none() | st.integers(0, 100)
policies = st.builds(
    PredictPolicy,
    reclaim_ratio_percent=optional_percent,
    safety_margin_percent=optional_percent,
    model=st.none() | st.sampled_from(["coincidence", "diversity", "nsigma-v2"]),
    cpu=st.none()
    | st.builds(
        ResourceOverride,
        model=st.none() | st.sampled_from(["coincidence", "diversity", "nsigma-v2"]),
        safety_margin_percent=optional_percent,
    ),
)


@given(policies)
def test_defaults_fill_only_gaps(policy: PredictPolicy) -> None:
    """Filling in defaults changes nothing that was stated, and leaves no number open."""
    full = with_defaults(policy)
    for field in dataclasses.fields(policy):
        stated = getattr(policy, field.name)
        assert stated is None or getattr(full, field.name) == stated or field.name in {"unknown", "cpu"}
    assert with_defaults(full) == full
