import json
from typing import Any

import pytest

from agent.prediction.policy import resolve
from agent.predictors import PolicyError
from crds import names
from crds.codec import from_json, to_json
from crds.predict_policy import PredictPolicy
from manager.config.merge import effective_strategy
from manager.config.parse import parse_config, parse_strategy
from tests.manager.test_config_parse import _errors, _warnings


def test_models_are_checked() -> None:
    """An unknown model is a warning, since agents may have more, and a misspelt one an error; `max` needs models."""
    warned = _warnings({"nodePredictPolicy": {"model": "crystal-ball"}})
    assert warned[0].startswith('nodePredictPolicy.model: model "crystal-ball" is not built in (borg-default, ')
    assert _warnings({"nodePredictPolicy": {"model": "nsigma-v3"}})[0].endswith("did you mean nsigma-v2?")
    misspelt = _errors({"nodePredictPolicy": {"model": "divercity"}})
    assert misspelt == ['nodePredictPolicy.model: no model is named "divercity"; did you mean diversity?']
    assert _errors({"nodePredictPolicy": {"memory": {"model": "max"}}}) == [
        "nodePredictPolicy.memory.of: model max needs a list of models to take the largest of"
    ]
    assert _errors({"nodePredictPolicy": {"model": "max", "of": [{"parameters": {}}]}}) == [
        "nodePredictPolicy.of[0]: model is missing: name one, such as nsigma-v2"
    ]


def _nested(levels: int) -> dict[str, Any]:
    choice: dict[str, Any] = {"model": "sum-max"}
    for _ in range(levels):
        choice = {"model": "max", "of": [choice]}
    return choice


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            {"parameters": {"horizonHours": 0}},
            "parameters.horizonHours: must be 1 to 24 for model coincidence, got 0",
        ),
        (
            {"parameters": {"lambdaMin": 0.3}},
            (
                "parameters.lambdaMin: model coincidence has no such parameter: it has targetViolationPercent, "
                "horizonHours, windowDays; to set it, state the model: diversity"
            ),
        ),
        (
            {"model": "recent-max", "parameters": {"windowDays": 0}},
            "parameters.windowDays: must be 0.01 to 30 for model recent-max, got 0",
        ),
        (
            {"model": "nsigma-v1", "parameters": {"capAtHighest": 1}},
            "parameters.capAtHighest: must be true or false for model nsigma-v1, got 1",
        ),
        (
            {"model": "diversity", "parameters": {"lamdaMin": 0.4}},
            (
                "parameters.lamdaMin: model diversity has no such parameter: it has windowDays, lambdaMin; "
                "did you mean lambdaMin?"
            ),
        ),
        ({"model": "max", "parameters": {"n": 1}, "of": [{"model": "sum-max"}]}, "parameters.n: model max has no such"),
        ({"model": "nsigma_V2"}, 'model: no model is named "nsigma_V2": write nsigma-v2'),
        ({"model": ""}, "model: must be the name of a model, such as nsigma-v2"),
        ({"model": "theirs", "of": [{"model": ""}]}, "of[0].model: must be the name of a model, such as nsigma-v2"),
        ({"model": "sum-max", "of": [{"model": "max"}]}, "of: model sum-max combines no others: remove it, or use"),
        ({"cpu": {"parameters": {"a": 2}}}, "cpu.parameters.a: model coincidence has no such parameter: it has t"),
        ({"model": "max", "of": [{"model": "percentile", "parameters": {"percentile": 0}}]}, "of[0].parameters.perc"),
        (_nested(2) | {"of": [{"model": "max", "of": [{"modl": "max"}]}]}, "of[0].of[0].modl: unknown field: did you"),
        (_nested(5), "of[0].of[0].of[0].of[0].of[0]: models may be nested 4 times"),
    ],
)
def test_parameters_are_checked_wherever_they_stand(policy: dict[str, Any], message: str) -> None:
    assert _errors({"nodePredictPolicy": policy})[0].startswith(f"nodePredictPolicy.{message}")
    entry = parse_config(json.dumps({"nodeConfigs": [{"nodeSelector": {}, "nodePredictPolicy": policy}]}))
    assert str(entry.entry_errors[0]).startswith(f"nodeConfigs[0].nodePredictPolicy.{message}")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            {"checkIntervalSeconds": 300, "forceUpdateIntervalSeconds": 120},
            ".checkIntervalSeconds: must not be longer than forceUpdateIntervalSeconds (120), got 300: lower it, or ra",
        ),
        ({"model": "m" * 64}, ".model: must have at most 63 characters, got 64"),
        ({"memory": {"model": "m" * 64}}, ".memory.model: must have at most 63 characters, got 64"),
        ({"model": "max", "of": [{"model": "sum-max"}] * 17}, ".of: must list at most 16 models, got 17"),
        ({"model": "theirs", "of": [{"model": "a"}] * 17}, ".of: must list at most 16 models, got 17"),
        (_nested(1) | {"of": [{"model": "max", "of": [{"model": "a"}] * 17}]}, ".of[0].of: must list at most 16 mo"),
        ({"model": "max", "of": [{"model": "m" * 64}]}, ".of[0].model: must have at most 63 characters, got 64"),
        ({"model": "theirs", "parameters": {"x": [2**53 + 1]}}, ".parameters.x: must hold no number beyond 900719"),
        ({"model": "theirs", "parameters": {"x": -1e300}}, ".parameters.x: must hold no number beyond 900719"),
        ({"model": "theirs", "parameters": {"x": "\ud800"}}, ": is nested too deeply, or holds a text that is no Uni"),
        ({"model": "theirs", "parameters": {"x": "y" * 16384}}, ": must be at most 16384 bytes of JSON, got 164"),
    ],
)
def test_definition_is_obeyed(policy: dict[str, Any], message: str) -> None:
    """A policy that the NodeMetric's definition would reject, or store differently, is rejected first, at any place."""
    result = _errors({"nodePredictPolicy": policy})
    assert [item for item in result if item.startswith(f"nodePredictPolicy{message}")], result
    entry = parse_config(json.dumps({"nodeConfigs": [{"nodeSelector": {}, "nodePredictPolicy": policy}]}))
    assert [
        error for error in entry.entry_errors if str(error).startswith(f"nodeConfigs[0].nodePredictPolicy{message}")
    ]
    with pytest.raises(PolicyError, match=r"^spec\.predictPolicy"):
        resolve(from_json(PredictPolicy, policy))


