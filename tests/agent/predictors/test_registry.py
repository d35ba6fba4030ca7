from importlib.metadata import EntryPoint

import pytest

import agent.predictors
from agent.predictors import PolicyError, build
from agent.predictors.borg_default import BorgDefault
from agent.predictors.max_of import MaxOf
from agent.predictors.nsigma_v2 import NSigmaV2
from agent.predictors.recent_max import RecentMax
from agent.predictors.sum_max import SumMax
from crds.models import DEEPEST
from crds.predict_policy import ModelChoice, ResourcePolicy


def policy(model: str, parameters: dict[str, object] | None = None, *of: ModelChoice) -> ResourcePolicy:
    return ResourcePolicy(model, parameters or {}, of, safety_margin_percent=10)


def nested(depth: int) -> ModelChoice:
    inner: dict[str, object] = {"model": "sum-max"}
    for _ in range(depth):
        inner = {"model": "max", "of": [inner]}
    return ModelChoice("max", of=(inner,))


def test_parameters_are_the_models_fields_which_have_defaults() -> None:
    assert build(policy("nsigma-v2", {"n": 2.5, "capAtHighest": False})) == NSigmaV2(2.5, cap_at_highest=False)
    assert build(policy("recent-max")) == RecentMax(7.0)


def test_max_builds_the_models_that_it_lists() -> None:
    inner = ModelChoice("max", of=({"model": "sum-max", "parameters": {"windowDays": 2}}, {"model": "borg-default"}))
    built = build(policy("max", {}, inner, ModelChoice("nsigma-v2", {"n": 1}), ModelChoice("recent-max")))
    assert built == MaxOf((MaxOf((SumMax(2), BorgDefault())), NSigmaV2(1), RecentMax()))


def test_max_may_be_nested_as_deep_as_the_table_says() -> None:
    build(policy("max", {}, nested(DEEPEST - 2)))
    with pytest.raises(PolicyError, match="nested"):
        build(policy("max", {}, nested(DEEPEST - 1)))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (policy("nsigma-v3"), ["predictPolicy.model", "'nsigma-v3'", "nsigma-v1, nsigma-v2"]),
        (policy("nsigma-v2", {"N": 3}), ["predictPolicy.parameters.N", "n, capAtHighest"]),
        (policy("nsigma-v2", {"n": 11}), ["predictPolicy.parameters.n", "0 to 10", "11"]),
        (policy("nsigma-v2", {"n": "3"}), ["predictPolicy.parameters.n", "'3'"]),
        (policy("nsigma-v2", {"n": True}), ["predictPolicy.parameters.n"]),
        (policy("nsigma-v2", {"n": float("nan")}), ["predictPolicy.parameters.n"]),
        (policy("nsigma-v1", {"capAtHighest": 1}), ["predictPolicy.parameters.capAtHighest", "true or false"]),
        (policy("recent-max", {"windowDays": 31}), ["predictPolicy.parameters.windowDays", "0.01 to 30", "31"]),
        (policy("borg-default", {"a": 0.5}), ["predictPolicy.parameters.a"]),
        (policy("max"), ["predictPolicy.of", "at least one"]),
        (policy("max", {"n": 3}, ModelChoice("nsigma-v2")), ["predictPolicy.parameters.n", "none"]),
        (policy("max", {}, ModelChoice("nothing")), ["predictPolicy.of[0].model", "'nothing'"]),
        (policy("max", {}, ModelChoice("sum-max", {"days": 1})), ["predictPolicy.of[0].parameters.days", "windowDays"]),
        (policy("nsigma-v2", {}, ModelChoice("sum-max")), ["predictPolicy.of", "use model max"]),
        (policy("max", {}, ModelChoice("max", of=({"model": "x"},))), ["predictPolicy.of[0].of[0].model", "'x'"]),
        (policy("max", {}, ModelChoice("max", of=({"parameters": {}},))), ["predictPolicy.of[0].of[0]", "model"]),
        (policy("max", {}, ModelChoice("max")), ["predictPolicy.of[0].of", "at least one"]),
        (policy("max", {}, nested(9)), ["nested 4 times"]),
        (policy("diversity", {"lambdaMin": 1.5}), ["predictPolicy.parameters.lambdaMin", "0 to 1", "1.5"]),
        (policy("diversity", {"windowDays": 0}), ["predictPolicy.parameters.windowDays", "0.01 to 30"]),
        (policy("resource-central", {"percentile": 0}), ["predictPolicy.parameters.percentile", "1 to 100"]),
        (policy("resource-central", {"windowHours": 1000}), ["predictPolicy.parameters.windowHours", "0.25 to 720"]),
        (policy("percentile", {"percentile": "95"}), ["predictPolicy.parameters.percentile", "'95'"]),
    ],
)
def test_message_names_field_and_way_out(wrong: ResourcePolicy, words: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        build(wrong)
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == []


def announced(value: str) -> EntryPoint:
    return EntryPoint("theirs", value, agent.predictors.ENTRY_POINT_GROUP)


def test_model_announced_by_an_entry_point_is_built_like_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    target = announced("agent.predictors.recent_max:RecentMax")
    monkeypatch.setattr(agent.predictors, "entry_points", lambda group: [target] if group else [])
    assert build(policy("theirs", {"windowDays": 2})) == RecentMax(2)


@pytest.mark.parametrize("value", ["no_such_package.at_all:Model", "agent.predictors.nsigma_v1:Nothing", "math:sqrt"])
def test_broken_third_party_model_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr(agent.predictors, "entry_points", lambda group: [announced(value)] if group else [])
    with pytest.raises(PolicyError, match=f"theirs.*{value.partition(':')[0]}"):
        build(policy("theirs"))
