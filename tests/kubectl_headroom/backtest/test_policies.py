import json
from collections.abc import Mapping

import pytest

from agent.prediction.policy import resolve
from agent.predictors import PREDICTORS
from crds.duration import format_span
from crds.predict_policy import DEFAULTS, effective
from kubectl_headroom.backtest import policies
from kubectl_headroom.backtest.durations import parse_span, parse_timestamp
from kubectl_headroom.backtest.policies import NamedPolicyError
from kubectl_headroom.backtest.trace import Resource


@pytest.mark.parametrize(
    ("text", "model", "parameters", "margin", "cold"),
    [
        (
            "diversity:windowDays=7,lambdaMin=0.4,margin=0,cold=12h",
            "diversity",
            {"windowDays": 7, "lambdaMin": 0.4},
            0,
            43200,
        ),
        ("sum-max:margin=3", "sum-max", {}, 3, DEFAULTS.cold_start_period_seconds),
    ],
)
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_keys_are_the_policys(
    text: str, resource: Resource, model: str, parameters: Mapping[str, float], margin: int, cold: int
) -> None:
    """Parameters go to the model; margin and cold to the policy. Nothing of the default policy's model is left."""
    (choice,) = policies.parse([text])
    result = effective(choice.policy, resource)
    assert (result.model, result.parameters, result.of) == (model, parameters, ())
    assert (result.safety_margin_percent, choice.policy.cold_start_period_seconds) == (margin, cold)


def test_models_are_combined() -> None:
    """JSON on the command line is a policy, too; results are called as it was written."""
    written = json.dumps(
        {"model": "max", "of": [{"model": "nsigma-v2", "parameters": {"n": 2}}, {"model": "diversity"}]}
    )
    (choice,) = policies.parse([written])
    first, second = effective(choice.policy, "cpu").of
    assert (first.model, first.parameters, second.model) == ("nsigma-v2", {"n": 2}, "diversity")
    assert choice.name == written


def test_default_is_the_shipped_policy() -> None:
    """`default` is the agent's policy to the last key, and margin and cold can be tried on it."""
    (choice,) = policies.parse(["default"])
    assert choice.policy == resolve(None).policy
    (bare,) = policies.parse(["default:margin=0,cold=2h"])
    for resource in ("cpu", "memory"):
        ours, theirs = effective(bare.policy, resource), effective(DEFAULTS, resource)
        assert (ours.model, ours.parameters, ours.of) == (theirs.model, theirs.parameters, theirs.of)
        assert ours.safety_margin_percent == 0
    assert bare.policy.cold_start_period_seconds == 7200


def test_all_are_those_that_stand_alone() -> None:
    """`all` is the default policy and every model but those that only combine others; nothing comes twice."""
    names = [choice.name for choice in policies.parse(["sum-max", "all", "default"])]
    assert sorted(names) == sorted({"default", *PREDICTORS} - {"max"})
    assert names[0] == "sum-max"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("divrsity", "no model is named 'divrsity'; did you mean diversity? known are default, "),
        ("diversity:windowdays=3", "parameters.windowdays: model diversity has no such parameter; it has: windowDays"),
        ("diversity:lambdaMin=2", "parameters.lambdaMin: must be a number from 0 to 1, got 2"),
        ("diversity:lambdaMin=half", "parameters.lambdaMin: must be a number from 0 to 1, got 'half'"),
        ("diversity:margin=7.5", "margin must be a whole number of percent from 0 to 100, got 7.5"),
        ("diversity:margin=true", "margin must be a whole number of percent"),
        ("diversity:margin=101", "safetyMarginPercent: must be 0 to 100, got 101"),
        ("diversity:cold=soon", "cold: 'soon' is not a time such as 90m, 24h or 7d"),
        ("diversity:cold=31d", "coldStartPeriodSeconds: must be 0 to"),
        ("diversity,sum-max", "diversity,sum-max: give --policy once for each"),
        ("diversity:n", "behind diversity: write keys and values"),
        ("diversity:", "behind diversity: write keys and values"),
        ("diversity:windowDays=", "windowDays has no value"),
        ("diversity:windowDays=1,windowDays=2", "windowDays is there twice"),
        ("max", "of: model max needs at least one model"),
        ("max(sum-max,diversity)", 'max(sum-max,diversity): models are combined in JSON: {"model": "max", "of": ['),
        ("max(sum-max:n=3)", 'models are combined in JSON: {"model": "max", "of": ['),
        ('{"model": "max", "of": [{"model": "default"}]}', "no model is named 'default'"),
        ('{"model": "sum-max", "margin": 3}', "a prediction policy has no key margin; it has: "),
        ('{"model": "sum-max"', "is not JSON: "),
        ("default:n=3", "default has its own parameters; it takes margin and cold alone"),
        ("oracle", "the oracle is no policy: it is always shown beside the others"),
        ("", "the name of a model is missing"),
        (":n=3", "the name of a model is missing"),
    ],
)
def test_wrong_policies_are_explained(text: str, said: str) -> None:
    with pytest.raises(NamedPolicyError) as caught:
        policies.parse([text])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrapped", [False, True])
