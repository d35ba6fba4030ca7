"""Key `colocation-config` of the ConfigMap: strict, with one sentence for each bad field, all at once.

A fault in the cluster's part refuses the whole text (the last good one stays in force); a fault in an entry of
`nodeConfigs` disables that entry alone. An unknown name that resembles a known one is a fault, any other a warning.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from crds.codec import from_json, to_json
from crds.colocation import DEFAULTS, ColocationConfig, ColocationStrategy, MetricAggregatePolicy, NodeStrategy
from crds.duration import DurationError, format_duration, parse_duration
from crds.node_metric import LONGEST_DURATION_SECONDS, MOST_DURATIONS
from crds.predict_policy import DEFAULTS as PREDICT_DEFAULTS
from crds.predict_policy import PredictPolicy
from crds.ranges import Range
from manager.config import selector
from manager.config.document import document
from manager.config.field_merge import MergedFields
from manager.config.fields import MISSING, Budget, Fields
from manager.config.findings import ConfigFinding, join, shown
from manager.config.models import PART, check, faults_together
from manager.config.overlaps import compare_selectors
from manager.inputs.reading import LONGEST_ANNOTATION

_MOST_FINDINGS: Final = 100
_MOST_UNKNOWN_OF_A_NODE: Final = 10
_CACHED_TEXTS: Final = 4
"""Texts whose result is cached: the one in force comes again with each change of the ConfigMap's metadata."""
_INTERVAL_FIELDS: Final = frozenset({"metricReportIntervalSeconds", "degradeTimeMinutes"})
_DURATIONS: Final = Range(1, LONGEST_DURATION_SECONDS)


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """What came of one text."""

    config: ColocationConfig | None
    """The configuration; `None` when the text cannot be used."""
    errors: tuple[ConfigFinding, ...] = ()
    """Why it cannot be used."""
    entry_errors: tuple[ConfigFinding, ...] = ()
    """Why entries of `nodeConfigs` are disabled."""
    warnings: tuple[ConfigFinding, ...] = ()
    """What is ignored, or probably not meant."""
    hints: tuple[ConfigFinding, ...] = ()
    """What is worth a word while it is being edited, and no alarm: entries that some node may both match."""
    salvage: ColocationConfig | None = None
    """What is left of a text with faults when the faulty fields are taken away; `None` when nothing is."""


@dataclass(frozen=True, slots=True)
class ParsedStrategy:
    """What came of one strategy on its own, such as a node's annotation."""

    strategy: ColocationStrategy | None
    """The strategy; `None` when it cannot be used."""
    errors: tuple[ConfigFinding, ...] = ()
    """Why not."""
    warnings: tuple[ConfigFinding, ...] = ()
    """What is ignored, or probably not meant."""


@lru_cache(_CACHED_TEXTS)
def parse_config(text: str | None) -> ParsedConfig:
    """Validate the text of `colocation-config`; an absent or empty one means the defaults."""
    if not text:
        return ParsedConfig(ColocationConfig())
    budget = Budget()
    fields = Fields(budget)
    data, wrong = document(text)
    fields.errors += wrong
    if data is None:
        return ParsedConfig(None, tuple(wrong))
    listed: list[Any] = []

    def node_configs(value: Any, path: str) -> Any:  # noqa: ANN401
        if isinstance(value, list):
            listed.extend(value)
        else:
            fields.error(path, f"must be a list, got {shown(value)}")
        return MISSING

    clean = fields.read(ColocationConfig, data, "", {**_special(fields), "nodeConfigs": node_configs})
    before = len(fields.errors)
    _check_models(clean, "", fields, PREDICT_DEFAULTS.model)
    policy_holds = len(fields.errors) == before
    _check_report_interval(clean, "", fields, clean)
    entries, entry_errors = list[dict[str, Any]](), list[ConfigFinding]()
    for index, item in enumerate(listed):
        entry = Fields(budget)
        entries.append(_entry(item, join("nodeConfigs", index), entry, clean))
        entry_errors += entry.errors
        fields.warnings += entry.warnings
    competition = compare_selectors(entries)
    found = _bounded(entry_errors), _bounded([*fields.warnings, *competition.warnings]), competition.hints
    if fields.errors:
        # Numbers that are none may hide in free content, so such a document is of no use at all.
        rest = {name: value for name, value in clean.items() if name != PART or policy_holds}
        return ParsedConfig(None, _bounded(fields.errors), *found, salvage=None if wrong else _salvage(rest, listed))
    if entries:
        clean["nodeConfigs"] = entries
    return ParsedConfig(from_json(ColocationConfig, clean), (), *found)


def _salvage(clean: Mapping[str, Any], entries: Sequence[Any]) -> ColocationConfig | None:
    """What is left of a text, its entries validated against what is left of the cluster's part."""
    rest = {**clean, "nodeConfigs": entries} if entries else clean
    return parse_config(json.dumps(rest)).config if rest else None


def parse_strategy(text: str) -> ParsedStrategy:
    """Validate a strategy on its own; any fault refuses it as a whole."""
    if len(text) > LONGEST_ANNOTATION:
        return ParsedStrategy(
            None, (ConfigFinding("", f"longer than the {LONGEST_ANNOTATION} characters that are read"),)
        )
    fields = Fields(Budget(_MOST_UNKNOWN_OF_A_NODE))
    data, wrong = document(text)
    fields.errors += wrong
    clean = fields.read(ColocationStrategy, data, "", _special(fields)) if data is not None else {}
    _check_models(clean, "", fields, None)
    if fields.errors:
        return ParsedStrategy(None, _bounded(fields.errors), _bounded(fields.warnings))
    return ParsedStrategy(from_json(ColocationStrategy, clean), (), _bounded(fields.warnings))


