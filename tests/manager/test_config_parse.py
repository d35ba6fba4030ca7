import json
from typing import Any

import pytest

from crds.codec import to_json
from crds.colocation import ALLOWED, ColocationConfig
from crds.ranges import Range
from manager.config.merge import effective_strategy
from manager.config.parse import parse_config


def _errors(document: Any) -> list[str]:  # noqa: ANN401
    parsed = parse_config(json.dumps(document))
    assert (parsed.config is None) == bool(parsed.errors)
    return [str(error) for error in parsed.errors]


def _warnings(document: Any) -> list[str]:  # noqa: ANN401
    parsed = parse_config(json.dumps(document))
    assert parsed.config is not None
    return [str(warning) for warning in parsed.warnings]


@pytest.mark.parametrize("text", [None, ""])
def test_absent_text_means_defaults(text: str | None) -> None:
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
        (
            '{"hotNodes": {"mode": "dryrun"}}',
            'hotNodes.mode: must be one of "off", "dryRun", "prefer", "noSchedule", got "dryrun": did you mean',
        ),
        ('{"hotNodes": {"maxNodesPercent": 0}}', "hotNodes.maxNodesPercent: must be 1 to 100, got 0"),
        ('{"hotNodes": {"cpuThresholdPercnt": 65}}', "hotNodes.cpuThresholdPercnt: unknown field: did you mean"),
        ('{"resourceDiffThreshold": NaN}', 'resourceDiffThreshold: "NaN" is no number in JSON'),
        ('{"nodeConfigs": [{"resourceDiffThreshold": -Infinity}]}', "nodeConfigs[0].resourceDiffThreshold: "),
        ('{"degradeTimeMinutes": 1e999}', 'degradeTimeMinutes: "1e999" is too large a number'),
        ("[" * 100_000, "not usable: it is nested too deeply"),
        ("1" * 5000, "must be a JSON object such as"),
        ('{"degradeTimeMinutes": ' + "1" * 5000 + "}", 'degradeTimeMinutes: "1111'),
        ('{"extensions": {"a": ' + "[" * 40 + "]" * 40 + "}}", "extensions.a[0][0]"),
        ("x" * (2 * 1024 * 1024), "not usable: 2097152 characters are more than a ConfigMap can hold"),
        ("\ufeff{}", "not valid JSON: it begins with a byte order mark (BOM): save it without one"),
        ("enable: true\n", 'not valid JSON: this looks like YAML; write JSON, such as {"enable": true}'),
        ("# mine\nnodeConfigs:\n- name: a\n", "not valid JSON: this looks like YAML; write JSON"),
        (
            '{"nodePredictPolicy": {"parameters": {"windowDays": 1e400}}}',
            'nodePredictPolicy.parameters.windowDays: "1e400" is',
        ),
    ],
)
def test_unusable_text_is_one_error_with_its_place(text: str, message: str) -> None:
    parsed = parse_config(text)
    assert parsed.config is None
    assert len(parsed.errors) == 1
    assert str(parsed.errors[0]).startswith(message)


def test_all_errors_have_path_value_and_range() -> None:
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
        'enable: must be true or false, got "true": write true without quotes',
        "degradeTimeMinutes: must be 1 to 10080, got 0",
        "midCPUThresholdPercent: must be 0 to 100, got 120",
        "metricReportIntervalSeconds: must be a whole number, got 60.5",
        'mode: must be one of "active", "shadow", got "shadows": did you mean "shadow"?',
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
def test_misspelt_name_is_refused_with_the_known_one(written: str, meant: str) -> None:
    assert _errors({written: 1}) == [f"{written}: unknown field: did you mean {meant}?"]


def test_name_that_resembles_none_is_a_warning() -> None:
    assert _warnings({"enable": True, "invalidKey": "x"}) == ["invalidKey: unknown field: ignored"]


def test_case_does_not_matter() -> None:
    """Koordinator reads names in any case, so do we, with a warning; both spellings at once are a fault."""
    parsed = parse_config('{"ENABLE": true}')
    assert parsed.config is not None
    assert parsed.config.enable is True
    assert _warnings({"ENABLE": True}) == ["ENABLE: read as enable: write it like that"]
    assert _errors({"ENABLE": True, "enable": False}) == ["ENABLE: given twice, also as enable: remove one"]
    assert _errors({"Enable": True, "ENABLE": False}) == ["ENABLE: given twice, also as Enable: remove one"]