def test_intervals_of_layers_go_together() -> None:
    """No entry, annotation or trial makes a policy that the definition rejects."""
    forced = {"nodePredictPolicy": {"forceUpdateIntervalSeconds": 120}}
    cluster: dict[str, Any] = {"enable": True, "nodePredictPolicy": {"checkIntervalSeconds": 300}}
    parsed = parse_config(json.dumps({**cluster, "nodeConfigs": [{"nodeSelector": {}, **forced}]}))
    assert [str(error)[:103] for error in parsed.entry_errors] == [
        "nodeConfigs[0].nodePredictPolicy.checkIntervalSeconds: together with the cluster's part: must not be lo"
    ]
    config, local = parse_config(json.dumps(cluster)).config, parse_strategy(json.dumps(forced)).strategy
    assert config is not None
    assert local is not None
    annotated = effective_strategy(config, annotations={names.ANNOTATION_COLOCATION_STRATEGY: json.dumps(forced)})
    for effective in (annotated, effective_strategy(config, above=("--set", local))):
        assert [
            "ignored: nodePredictPolicy.checkIntervalSeconds: must not" in str(finding)
            for finding in effective.findings
        ] == [True]
        policy = effective.strategy.node_predict_policy
        assert policy is not None
        assert (policy.check_interval_seconds, policy.force_update_interval_seconds) == (300, 600)


def test_nested_fields_have_their_right_names_at_any_depth() -> None:
    inner = {"Model": "sum-max", "Parameters": {"windowDays": 3}}
    policy = {"model": "max", "of": [{"model": "max", "of": [inner, {"model": "max", "of": [inner]}]}]}
    config = parse_config(json.dumps({"nodePredictPolicy": policy})).config
    assert config is not None
    assert config.node_predict_policy is not None
    right = {"model": "sum-max", "parameters": {"windowDays": 3}}
    assert to_json(config.node_predict_policy)["of"][0]["of"] == [right, {"model": "max", "of": [right]}]
    assert not resolve(config.node_predict_policy).problem


def test_good_policies_and_those_of_unknown_models_pass() -> None:
    for policy in (
        {"parameters": {"windowDays": 30, "targetViolationPercent": 7}},
        {"model": "diversity", "parameters": {"windowDays": 30, "lambdaMin": 1}},
        {"model": "nsigma-v2", "parameters": {"n": 0, "capAtHighest": False}},
        {"model": "resource-central", "parameters": {"percentile": 99, "windowHours": 0.25}},
        {"cpu": {"model": "diversity", "parameters": {"windowDays": 3}}, "memory": {"safetyMarginPercent": 0}},
        {"model": "theirs-0", "parameters": {"anything": [1]}, "of": [{"model": "theirs-0"}]},
        _nested(4),
    ):
        assert not _errors({"nodePredictPolicy": policy})


def test_layers_must_go_together() -> None:
    """An entry whose model does not accept the cluster's parameters for a resource is disabled."""
    parsed = parse_config(
        json.dumps(
            {
                "nodePredictPolicy": {"model": "nsigma-v2", "cpu": {"parameters": {"n": 4}}},
                "nodeConfigs": [{"name": "a", "nodeSelector": {}, "nodePredictPolicy": {"model": "diversity"}}],
            }
        )
    )
    assert [str(error) for error in parsed.entry_errors] == [
        (
            "nodeConfigs[0].nodePredictPolicy.cpu.parameters.n: together with the cluster's part: "
            "model diversity has no such parameter: it has windowDays, lambdaMin; "
            "to set it, state the model: nsigma-v1 or nsigma-v2"
        )
    ]