def _check_models(clean: Mapping[str, Any], path: str, fields: Fields, inherited: str | None) -> None:
    policy = clean.get(PART)
    if isinstance(policy, Mapping):
        check(policy, join(path, PART), fields, inherited)


def _special(fields: Fields) -> dict[str, Any]:
    def aggregate_policy(value: Any, path: str) -> Any:  # noqa: ANN401
        return fields.read(MetricAggregatePolicy, value, path, {"durations": durations})

    def durations(value: Any, path: str) -> Any:  # noqa: ANN401
        if not isinstance(value, list):
            fields.error(path, f"must be a list of durations such as 5m, got {shown(value)}")
            return MISSING
        if len(value) > MOST_DURATIONS:
            fields.error(path, f"must list at most {MOST_DURATIONS} durations, got {len(value)}")
            return MISSING
        read = [_duration(item, join(path, index), fields) for index, item in enumerate(value)]
        return [text for text in read if text is not None] or MISSING  # an empty list keeps the default

    def predict_policy(value: Any, path: str) -> Any:  # noqa: ANN401
        return fields.read(PredictPolicy, value, path, {})

    return {"metricAggregatePolicy": aggregate_policy, "nodePredictPolicy": predict_policy}


def _duration(item: Any, path: str, fields: Fields) -> str | None:  # noqa: ANN401
    try:
        seconds = parse_duration(item) if isinstance(item, str) else None
    except DurationError as error:
        fields.error(path, str(error))
        return None
    if seconds is None or seconds <= 0:
        fields.error(path, f"must be a positive duration such as 5m, got {shown(item)}")
        return None
    if not _DURATIONS.allows(seconds):
        fields.error(path, f"must be a duration from 1s to 168h, got {shown(item)}")
        return None
    return format_duration(seconds)


def _entry(item: Any, path: str, fields: Fields, cluster: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """One entry of `nodeConfigs`; a disabled one keeps its place and matches no node."""

    def node_selector(value: Any, where: str) -> Any:  # noqa: ANN401
        wrong = selector.faults(value, where)
        fields.errors += wrong
        return MISSING if wrong else dict(value)

    clean = fields.read(NodeStrategy, item, path, {**_special(fields), "nodeSelector": node_selector})
    _check_models(clean, path, fields, (cluster.get(PART) or {}).get("model") or PREDICT_DEFAULTS.model)
    if PART in clean and not fields.errors:
        _check_together(clean[PART], cluster.get(PART) or {}, path, fields)
    _check_report_interval({**cluster, **clean}, path, fields, clean)
    _check_limit(clean, cluster, path, fields)
    if fields.errors:
        return {"name": clean["name"]} if "name" in clean else {}
    if "nodeSelector" not in clean:
        fields.warn(path, "has no nodeSelector: it matches no node")
    return clean


def _check_together(entry: Mapping[str, Any], cluster: Mapping[str, Any], path: str, fields: Fields) -> None:
    """What is wrong with an entry's prediction policy only together with the cluster's below it."""
    layers = MergedFields()
    for layer in (to_json(PREDICT_DEFAULTS), cluster):
        layers.merge({PART: layer}, "")
    of_the_cluster = set(faults_together(layers.values[PART]))
    layers.merge({PART: entry}, "")
    fields.errors += [
        ConfigFinding(join(path, each.path), f"together with the cluster's part: {each.message}")
        for each in faults_together(layers.values[PART])
        if each not in of_the_cluster
    ]


def _check_limit(entry: Mapping[str, Any], cluster: Mapping[str, Any], path: str, fields: Fields) -> None:
    """What the whole cluster may evict is the cluster's part alone to raise."""
    own = (entry.get("midEviction") or {}).get("maxPerMinute")
    stated = (cluster.get("midEviction") or {}).get("maxPerMinute")
    most = getattr(DEFAULTS.mid_eviction, "max_per_minute", None) if stated is None else stated
    if own is not None and most is not None and own > most:
        where = join(join(path, "midEviction"), "maxPerMinute")
        fields.warn(where, f"is of the whole cluster: the cluster's part allows {most}, and that applies")


def _check_report_interval(effective: Mapping[str, Any], path: str, fields: Fields, own: Mapping[str, Any]) -> None:
    """Reports that come more seldom than they expire make Mid come and go."""
    if not _INTERVAL_FIELDS & own.keys():
        return
    interval = effective.get("metricReportIntervalSeconds", DEFAULTS.metric_report_interval_seconds)
    minutes = effective.get("degradeTimeMinutes", DEFAULTS.degrade_time_minutes)
    if interval >= minutes * 60:
        fields.warn(
            path,
            f"reports come every {interval} s (metricReportIntervalSeconds) but expire after {minutes * 60} s "
            "(degradeTimeMinutes): Mid would come and go",
        )


def _bounded(findings: Sequence[ConfigFinding]) -> tuple[ConfigFinding, ...]:
    """The first ones, and how many there are more."""
    rest = len(findings) - _MOST_FINDINGS
    return tuple(findings) if rest <= 0 else (*findings[:_MOST_FINDINGS], ConfigFinding("", f"and {rest} more"))
