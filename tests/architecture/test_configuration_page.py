"""docs/configuration.md has every field of colocation-config, with its default and range."""

import json
import re
from collections.abc import Mapping
from typing import Any

from crds.codec import json_fields, to_json
from crds.colocation import (
    ALLOWED,
    ALLOWED_HOT_NODES,
    ALLOWED_MID_EVICTION,
    DEFAULTS,
    ColocationStrategy,
    HotNodes,
    MidEviction,
)
from crds.predict_policy import DEFAULTS as PREDICT_DEFAULTS
from crds.predict_policy import RANGES, PredictPolicy
from crds.ranges import Allowed, Choice, Range
from tests.architecture.sources import ROOT

PAGE = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `([^`]+)` \| ([^|]*)\| ([^|]*)\| [^|]+ \|$", flags=re.MULTILINE)
ROWS = {name: (default.strip(), allowed.strip()) for name, default, allowed in _ROW.findall(PAGE)}
PARTS = {"nodePredictPolicy", "midEviction", "hotNodes", "metricAggregatePolicy"}
"""Fields that are objects: their own fields have rows."""


Field = tuple[Any, Allowed | None]


def _without_effect() -> set[str]:
    return set(re.findall(r"`(\w+)`", PAGE.partition("without effect here\n")[2]))


def _of(cls: type, defaults: Any, rules: Mapping[str, Allowed], prefix: str = "") -> dict[str, Field]:  # noqa: ANN401
    values = to_json(defaults)
    return {f"{prefix}{name}": (values.get(name), rules.get(name)) for name in json_fields(cls)}


def _fields() -> dict[str, Field]:
    """Field -> its default and its rule."""
    fields = _of(ColocationStrategy, DEFAULTS, ALLOWED)
    fields |= _of(MidEviction, DEFAULTS.mid_eviction, ALLOWED_MID_EVICTION, "midEviction.")
    fields |= _of(HotNodes, DEFAULTS.hot_nodes, ALLOWED_HOT_NODES, "hotNodes.")
    fields |= _of(PredictPolicy, PREDICT_DEFAULTS, RANGES, "nodePredictPolicy.")
    documented = PARTS | {"nodePredictPolicy.cpu", "nodePredictPolicy.memory"} | _without_effect()
    return {name: result for name, result in fields.items() if name not in documented}


def test_every_field_has_a_row() -> None:
    """Every field is explained once, and nothing is explained that is not a field."""
    unlisted = {"metricAggregatePolicy.durations", "nodeConfigs[].name", "nodeConfigs[].nodeSelector"}
    assert set(ROWS) == set(_fields()) | unlisted
    assert _without_effect() < set(json_fields(ColocationStrategy))


def test_defaults_are_right() -> None:
    """The default in the page is the default in force."""
    for name, (default, _) in _fields().items():
        shown = "" if default is None else default if isinstance(default, str) else json.dumps(default)
        assert ROWS[name][0] == shown, name
    assert ROWS["metricAggregatePolicy.durations"][0].split(", ") == list(DEFAULTS.metric_aggregate_policy.durations)  # type: ignore[union-attr,arg-type]


def test_ranges_are_right() -> None:
    """The page and the parser allow the same values."""
    for name, (_, rule) in _fields().items():
        if isinstance(rule, Range):
            assert ROWS[name][1] == f"{rule.low:.10g} to {rule.high:.10g}", name
        elif isinstance(rule, Choice):
            assert ROWS[name][1].split(", ") == [option or "empty" for option in rule.options], name
