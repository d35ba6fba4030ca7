"""`kubectl headroom config explain`."""

import json

import pytest
import yaml

from crds import colocation, predict_policy
from crds.codec import json_fields, to_json
from headroom.cli.__main__ import main
from headroom.cli.config.fields import every_field
from headroom.cli.errors import USAGE

BY_PATH = {each.path: each for each in every_field()}


def test_every_field_is_there() -> None:
    """Every field of the types is listed under its path, nested ones and those of an entry too."""
    for cls, prefix in (
        (colocation.ColocationConfig, ""),
        (colocation.MidEviction, "midEviction."),
        (colocation.MetricAggregatePolicy, "metricAggregatePolicy."),
        (predict_policy.PredictPolicy, "nodePredictPolicy."),
        (predict_policy.ResourceOverride, "nodePredictPolicy.cpu."),
    ):
        assert {f"{prefix}{name}" for name in json_fields(cls)} <= BY_PATH.keys()
    assert {"nodeConfigs[].name", "nodeConfigs[].nodeSelector"} <= BY_PATH.keys()
    assert "nodeConfigs[].enable" not in BY_PATH


def test_every_field_means_something() -> None:
    """Each has a sentence, without its unit, and a kind."""
    for each in every_field():
        assert each.meaning.endswith("."), each.path
        assert each.kind
        assert "[" not in each.meaning


def test_defaults_and_ranges() -> None:
    """Defaults are those of the types, as JSON; each lies within what is allowed."""
    for name, value in to_json(colocation.DEFAULTS).items():
        if not isinstance(value, dict):
            assert BY_PATH[name].default == value, name
    for each in every_field():
        assert each.default is None or each.allowed is None or each.allowed.allows(each.default), each.path
    assert BY_PATH["nodePredictPolicy.coldStartPeriodSeconds"].range == "0 to 2592000"
    assert BY_PATH["midReclaimMode"].range == '"", static'
    assert BY_PATH["midEviction.afterSeconds"].unit == "s"
    assert not BY_PATH["cpuCalculatePolicy"].used
    assert BY_PATH["enable"].used


def test_one_field(capsys: pytest.CaptureFixture[str]) -> None:
    """A field is told in full: type with unit, default, range, meaning, where it may stand."""
    assert main(["config", "explain", "midIncreaseHoldSeconds"]) == 0
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert lines["TYPE:"] == "whole number [s]"
    assert (lines["DEFAULT:"], lines["ALLOWED:"]) == ("120", "0 to 3600")
    assert "nodeConfigs" in lines["WHERE:"]


def test_object_lists_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """An object is followed by what stands in it."""
    assert main(["config", "explain", "midEviction"]) == 0
    out = capsys.readouterr().out
    assert "Fields in it" in out
    assert "midEviction.maxPerMinute" in out


@pytest.mark.parametrize("name", ["MIDEVICTION.MODE", "nodeConfigs.midEviction.mode", "nodeConfigs[].midEviction.mode"])
def test_other_spellings(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Case does not matter, and an entry for some nodes has the same fields."""
    assert main(["config", "explain", name]) == 0
    assert capsys.readouterr().out.startswith("FIELD:    midEviction.mode\n")


def test_last_part_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """The last part of a path is enough where only one field is called so."""
    assert main(["config", "explain", "afterSeconds"]) == 0
    assert capsys.readouterr().out.startswith("FIELD:    midEviction.afterSeconds\n")


def test_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the field is about models, all of them are listed with their parameters."""
    assert main(["config", "explain", "nodePredictPolicy.parameters", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["models"]["diversity"]["lambdaMin"] == "0 to 1"
    assert main(["config", "explain", "nodePredictPolicy.model"]) == 0
    assert "recent-max" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("midEvicton.mode", "Did you mean midEviction.mode"),
        ("midUnalocatedPercent", "Did you mean midUnallocatedPercent"),
        ("safetyMarginPercent", "There are several fields 'safetyMarginPercent': name one of nodePredictPolicy.safety"),
        ("zzz", "kubectl headroom config explain lists them."),
    ],
)
def test_unknown_field(name: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A field that does not exist ends with 2, and the one that was probably meant, in one line."""
    assert main(["config", "explain", name]) == USAGE
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_formats(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and YAML have every field; the wide table has types and units, too."""
    assert main(["config", "explain", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["path"] for each in found["fields"]] == [each.path for each in every_field()]
    assert main(["config", "explain", "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == found
    assert main(["config", "explain", "-o", "wide"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["FIELD", "TYPE", "DEFAULT", "ALLOWED", "UNIT", "MEANING"]
