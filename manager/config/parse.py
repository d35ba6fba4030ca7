"""Key `colocation-config` of the ConfigMap: strict, with one sentence for each bad field, all at once.

A fault in the cluster's part refuses the whole text (the last good one stays in force); a fault in an entry of
`nodeConfigs` disables that entry alone. An unknown name that resembles a known one is a fault, any other a warning.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from crds.codec import from_json, to_json
from crds.colocation import CLUSTER_LIMITS, DEFAULTS, ColocationConfig, ColocationStrategy, NodeStrategy
from crds.names import CONFIG_MAP_KEY
from crds.predict_policy import DEFAULTS as PREDICT_DEFAULTS
from manager.config.document import document
from manager.config.fields import Fields
from manager.config.findings import ConfigFinding, join, resembling
from manager.config.layers import Layers
from manager.config.models import PART, check, faults_together
from manager.inputs.reading import LONGEST_ANNOTATION

NO_KEY: Final = ConfigFinding(
    CONFIG_MAP_KEY, "the ConfigMap has no such key: the defaults apply, and colocation is disabled"
)
"""The warning about a ConfigMap without the key."""
_MOST_FINDINGS: Final = 100
_MOST_UNKNOWN_OF_A_NODE: Final = 10
_CACHED_TEXTS: Final = 4  # the one in force comes again with each change of the ConfigMap's metadata
_DEFAULT_FIELDS: Final = to_json(DEFAULTS)
_INTERVAL_FIELDS: Final = frozenset({"metricReportIntervalSeconds", "degradeTimeMinutes"})


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """The result of parsing a text."""

    config: ColocationConfig | None  # the configuration; `None` when the text cannot be used
    errors: tuple[ConfigFinding, ...] = ()
    entry_errors: tuple[ConfigFinding, ...] = ()  # why entries of `nodeConfigs` are disabled
    warnings: tuple[ConfigFinding, ...] = ()  # ignored or suspicious fields
    hints: tuple[ConfigFinding, ...] = ()
    """Hints for the editor that need no alarm: entries without a name."""


@dataclass(frozen=True, slots=True)
class ParsedStrategy:
    """The result of parsing a strategy alone, such as a node's annotation: errors and warnings."""

    strategy: ColocationStrategy | None
    errors: tuple[ConfigFinding, ...] = ()
    warnings: tuple[ConfigFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Review:
    """The findings about a text that is about to be stored: the resulting config, errors and warnings."""

    config: ColocationConfig | None
    errors: tuple[ConfigFinding, ...] = ()
    entry_errors: tuple[ConfigFinding, ...] = ()
    warnings: tuple[ConfigFinding, ...] = ()
    unchanged: bool = False  # whether the text is the one that was there before

    def refusals(self) -> tuple[ConfigFinding, ...]:
        """Return the errors for which admission rejects the text; none for an unchanged one: labels stay editable."""
        return () if self.unchanged else (*self.errors, *self.entry_errors)


def review(text: str | None, before: str | None = None, keys: Iterable[str] = ()) -> Review:
    """Validate a text that is about to be stored, for the admission webhook and `kubectl headroom`.

    Args:
        text: value of key `colocation-config`; `None` when the ConfigMap has no such key.
        before: the value that it replaces; `None` when there was none.
        keys: the keys of the ConfigMap.
    """
    parsed = parse_config(text)
    warnings = (*((NO_KEY,) if text is None else (*parsed.warnings, *parsed.hints)), *misspelt_keys(keys))
    unchanged = text is not None and text == before
    return Review(parsed.config, parsed.errors, parsed.entry_errors, warnings, unchanged)


def misspelt_keys(keys: Iterable[str]) -> tuple[ConfigFinding, ...]:
    """Warn about keys of a ConfigMap that resemble `colocation-config`; Koordinator's other keys pass."""
    message = f"no such key, its text is not read: rename the key to {CONFIG_MAP_KEY}, or remove it"
    return tuple(ConfigFinding(join("data", key), message) for key in resembling(CONFIG_MAP_KEY, keys))


@lru_cache(_CACHED_TEXTS)
def parse_config(text: str | None) -> ParsedConfig:
    """Validate the text of `colocation-config`; an absent or empty one means the defaults."""
    if not text:
        return ParsedConfig(ColocationConfig())
    data, wrong = document(text)
    if data is None:
        return ParsedConfig(None, tuple(wrong))
    fields = Fields(errors=list(wrong))
    clean = fields.read(ColocationConfig, data, "")
    listed = clean.pop("nodeConfigs", [])
    _check_models(clean, "", fields, PREDICT_DEFAULTS.model)
    _check_report_interval(clean, "", fields, clean)
    entries, entry_errors = list[dict[str, Any]](), list[ConfigFinding]()
    for index, item in enumerate(listed):
        entry = Fields(fields.unknown)
        entries.append(_entry(item, join("nodeConfigs", index), entry, clean))
        entry_errors += entry.errors
        fields.warnings += entry.warnings
    warnings = _bounded([*fields.warnings, *_same_names(entries)])
    result = _bounded(entry_errors), warnings, _bounded([*_missing_names(entries)])
    if fields.errors:
        return ParsedConfig(None, _bounded(fields.errors), *result)
    if entries:
        clean["nodeConfigs"] = entries
    return ParsedConfig(from_json(ColocationConfig, clean), (), *result)


def _same_names(entries: Sequence[Mapping[str, Any]]) -> Iterator[ConfigFinding]:
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        name = entry.get("name")
        if name and first.setdefault(name, index) != index:
            message = f"nodeConfigs[{first[name]}] has the same name: give each its own, so that messages are clear"
            yield ConfigFinding(join(join("nodeConfigs", index), "name"), message)


def _missing_names(entries: Sequence[Mapping[str, Any]]) -> Iterator[ConfigFinding]:
    for index, entry in enumerate(entries):
        if entry and not entry.get("name"):
            message = "has no name: give it one, so that events and explain can name it"
            yield ConfigFinding(join("nodeConfigs", index), message)


def parse_strategy(text: str) -> ParsedStrategy:
    """Validate a strategy on its own; any fault refuses it as a whole."""
    if len(text) > LONGEST_ANNOTATION:
        message = f"longer than the {LONGEST_ANNOTATION} characters that are read"
        return ParsedStrategy(None, (ConfigFinding("", message),))
    data, wrong = document(text)
    fields = Fields([_MOST_UNKNOWN_OF_A_NODE], list(wrong))
    clean = fields.read(ColocationStrategy, data, "") if data is not None else {}
    _check_models(clean, "", fields, None)
    strategy = None if fields.errors else from_json(ColocationStrategy, clean)
    return ParsedStrategy(strategy, _bounded(fields.errors), _bounded(fields.warnings))


def _check_models(clean: Mapping[str, Any], path: str, fields: Fields, inherited: str | None) -> None:
    policy = clean.get(PART)
    if isinstance(policy, Mapping):
        check(policy, join(path, PART), fields, inherited)


def _entry(item: Any, path: str, fields: Fields, cluster: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """An entry of `nodeConfigs`; a disabled one keeps its place and matches no node."""
    clean = fields.read(NodeStrategy, item, path)
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
    """Return faults of an entry's prediction policy that appear only together with the cluster's."""
    layers = Layers()
    for layer in (to_json(PREDICT_DEFAULTS), cluster):
        layers.merge({PART: layer}, "")
    of_the_cluster = set(faults_together(layers.values[PART]))
    layers.merge({PART: entry}, "")
    for fault in faults_together(layers.values[PART]):
        if fault not in of_the_cluster:
            fields.error(join(path, fault.path), f"together with the cluster's part: {fault.message}")


def _check_limit(entry: Mapping[str, Any], cluster: Mapping[str, Any], path: str, fields: Fields) -> None:
    """Warn about limits of the whole cluster in an entry: only the cluster's part may raise them."""
    for part, limits in CLUSTER_LIMITS.items():
        own, stated = entry.get(part) or {}, {**_DEFAULT_FIELDS[part], **(cluster.get(part) or {})}
        for name in limits:
            if own.get(name, stated[name]) > stated[name]:
                message = f"is of the whole cluster: the cluster's part allows {stated[name]}, and that applies"
                fields.warn(join(join(path, part), name), message)


def _check_report_interval(effective: Mapping[str, Any], path: str, fields: Fields, own: Mapping[str, Any]) -> None:
    """Reports that come more seldom than they expire make Mid come and go."""
    interval = effective.get("metricReportIntervalSeconds", DEFAULTS.metric_report_interval_seconds)
    seconds = effective.get("degradeTimeMinutes", DEFAULTS.degrade_time_minutes) * 60
    if _INTERVAL_FIELDS & own.keys() and interval >= seconds:
        fields.warn(
            path,
            f"reports come every {interval} s (metricReportIntervalSeconds) but expire after {seconds} s "
            "(degradeTimeMinutes): Mid would come and go",
        )


def _bounded(findings: Sequence[ConfigFinding]) -> tuple[ConfigFinding, ...]:
    rest = len(findings) - _MOST_FINDINGS
    return tuple(findings) if rest <= 0 else (*findings[:_MOST_FINDINGS], ConfigFinding("", f"and {rest} more"))
