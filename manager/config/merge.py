"""The strategy of one node, and where each of its values comes from.

Built-in default < cluster < first matching `nodeConfigs` entry < node annotation < node ratio labels. A node's own
layers may also enable what the cluster's part disables.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final, NamedTuple

from crds import names
from crds.codec import from_json, to_json
from crds.colocation import DEFAULTS, ColocationConfig, ColocationStrategy
from crds.predict_policy import DEFAULTS as PREDICT_DEFAULTS
from crds.predict_policy import PredictPolicy, with_defaults
from manager.config.field_merge import MergedFields
from manager.config.findings import ConfigFinding, entry_name, join, shown
from manager.config.matching import PerConfigCache, matching_entries
from manager.config.models import PART, faults_together
from manager.config.parse import parse_strategy
from manager.inputs.reading import LONGEST_ANNOTATION

_PLAIN: Final = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]{1,3})?")
EVICTION: Final = "midEviction"
PER_CLUSTER: Final = "maxPerMinute"
_LIMITS: Final = (PER_CLUSTER, "maxPerNodePerMinute")
_MOST_VIEWS: Final = 512
"""Strategies that are kept of one configuration; as long as annotations may be, that is some megabytes at most."""
DEFAULT: Final = "default"
CLUSTER: Final = "cluster"

RATIO_LABELS: Final[Mapping[str, str]] = {
    names.LABEL_CPU_RECLAIM_RATIO: "cpuReclaimThresholdPercent",
    names.LABEL_MEMORY_RECLAIM_RATIO: "memoryReclaimThresholdPercent",
    names.LABEL_MID_STATIC_CPU_RATIO: "midStaticCPUReservedPercent",
    names.LABEL_MID_STATIC_MEMORY_RATIO: "midStaticMemoryReservedPercent",
}
"""Node label with a ratio -> the field whose percentage it sets."""


@dataclass(frozen=True, slots=True)
class EffectiveStrategy:
    """The strategy in force on one node."""

    strategy: ColocationStrategy
    """Complete: built-in defaults included."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Field (such as `midPolicy`, `nodePredictPolicy.model`) -> the layer its value comes from."""
    findings: tuple[ConfigFinding, ...] = ()
    """What is ignored of the node's own annotation and labels because it is invalid, or is odd about them."""
    overlaps: tuple[ConfigFinding, ...] = ()
    """Entries that match the node too, and do not apply to it."""


_BELOW_ALL: Final[Mapping[str, Any]] = {**to_json(DEFAULTS), "nodePredictPolicy": to_json(PREDICT_DEFAULTS)}
_NOT_A_STRATEGY: Final = frozenset({"nodeConfigs", "name", "nodeSelector"})


def _strategy_fields(layer: ColocationStrategy) -> dict[str, Any]:
    return {name: value for name, value in to_json(layer).items() if name not in _NOT_A_STRATEGY}


def effective_strategy(
    config: ColocationConfig,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    above: tuple[str, ColocationStrategy] | None = None,
) -> EffectiveStrategy:
    """The strategy of a node with these labels and annotations.

    An annotation or label with any fault is ignored as a whole, and a finding says so.

    Args:
        config: the configuration in force.
        labels: the node's labels.
        annotations: its annotations.
        above: a layer over all others to try, and its name in `sources`.
    """
    labels, text = labels or {}, (annotations or {}).get(names.ANNOTATION_COLOCATION_STRATEGY) or ""
    ratios = tuple(labels.get(label) for label in RATIO_LABELS)
    own = _Own(text[: LONGEST_ANNOTATION + 1], ratios)
    views = _VIEWS.of(config)
    matching = matching_entries(config, labels)
    return views.effective(matching, own) if above is None else views.make(matching, own, above)


class _Own(NamedTuple):
    """A node's own settings of its strategy."""

    annotation: str
    """The annotation; empty without one."""
    ratios: tuple[str | None, ...]
    """Its labels with ratios, in the order of `RATIO_LABELS`."""


