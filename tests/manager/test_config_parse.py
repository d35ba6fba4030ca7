"""The strict parse of `colocation-config`."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.codec import to_json
from crds.colocation import ALLOWED, ColocationConfig
from crds.ranges import Range
from manager.config.overlay import overlay
from manager.config.parse import parse_config, parse_strategy

NAMES = st.sampled_from(
    [*ALLOWED, "enable", "nodeConfigs", "nodeSelector", "nodePredictPolicy", "midEviction", "metricAggregatePolicy"]
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def _errors(document: Any) -> list[str]:  # noqa: ANN401
    judged = parse_config(json.dumps(document))
    assert (judged.config is None) == bool(judged.errors)
    return [str(each) for each in judged.errors]


def _warnings(document: Any) -> list[str]:  # noqa: ANN401
    judged = parse_config(json.dumps(document))
    assert judged.config is not None
    return [str(each) for each in judged.warnings]


@pytest.mark.parametrize("text", [None, ""])
def test_absent_text_means_defaults(text: str | None) -> None:
    """No text is no configuration, and no fault."""
    assert parse_config(text).config == ColocationConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("null", 'must be a JSON object such as {"enable": true}, got null'),
        ("[]", 'must be a JSON object such as {"enable": true}, got []'),
        ('"x"', 'must be a JSON object such as {"enable": true}, got "x"'),
        (" ", "not valid JSON: Expecting value: line 1 column 2 (char 1)"),
        ('{"enable": true} trailing', "not valid JSON: Extra data: line 1 column 18 (char 17)"),
        ('{"enable": true,}', "not valid JSON:"),
        ('{"resourceDiffThreshold": NaN}', "not valid JSON: NaN is not a number"),
        ("[" * 100_000, "not usable: it is nested too deeply"),
        ("1" * 5000, "not usable: a number has too many digits"),
        ('{"nodePredictPolicy": {"parameters": {"n": 1e400}}}', 'not usable: the number "1e400" is too large'),
    ],
)
def test_unusable_text_is_one_error(text: str, message: str) -> None:
    """Text that is no JSON object is refused with one sentence that says where."""
    judged = parse_config(text)
    assert judged.config is None
    assert len(judged.errors) == 1
    assert str(judged.errors[0]).startswith(message)


def test_all_errors_at_once() -> None:
    """Every bad field is named with its path, its value and what is allowed."""
    assert _errors(
        {
            "enable": "true",
            "degradeTimeMinutes": 0,
            "midCPUThresholdPercent": 120,
            "metricReportIntervalSeconds": 60.5,
            "mode": "shadows",
            "metricAggregatePolicy": {"durations": [300, "-5m", "soon"]},
            "midEviction": {"mode": "yes"},
            "nodePredictPolicy": {"checkIntervalSeconds": 1, "parameters": [], "cpu": {"safetyMarginPercent": -1}},
        }
    ) == [
        'enable: must be true or false, got "true"',
        "degradeTimeMinutes: must be 1 to 10080, got 0",
        "midCPUThresholdPercent: must be 0 to 100, got 120",
        "metricReportIntervalSeconds: must be a whole number, got 60.5",
        'mode: must be one of "active", "shadow", got "shadows"',
        "metricAggregatePolicy.durations[0]: must be a positive duration such as 5m, got 300",
        'metricAggregatePolicy.durations[1]: must be a positive duration such as 5m, got "-5m"',
        "metricAggregatePolicy.durations[2]: 'soon' is not a duration: write it like 5m0s, 90s or 1h30m",
        'midEviction.mode: must be one of "off", "dry-run", "on", got "yes"',
        "nodePredictPolicy.checkIntervalSeconds: must be 5 to 600, got 1",
        "nodePredictPolicy.parameters: must be an object, got []",
        "nodePredictPolicy.cpu.safetyMarginPercent: must be 0 to 100, got -1",
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("midCpuThresholdPercnt", "midCPUThresholdPercent"),
        ("midUnalocatedPercent", "midUnallocatedPercent"),
        ("enabled", "enable"),
        ("nodeConfig", "nodeConfigs"),
    ],
)
def test_misspelt_name_is_refused(written: str, meant: str) -> None:
    """A name that resembles a known one is an error that says which."""
    assert _errors({written: 1}) == [f"{written}: unknown field: did you mean {meant}?"]


def test_far_unknown_name_is_warning() -> None:
    """A name that resembles nothing is somebody else's: ignored, and said."""
    assert _warnings({"enable": True, "invalidKey": "x"}) == ["invalidKey: unknown field: ignored"]


def test_case_does_not_matter() -> None:
    """Koordinator reads names in any case, so do we, with a warning; both spellings at once are a fault."""
    judged = parse_config('{"ENABLE": true}')
    assert judged.config is not None
    assert judged.config.enable is True
    assert _warnings({"ENABLE": True}) == ["ENABLE: read as enable: write it like that"]
    assert _errors({"ENABLE": True, "enable": False}) == ["ENABLE: given twice, also as enable: remove one"]


def test_repeated_name_is_refused() -> None:
    """A field that stands twice in one object is a fault: nobody can know which was meant."""
    judged = parse_config('{"enable": true, "enable": false}')
    assert [str(each) for each in judged.errors] == ["enable: given twice in the same object: remove one"]