def test_repeated_name_is_refused() -> None:
    parsed = parse_config('{"enable": true, "enable": false}')
    assert [str(error) for error in parsed.errors] == ["enable: given twice in the same object: remove one"]


def test_null_keeps_the_present_value() -> None:
    assert parse_config('{"enable": null, "nodeConfigs": null}').config == ColocationConfig()


def test_batch_fields_pass() -> None:
    batch = {
        "cpuReclaimThresholdPercent": 65,
        "memoryCalculatePolicy": "request",
        "batchCPUThresholdPercent": 40,
        "extensions": {"third": {"party": [1]}},
    }
    parsed = parse_config(json.dumps(batch))
    assert parsed.config is not None
    assert to_json(parsed.config) == batch
    assert not parsed.warnings


def test_unknown_text_that_koordinator_allows_is_a_warning() -> None:
    assert _warnings({"midReclaimMode": "bogus"}) == [
        'midReclaimMode: "bogus" is not one of "", "static": it has no effect'
    ]


def test_durations_are_written_as_go_does_and_an_empty_list_is_the_default() -> None:
    parsed = parse_config('{"metricAggregatePolicy": {"durations": ["90s", "1h"]}}')
    assert parsed.config is not None
    assert parsed.config.metric_aggregate_policy is not None
    assert parsed.config.metric_aggregate_policy.durations == ("1m30s", "1h0m0s")
    empty = parse_config('{"metricAggregatePolicy": {"durations": []}}').config
    assert empty is not None
    policy = effective_strategy(empty).strategy.metric_aggregate_policy
    assert policy is not None
    assert policy.durations == ("5m0s", "10m0s", "30m0s")


def test_bad_entry_is_disabled_alone_and_the_others_keep_their_places() -> None:
    parsed = parse_config(
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
    assert parsed.config is not None
    assert [str(error) for error in parsed.entry_errors] == [
        "nodeConfigs[0].midCPUThresholdPercent: must be 0 to 100, got 101",
        "nodeConfigs[1]: must be an object with fields, got null",
    ]
    assert [str(warning) for warning in parsed.warnings] == ["nodeConfigs[3]: has no nodeSelector: it matches no node"]
    entries = parsed.config.node_configs
    assert entries is not None
    assert [entry.name for entry in entries] == ["a", None, "b", "c"]
    assert effective_strategy(parsed.config, {"p": "a"}).strategy.mid_cpu_threshold_percent == 100
    assert effective_strategy(parsed.config, {"p": "b"}).strategy.mid_cpu_threshold_percent == 10


@pytest.mark.parametrize("value", [{}, "x", 3])
def test_node_configs_must_be_list(value: object) -> None:
    assert _errors({"nodeConfigs": value}) == [f"nodeConfigs: must be a list, got {json.dumps(value)}"]


def test_reports_slower_than_their_expiry_are_a_warning() -> None:
    assert _warnings({"metricReportIntervalSeconds": 600, "degradeTimeMinutes": 10})[0].endswith("would come and go")
    entry = {"name": "a", "nodeSelector": {}, "metricReportIntervalSeconds": 900}
    assert _warnings({"nodeConfigs": [entry]})[0].startswith("nodeConfigs[0]: reports come every 900 s")
    assert not _warnings({"degradeTimeMinutes": 2, "nodeConfigs": [{**entry, "metricReportIntervalSeconds": 60}]})


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"midCPUThresholdPercent": "50%"}, 'must be a whole number, got "50%": write 50'),
        ({"midCPUThresholdPercent": "12.5"}, 'must be a whole number, got "12.5"'),
        ({"resourceDiffThreshold": "0.2"}, 'must be a number, got "0.2": write 0.2'),
        ({"metricReportIntervalSeconds": "2m"}, 'must be a whole number, got "2m": write 120'),
        ({"degradeTimeMinutes": "1h"}, 'must be a whole number, got "1h": write 60'),
        ({"enable": "False"}, 'must be true or false, got "False": write false without quotes'),
        ({"enable": 1}, "must be true or false, got 1"),
        ({"degradeTimeMinutes": True}, "must be a whole number, got true"),
        ({"degradeTimeMinutes": 10.0}, "must be a whole number, got 10.0"),
        ({"degradeTimeMinutes": 10**30}, "must be 1 to 10080, got 1000000000000000000000000000000"),
        ({"mode": "Shadow"}, 'must be one of "active", "shadow", got "Shadow": did you mean "shadow"?'),
        ({"mode": ["active"]}, 'must be a text, got ["active"]'),
        ({"metricMemoryCollectPolicy": "x"}, 'must be one of "usageWithoutPageCache", '),
        ({"midEviction": "off"}, 'must be an object with fields, got "off"'),
        ({"extensions": []}, "must be an object, got []"),
    ],
)
def test_wrong_values_are_explained(field: dict[str, Any], message: str) -> None:
    assert _errors(field)[0].startswith(f"{next(iter(field))}: {message}")