class _Views:
    """The strategies that one configuration comes to; nodes that are alike share theirs."""

    def __init__(self, config: ColocationConfig) -> None:
        self._config = config
        self._entries = config.node_configs or ()
        self._below = MergedFields()
        self._below.merge(_BELOW_ALL, DEFAULT)
        self._below.merge(_strategy_fields(replace(config, node_configs=None)), CLUSTER)
        self._with_entry: dict[int, MergedFields] = {}
        self.effective = lru_cache(_MOST_VIEWS)(self.make)

    def make(
        self, matching: tuple[int, ...], own: _Own, above: tuple[str, ColocationStrategy] | None = None
    ) -> EffectiveStrategy:
        """The strategy of a node that these entries match."""
        layers, findings = self._base(matching[:1]), list[ConfigFinding]()
        if own.annotation:
            findings += _merge_annotation(layers, own.annotation)
        for (label, name), ratio in zip(RATIO_LABELS.items(), own.ratios, strict=True):
            if ratio is None:
                continue
            percent = percent_of_ratio(ratio)
            if percent is None:
                message = f"ignored: must be a ratio from 0 to 1, got {shown(ratio)}"
                findings.append(ConfigFinding(f"label {label}", message))
            else:
                layers.merge({name: percent}, f"label {label}")
        if above is not None:
            findings += _merge_checked(layers, _strategy_fields(above[1]), above[0])
        strategy = from_json(ColocationStrategy, layers.values)
        policy = with_defaults(strategy.node_predict_policy)
        sources = {**layers.sources, **dict.fromkeys(_margins(policy) - layers.sources.keys(), DEFAULT)}
        complete = replace(strategy, node_predict_policy=policy)
        return EffectiveStrategy(complete, sources, tuple(findings), self._overlaps(matching))

    def _base(self, first: tuple[int, ...]) -> MergedFields:
        """What a node without a word of its own obeys, to lay more upon."""
        base = self._below
        for index in first:
            if index not in self._with_entry:
                layers = base.copy()
                layer = _strategy_fields(self._entries[index])
                _lower_only(layer, layers, [PER_CLUSTER])
                layers.merge(layer, self._called(index))
                self._with_entry[index] = layers
            base = self._with_entry[index]
        return base.copy()

    def _called(self, index: int) -> str:
        return entry_name(index, self._entries[index].name)

    def _overlaps(self, matching: tuple[int, ...]) -> tuple[ConfigFinding, ...]:
        return tuple(
            ConfigFinding(self._called(index), f"matches too, but {self._called(matching[0])} comes first")
            for index in matching[1:]
        )


_VIEWS: Final = PerConfigCache(_Views)


def _merge_annotation(layers: MergedFields, text: str) -> list[ConfigFinding]:
    source, parsed = f"annotation {names.ANNOTATION_COLOCATION_STRATEGY}", parse_strategy(text)
    findings = [ConfigFinding(source, f"ignored: {each}") for each in parsed.errors]
    findings += [ConfigFinding(source, str(each)) for each in parsed.warnings]
    if parsed.strategy is not None:
        layer = _strategy_fields(parsed.strategy)
        raised = _lower_only(layer, layers, _LIMITS)
        findings += [ConfigFinding(source, f"{join(EVICTION, each)} may only be lowered by a node") for each in raised]
        findings += _merge_checked(layers, layer, source)
    return findings


def _lower_only(layer: dict[str, Any], below: MergedFields, limits: Iterable[str]) -> list[str]:
    """Cut limits of evictions that a layer raises, and return them: they apply beyond the layer's nodes."""
    own, stated = layer.get(EVICTION) or {}, below.values[EVICTION]
    raised = [name for name in limits if own.get(name) is not None and own[name] > stated[name]]
    if raised:
        layer[EVICTION] = {**own, **{name: stated[name] for name in raised}}
    return raised


def _margins(policy: PredictPolicy) -> set[str]:
    """The fields with a margin: a model's default is known only after all layers are merged."""
    parts = {PART: policy, f"{PART}.cpu": policy.cpu, f"{PART}.memory": policy.memory}
    return {
        join(path, "safetyMarginPercent")
        for path, part in parts.items()
        if part is not None and part.safety_margin_percent is not None
    }


def _merge_checked(layers: MergedFields, layer: Mapping[str, Any], source: str) -> list[ConfigFinding]:
    """Merge a layer, unless its models conflict with those below it; then return the findings."""
    if PART in layer:
        tried = MergedFields({PART: layers.values[PART]})
        tried.merge({PART: layer[PART]}, source)
        wrong = list(faults_together(tried.values[PART]))
        if wrong:
            return [ConfigFinding(source, f"ignored: {each}") for each in wrong]
    layers.merge(layer, source)
    return []


def percent_of_ratio(text: str) -> int | None:
    """A label's ratio as a whole percentage, rounded half up: "0.29" -> 29; `None` when it is not from 0 to 1."""
    if not _PLAIN.fullmatch(text):  # Python accepts more spellings of numbers
        return None
    try:
        ratio = Decimal(text)
    except InvalidOperation:
        return None
    if not ratio.is_finite() or not 0 <= ratio <= 1:
        return None
    return int((ratio * 100).to_integral_value(ROUND_HALF_UP))
