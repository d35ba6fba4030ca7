"""The table of parameters that others judge a policy by says what the models themselves accept."""

import re
from dataclasses import fields
from pkgutil import resolve_name
from typing import Any

import pytest

from agent.predictors import _DEEPEST, PREDICTORS, PolicyError, build
from crds.models import COMBINING, DEEPEST, MODELS
from crds.predict_policy import ModelChoice, ResourcePolicy
from crds.ranges import Flag, Range

CASES = [(model, name) for model, known in MODELS.items() for name in known]


def _accepts(model: str, name: str, value: Any) -> bool:  # noqa: ANN401
    try:
        build(ResourcePolicy(model, {name: value}, (), 0))
    except PolicyError:
        return False
    return True


def test_same_models_and_parameters() -> None:
    """The table names the built-in models, the parameters of each, and those that combine others."""
    found = {}
    for model, target in PREDICTORS.items():
        names = [re.sub(r"_(\w)", lambda m: m[1].upper(), each.name) for each in fields(resolve_name(target))]
        assert ("of" in names) == (model in COMBINING)
        found[model] = set(names) - {"of"}
    assert found == {model: set(known) for model, known in MODELS.items()}
    assert DEEPEST == _DEEPEST


@pytest.mark.parametrize(("model", "name"), CASES)
def test_same_ranges(model: str, name: str) -> None:
    """Each model accepts what the table allows, its bounds included, and refuses what lies beyond."""
    rule = MODELS[model][name]
    good: list[Any]
    bad: list[Any]
    if isinstance(rule, Flag):
        good, bad = [True, False], [0, "true"]
    else:
        assert isinstance(rule, Range)
        good, bad = [rule.low, rule.high], [rule.low - 0.001, rule.high + 0.001, True, "1"]
    for value in good:
        assert rule.allows(value)
        assert _accepts(model, name, value)
    for value in bad:
        assert not rule.allows(value)
        assert not _accepts(model, name, value)


def test_same_depth() -> None:
    """Models may combine one another as deep as the table says, and no deeper."""

    def nested(levels: int) -> tuple[ModelChoice, ...]:
        inner: dict[str, Any] = {"model": "sum-max"}
        for _ in range(levels - 1):
            inner = {"model": "max", "of": [inner]}
        return (ModelChoice(**inner),)

    build(ResourcePolicy("max", {}, nested(DEEPEST), 0))
    with pytest.raises(PolicyError, match="nested"):
        build(ResourcePolicy("max", {}, nested(DEEPEST + 1), 0))