def test_null_keeps_what_applies() -> None:
    """An explicit null is as good as an absent field."""
    assert parse_config('{"enable": null, "nodeConfigs": null}').config == ColocationConfig()


def test_batch_fields_pass() -> None:
    """Koordinator's Batch fields and extensions are accepted."""
    batch = {
        "cpuReclaimThresholdPercent": 65,
        "memoryCalculatePolicy": "request",
        "batchCPUThresholdPercent": 40,
        "extensions": {"third": {"party": [1]}},
    }
    judged = parse_config(json.dumps(batch))
    assert judged.config is not None
    assert to_json(judged.config) == batch
    assert not judged.warnings


def test_odd_modes_have_no_effect() -> None:
    """Settings that take any text at Koordinator are kept, with a warning when nothing here knows them."""
    assert _warnings({"midReclaimMode": "bogus"}) == [
        'midReclaimMode: "bogus" is not one of "", "static": it has no effect'
    ]


def test_durations_are_written_as_go_does() -> None:
    """Durations come out in one form, and an empty list keeps the default."""
    judged = parse_config('{"metricAggregatePolicy": {"durations": ["90s", "1h"]}}')
    assert judged.config is not None
    assert judged.config.metric_aggregate_policy is not None
    assert judged.config.metric_aggregate_policy.durations == ("1m30s", "1h0m0s")
    empty = parse_config('{"metricAggregatePolicy": {"durations": []}}').config
    assert empty is not None
    policy = overlay(empty).strategy.metric_aggregate_policy
    assert policy is not None
    assert policy.durations == ("5m0s", "10m0s", "30m0s")


def test_bad_entry_is_disabled_alone() -> None:
    """A fault in one nodeConfigs entry disables that entry and nothing else; the others keep their places."""
    judged = parse_config(
        json.dumps(
            {
                "enable": True,
                "nodeConfigs": [
                    {"name": "a", "nodeSelector": {"matchLabels": {"p": "a"}}, "midCPUThresholdPercent": 101},
                    None,
                    {"name": "b", "nodeSelector": {"matchLabels": {"p": "b"}}, "midCPUThresholdPercent": 10},
                    {"name": "c", "enable": False},
                ],
            }
        )
    )
    assert judged.config is not None
    assert [str(each) for each in judged.entry_errors] == [
        "nodeConfigs[0].midCPUThresholdPercent: must be 0 to 100, got 101",
        "nodeConfigs[1]: must be an object with fields, got null",
    ]
    assert [str(each) for each in judged.warnings] == ["nodeConfigs[3]: has no nodeSelector: it matches no node"]
    entries = judged.config.node_configs
    assert entries is not None
    assert [entry.name for entry in entries] == ["a", None, "b", "c"]
    assert overlay(judged.config, {"p": "a"}).strategy.mid_cpu_threshold_percent == 100
    assert overlay(judged.config, {"p": "b"}).strategy.mid_cpu_threshold_percent == 10


@pytest.mark.parametrize("value", [{}, "x", 3])
def test_node_configs_must_be_list(value: object) -> None:
    """Anything but a list of entries refuses the text."""
    assert _errors({"nodeConfigs": value}) == [f"nodeConfigs: must be a list, got {json.dumps(value)}"]


def test_models_are_checked() -> None:
    """A model nobody knows is a warning, since agents may have more; `max` needs models to choose from."""
    warned = _warnings({"nodePredictPolicy": {"model": "crystal-ball"}})
    assert warned[0].startswith('nodePredictPolicy: model "crystal-ball" is not built in (borg-default, ')
    assert _errors({"nodePredictPolicy": {"memory": {"model": "max"}}}) == [
        "nodePredictPolicy.memory.of: model max needs a list of models to take the largest of"
    ]
    assert _errors({"nodePredictPolicy": {"model": "max", "of": [{"parameters": {}}]}}) == [
        "nodePredictPolicy.of[0]: model is missing: name one, such as nsigma-v2"
    ]


@pytest.mark.parametrize("name", [name for name, rule in ALLOWED.items() if isinstance(rule, Range)])
def test_bounds_are_inclusive(name: str) -> None:
    """Each number is accepted at its bounds and refused beyond them."""
    rule = ALLOWED[name]
    assert isinstance(rule, Range)
    low, high = (rule.low, rule.high) if name == "resourceDiffThreshold" else (int(rule.low), int(rule.high))
    assert not _errors({name: low})
    assert not _errors({name: high})
    assert _errors({name: low - 1})
    assert _errors({name: high + 1})


@given(ANYTHING)
def test_any_json_is_judged(document: Any) -> None:  # noqa: ANN401
    """Whatever JSON stands there, it is accepted or refused with sentences, and an accepted one applies to nodes."""
    for text in (json.dumps(document), json.dumps({"nodeConfigs": [document], "enable": True})):
        judged = parse_config(text)
        assert (judged.config is None) == bool(judged.errors)
        assert all(str(each) for each in (*judged.errors, *judged.entry_errors, *judged.warnings))
        if judged.config is not None:
            overlay(judged.config, {"a": "b"}, {})
        parse_strategy(text)


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    """Not even text that is no JSON raises."""
    parse_config(text)
    parse_strategy(text)
