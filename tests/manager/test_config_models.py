"""Peak models in the prediction policy of `colocation-config`."""

import json
from typing import Any

import pytest

from manager.config.parse import parse_config
from tests.manager.test_config_parse import _errors, _warnings


def test_models_are_checked() -> None:
    """A model nobody knows is a warning, since agents may have more; `max` needs models to choose from."""
    warned = _warnings({"nodePredictPolicy": {"model": "crystal-ball"}})
    assert warned[0].startswith('nodePredictPolicy.model: model "crystal-ball" is not built in (borg-default, ')
    assert _warnings({"nodePredictPolicy": {"model": "nsigma-v3"}})[0].endswith("did you mean nsigma-v2?")
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
        ({"parameters": {"spreadFall": -3}}, "parameters.spreadFall: must be 0 to 2 for model load-profile, got -3"),
        (
            {"model": "nsigma-v2", "parameters": {"n": "3"}},
            'parameters.n: must be 0 to 10 for model nsigma-v2, got "3"',
        ),
        (
            {"parameters": {"windowDays": None}},
            "parameters.windowDays: must be 0.01 to 30 for model load-profile, got",
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
        ({"model": "sum-max", "of": [{"model": "max"}]}, "of: model sum-max combines no others: remove it, or use"),
        ({"cpu": {"parameters": {"a": 2}}}, "cpu.parameters.a: model load-profile has no such parameter: it has w"),
        ({"model": "max", "of": [{"model": "percentile", "parameters": {"percentile": 0}}]}, "of[0].parameters.perc"),
        (_nested(2) | {"of": [{"model": "max", "of": [{"modl": "max"}]}]}, "of[0].of[0].modl: unknown field: did you"),
        (_nested(5), "of[0].of[0].of[0].of[0].of[0]: models may be nested 4 times"),
    ],
)
def test_parameters_are_checked(policy: dict[str, Any], message: str) -> None:
    """What a built-in model does not accept is refused with what it does, wherever in the policy it stands."""
    assert _errors({"nodePredictPolicy": policy})[0].startswith(f"nodePredictPolicy.{message}")
    entry = parse_config(json.dumps({"nodeConfigs": [{"nodeSelector": {}, "nodePredictPolicy": policy}]}))
    assert str(entry.entry_errors[0]).startswith(f"nodeConfigs[0].nodePredictPolicy.{message}")


def test_good_policies_pass() -> None:
    """Parameters in range pass, in each place, as do those of a model that only the agents know."""
    for policy in (
        {"parameters": {"profileShare": 0, "spreadShare": 10}},
        {"model": "nsigma-v2", "parameters": {"n": 0, "capAtHighest": False}},
        {"model": "resource-central", "parameters": {"percentile": 99, "windowHours": 0.25}},
        {"cpu": {"model": "diversity", "parameters": {"windowDays": 3}}, "memory": {"safetyMarginPercent": 0}},
        {"model": "theirs-0", "parameters": {"anything": [1]}, "of": [{"model": "theirs-0"}]},
        _nested(4),
    ):
        assert not _errors({"nodePredictPolicy": policy})


def test_layers_must_go_together() -> None:
    """An entry whose model does not take the parameters that the cluster's part gives for a resource is disabled."""
    judged = parse_config(
        json.dumps(
            {
                "nodePredictPolicy": {"cpu": {"parameters": {"n": 4}}},
                "nodeConfigs": [{"name": "a", "nodeSelector": {}, "nodePredictPolicy": {"model": "diversity"}}],
            }
        )
    )
    assert [str(each) for each in judged.entry_errors] == [
        (
            "nodeConfigs[0].nodePredictPolicy.cpu.parameters.n: together with the cluster's part: "
            "model diversity has no such parameter: it has windowDays, lambdaMin"
        )
    ]