def test_file_holds_a_policy(wrapped: bool) -> None:  # noqa: FBT001 - a case
    """A file is the policy itself, or a colocation config with one in it; its name is that of the policy."""
    inside = {"model": "sum-max", "safetyMarginPercent": 0, "memory": {"model": "recent-max", "safetyMarginPercent": 7}}
    data = {"enable": True, "nodePredictPolicy": inside} if wrapped else inside
    choice = policies.of_file(json.dumps(data), "conf/candidate.json")
    assert choice.name == "candidate"
    assert effective(choice.policy, "cpu").model == "sum-max"
    assert effective(choice.policy, "memory").model == "recent-max"
    assert effective(choice.policy, "memory").safety_margin_percent == 7


def test_written_policy_can_be_stored() -> None:
    """The document's policy is a valid policy file with the same meaning."""
    (choice,) = policies.parse(["nsigma-v2:n=2,margin=4,cold=6h"])
    again = policies.of_file(json.dumps(policies.as_json(choice)), "x")
    for resource in ("cpu", "memory"):
        assert resolve(again.policy).models[resource].model == resolve(choice.policy).models[resource].model
        assert resolve(again.policy).models[resource].margin == resolve(choice.policy).models[resource].margin
    assert again.policy.cold_start_period_seconds == 21_600


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "policy.json is not JSON: "),
        ("[" * 100_000, "policy.json is not JSON: "),
        ("[]", "policy.json: a policy is an object, such as"),
        ('{"nodePredictPolicy": 3}', "policy.json: the object: must be an object, got 3"),
        ('{"models": "sum-max"}', "policy.json: a prediction policy has no key models; did you mean model?"),
        ('{"cpu": {"coldStartPeriodSeconds": 3}}', "policy.json: a prediction policy has no key cpu.coldStart"),
        ('{"model": "nothing"}', "policy.json: model: no model is named 'nothing'"),
        ('{"safetyMarginPercent": 200}', "policy.json: safetyMarginPercent: must be 0 to 100, got 200"),
        ('{"model": 3}', "policy.json: model: must be a string, got 3"),
    ],
)
def test_wrong_files_are_explained(text: str, said: str) -> None:
    """A file that no agent would follow is refused with its name: its figures would be those of another policy."""
    with pytest.raises(NamedPolicyError) as caught:
        policies.of_file(text, "policy.json")
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["oracle", "default"])
def test_file_is_not_taken_for_another_policy(name: str) -> None:
    """A file named oracle.json would replace the oracle's row, and its figures would count as the best possible.

    The same holds for the policy that the agent ships with.
    """
    with pytest.raises(NamedPolicyError, match=f"conf/{name}.json: .* {name} means another; rename the file"):
        policies.of_file('{"model": "sum-max"}', f"conf/{name}.json")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("24h", 86_400.0), ("7d", 604_800.0), ("1d12h", 129_600.0), ("1.5d", 129_600.0), ("300", 300.0), ("90m", 5400.0)],
)
def test_times_have_days(text: str, seconds: float) -> None:
    assert parse_span(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "-1h", "1w", "1e9d", "99999d", "inf", "nan", "7d7d"])
def test_no_times(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time such as"):
        parse_span(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(86_400, "24h"), (604_800, "7d"), (5400, "1h30m"), (300, "5m"), (0, "0s"), (172_800, "2d")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    """Times are shown in their largest units, and read back as they were."""
    assert format_span(seconds) == text
    assert parse_span(text) == seconds


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2013-08-16", 1376611200.0),
        ("20130816", 1376611200.0),
        ("2013-08-16T01:00:00+01:00", 1376611200.0),
        ("2013-08-16T00:00:00Z", 1376611200.0),
        ("1376611200", 1376611200.0),
        ("14d", 2e9 - 14 * 86400),
    ],
)
def test_moments(text: str, moment: float) -> None:
    assert parse_timestamp(text, 2e9) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "2013-13-01", "300", "14"])
def test_no_moments(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no moment: write 2026-01-31"):
        parse_timestamp(text, 2e9)
