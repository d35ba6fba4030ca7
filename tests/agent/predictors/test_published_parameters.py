"""The published rules and the page about prediction match the models' own checks."""

import re
from dataclasses import MISSING, fields
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from agent.prediction.reclaimable import reclaimable_terms
from agent.predictors import _DEEPEST, PREDICTORS, PolicyError, build
from crds.models import COMBINING, DEEPEST, MODELS
from crds.predict_policy import ResourcePolicy
from crds.ranges import Flag, Range

PAGE = (Path(__file__).parents[3] / "docs" / "prediction.md").read_text(encoding="utf-8")


def accepts(model: str, name: str, value: Any) -> bool:  # noqa: ANN401
    try:
        build(ResourcePolicy(model, {name: value}, (), 0))
    except PolicyError:
        return False
    return True


def test_table_and_page_have_the_models_with_their_parameters_and_defaults() -> None:
    rows = {match[1]: match[2] for match in re.finditer(r"^\| `([a-z0-9-]+)` \|(.*)$", PAGE, flags=re.MULTILINE)}
    assert rows.keys() == PREDICTORS.keys() == MODELS.keys()
    rows["nsigma-v2"] += rows["nsigma-v1"]  # "the same"
    for model, target in PREDICTORS.items():
        defaults = {
            re.sub(r"_(\w)", lambda m: m[1].upper(), field.name): field.default
            for field in fields(resolve_name(target))
        }
        assert ("of" in defaults) == (model in COMBINING)
        assert defaults.keys() - {"of"} == set(MODELS[model])
        for name, default in defaults.items():
            shown = f"`{name}` {default:g} (" if default is not MISSING and isinstance(default, float) else f"`{name}`"
            assert shown in rows[model]
    assert DEEPEST == _DEEPEST


@pytest.mark.parametrize(("model", "name"), [(model, name) for model, cached in MODELS.items() for name in cached])
def test_model_accepts_exactly_the_ranges_of_the_table(model: str, name: str) -> None:
    rule = MODELS[model][name]
    good: list[Any] = [True, False]
    bad: list[Any] = [0, "true"]
    if not isinstance(rule, Flag):
        assert isinstance(rule, Range)
        good, bad = [rule.low, rule.high], [rule.low - 0.001, rule.high + 0.001, True, "1"]
    assert all(rule.allows(value) and accepts(model, name, value) for value in good)
    assert not any(rule.allows(value) or accepts(model, name, value) for value in bad)


def test_worked_example_of_the_page_holds() -> None:
    example = {"allocatable": 15.5, "reserved": 0.5, "system_peak": 1.1 * 0.818, "prod_peak": 1.1 * 3.18 + 1}
    for warm, ratio, cores in ((10.0, 1.0, 6.5), (14.5, 1.0, 10.6), (10.0, 0.8, 4.5)):
        result = reclaimable_terms(**example, warm_requests=warm, cold_requests=1.0, ratio=ratio).reclaimable
        assert round(result, 1) == cores
        assert f"{cores} cores" in PAGE