@pytest.mark.parametrize(
    ("durations", "message"),
    [
        (["0s"], '[0]: must be a positive duration such as 5m, got "0s"'),
        (["1ms"], '[0]: must be a duration from 1s to 168h, got "1ms"'),
        (["9999h"], '[0]: must be a duration from 1s to 168h, got "9999h"'),
        (["9" * 300 + "h"], "[0]: '9999"),
        ([None], "[0]: must be a positive duration such as 5m, got null"),
        (["5m"] * 11, ": must list at most 10 durations, got 11"),
        ("5m", ': must be a list of durations such as 5m, got "5m"'),
    ],
)
def test_windows_are_bounded(durations: object, message: str) -> None:
    result = _errors({"metricAggregatePolicy": {"durations": durations}})
    assert result[0].startswith(f"metricAggregatePolicy.durations{message}")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('{"enable": true,}', ": remove the comma before it"),
        ("{'enable': true}", ": write \" in place of '"),
        ("{enable: true}", ': names need "quotes"'),
        ('{"enable": True}', ": write true, false or null"),
        ('{"enable": true // on\n}', ": JSON has no comments"),
        ('{"enable": true', ": the text ends too early: a quote or bracket is not closed"),
        ("  \n", ": write {} for the defaults, or remove the key"),
        ("hello", ', at "hello"'),
    ],
)
def test_slips_are_explained(text: str, hint: str) -> None:
    assert str(parse_config(text).errors[0]).endswith(hint)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({f"k{i:06}": 0 for i in range(4_000)}),
        "{" + ",".join('"a": 1' for _ in range(6_000)) + "}",
        json.dumps({"nodeConfigs": [{}] * 4_000}),
        json.dumps({"nodeConfigs": [{"nodeSelectr": 1}] * 2_000}),
        json.dumps({"nodeConfigs": [{"nodeSelector": {"matchLabels": {f"a{i}": "x" for i in range(3_000)}}}] * 2}),
        json.dumps({"nodeConfigs": [{"nodeSelector": {"matchExpressions": [{}] * 3_000}}]}),
        '{"extensions": {"a": ' + "[" * 500_000 + "]" * 500_000 + "}}",
    ],
    ids=["unknown", "twice", "entries", "misspelt", "labels", "expressions", "deep"],
)
def test_large_nonsense_is_bounded(text: str) -> None:
    assert len(text) < 2 * 1024 * 1024
    parsed = parse_config(text)
    assert len(parsed.errors) <= 101
    assert len(parsed.entry_errors) <= 101
    assert len(parsed.warnings) <= 102
    assert len(parsed.hints) <= 101


@pytest.mark.parametrize("name", [name for name, rule in ALLOWED.items() if isinstance(rule, Range)])
def test_bounds_are_inclusive(name: str) -> None:
    rule = ALLOWED[name]
    assert isinstance(rule, Range)
    low, high = (rule.low, rule.high) if name == "resourceDiffThreshold" else (int(rule.low), int(rule.high))
    assert not _errors({name: low})
    assert not _errors({name: high})
    assert _errors({name: low - 1})
    assert _errors({name: high + 1})
