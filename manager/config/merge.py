"""The strategy of one node, and where each of its values comes from.

Built-in default < cluster < first matching `nodeConfigs` entry < node annotation < node ratio labels. A node's own
layers may also enable what the cluster's part disables.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

from crds import names
from crds.codec import from_json, to_json
from crds.colocation import CLUSTER_LIMITS, DEFAULTS, ColocationConfig, ColocationStrategy
from crds.predict_policy import DEFAULTS as PREDICT_DEFAULTS
from crds.predict_policy import with_defaults
from manager.config.findings import ConfigFinding, entry_name, join, shown
from manager.config.layers import Layers
from manager.config.matching import PerConfigCache, matching_entries
from manager.config.models import PART, faults_together
from manager.config.parse import parse_strategy
from manager.inputs.reading import LONGEST_ANNOTATION

DEFAULT: Final = "default"
CLUSTER: Final = "cluster"
_NODE_LIMITS: Final = {**CLUSTER_LIMITS, "midEviction": ("maxPerMinute", "maxPerNodePerMinute")}
_PLAIN: Final = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]{1,3})?")  # Python accepts more spellings of numbers
_MOST_VIEWS: Final = 512
"""Strategies that are kept of one configuration; as long as annotations may be, that is some megabytes at most."""

RATIO_LABELS: Final[Mapping[str, str]] = {
    names.LABEL_CPU_RECLAIM_RATIO: "cpuReclaimThresholdPercent",
    names.LABEL_MEMORY_RECLAIM_RATIO: "memoryReclaimThresholdPercent",
    names.LABEL_MID_STATIC_CPU_RATIO: "midStaticCPUReservedPercent",
    names.LABEL_MID_STATIC_MEMORY_RATIO: "midStaticMemoryReservedPercent",
}
"""Node label with a ratio -> the field of its percentage."""

_DEFAULT_LAYER: Final[Mapping[str, Any]] = {**to_json(DEFAULTS), PART: to_json(PREDICT_DEFAULTS)}
_NOT_A_STRATEGY: Final = frozenset({"nodeConfigs", "name", "nodeSelector"})


@dataclass(frozen=True, slots=True)
class EffectiveStrategy:
    """The strategy in force on one node."""

    strategy: ColocationStrategy  # complete: built-in defaults included
    sources: Mapping[str, str] = field(default_factory=dict)
    """Field (such as `midPolicy`, `nodePredictPolicy.model`) -> the layer its value comes from."""
    findings: tuple[ConfigFinding, ...] = ()
    """Ignored or suspicious settings in the node's annotation and labels."""
    overlaps: tuple[ConfigFinding, ...] = ()  # entries that match the node too, and do not apply to it


def effective_strategy(
    config: ColocationConfig,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    above: tuple[str, ColocationStrategy] | None = None,
) -> EffectiveStrategy:
    """The strategy of a node with these labels and annotations.

    An annotation or label with any fault is ignored as a whole, and reported as a finding.

    Args:
        config: the configuration in force.
        labels: the node's labels.
        annotations: its annotations.
        above: a layer over all others to try, and its name in `sources`.
    """
    labels, text = labels or {}, (annotations or {}).get(names.ANNOTATION_COLOCATION_STRATEGY) or ""
    ratios = tuple(labels.get(label) for label in RATIO_LABELS)
    views, matching, text = _VIEWS.of(config), matching_entries(config, labels), text[: LONGEST_ANNOTATION + 1]
    make = views.effective if above is None else views.make
    return make(matching, text, ratios, above)


class _Views:
    """The strategies of one configuration; equal nodes share theirs."""

    def __init__(self, config: ColocationConfig) -> None:
        self._entries = config.node_configs or ()
        self._below = Layers()
        self._below.merge(_DEFAULT_LAYER, DEFAULT)
        self._below.merge(_strategy_fields(config), CLUSTER)
        self._with_entry: dict[int, Layers] = {}
        self.effective = lru_cache(_MOST_VIEWS)(self.make)

    def make(
        self,
        matching: tuple[int, ...],
        annotation: str,
        ratios: tuple[str | None, ...],
        above: tuple[str, ColocationStrategy] | None,
    ) -> EffectiveStrategy:
        """The strategy of a node that these entries match, with its annotation and the values of `RATIO_LABELS`."""
        layers = self._base(matching[0] if matching else None)
        findings = _merge_annotation(layers, annotation) if annotation else []
        for (label, name), ratio in zip(RATIO_LABELS.items(), ratios, strict=True):
            percent = percent_of_ratio(ratio) if ratio is not None else None
            if percent is not None:
                layers.merge({name: percent}, f"label {label}")
            elif ratio is not None:
                message = f"ignored: must be a ratio from 0 to 1, got {shown(ratio)}"
                findings.append(ConfigFinding(f"label {label}", message))
        if above is not None:
            findings += _merge_checked(layers, _strategy_fields(above[1]), above[0])
        strategy = from_json(ColocationStrategy, layers.values)
        policy = with_defaults(strategy.node_predict_policy)
        # A margin that is stated nowhere is that of the model, which is known only after all layers are merged.
        parts = {PART: policy, f"{PART}.cpu": policy.cpu, f"{PART}.memory": policy.memory}
        for path, part in parts.items():
            if part is not None and part.safety_margin_percent is not None:
                layers.sources.setdefault(join(path, "safetyMarginPercent"), DEFAULT)
        overlaps = tuple(
            ConfigFinding(self._called(index), f"matches too, but {self._called(matching[0])} comes first")
            for index in matching[1:]
        )
        complete = replace(strategy, node_predict_policy=policy)
        return EffectiveStrategy(complete, layers.sources, tuple(findings), overlaps)

    def _base(self, entry: int | None) -> Layers:
        """The strategy of a node without settings of its own, to lay more upon."""
        if entry is None:
            return self._below.copy()
        if entry not in self._with_entry:
            layers, layer = self._below.copy(), _strategy_fields(self._entries[entry])
            _lower_only(layer, layers, CLUSTER_LIMITS)
            layers.merge(layer, self._called(entry))
            self._with_entry[entry] = layers
        return self._with_entry[entry].copy()

    def _called(self, index: int) -> str:
        return entry_name(index, self._entries[index].name)


_VIEWS: Final = PerConfigCache(_Views)


def _strategy_fields(layer: ColocationStrategy) -> dict[str, Any]:
    if isinstance(layer, ColocationConfig):
        layer = replace(layer, node_configs=None)  # hundreds of entries would be converted for nothing
    return {name: value for name, value in to_json(layer).items() if name not in _NOT_A_STRATEGY}


def _merge_annotation(layers: Layers, text: str) -> list[ConfigFinding]:
    source, parsed = f"annotation {names.ANNOTATION_COLOCATION_STRATEGY}", parse_strategy(text)
    messages = [*(f"ignored: {error}" for error in parsed.errors), *map(str, parsed.warnings)]
    findings = [ConfigFinding(source, message) for message in messages]
    if parsed.strategy is not None:
        layer = _strategy_fields(parsed.strategy)
        raised = _lower_only(layer, layers, _NODE_LIMITS)
        findings += [ConfigFinding(source, f"{path} may only be lowered by a node") for path in raised]
        findings += _merge_checked(layers, layer, source)
    return findings


def _lower_only(layer: dict[str, Any], below: Layers, limits: Mapping[str, Iterable[str]]) -> list[str]:
    """Cut limits that a layer raises, and return their paths: they apply beyond the layer's nodes."""
    paths = list[str]()
    for part, names_of_limits in limits.items():
        own, stated = layer.get(part) or {}, below.values[part]
        raised = {name: stated[name] for name in names_of_limits if own.get(name, stated[name]) > stated[name]}
        if raised:
            layer[part] = {**own, **raised}
            paths += [join(part, name) for name in raised]
    return paths


def _merge_checked(layers: Layers, layer: Mapping[str, Any], source: str) -> list[ConfigFinding]:
    """Merge a layer, unless its models conflict with those below it; then return the findings."""
    if PART in layer:
        tried = Layers({PART: layers.values[PART]})
        tried.merge({PART: layer[PART]}, source)
        if wrong := faults_together(tried.values[PART]):
            return [ConfigFinding(source, f"ignored: {fault}") for fault in wrong]
    layers.merge(layer, source)
    return []


def percent_of_ratio(text: str) -> int | None:
    """A label's ratio as a whole percentage, rounded half up: "0.29" -> 29; `None` when it is not from 0 to 1."""
    try:
        ratio = Decimal(text) if _PLAIN.fullmatch(text) else Decimal(-1)
    except InvalidOperation:
        return None
    return int((ratio * 100).to_integral_value(ROUND_HALF_UP)) if ratio.is_finite() and 0 <= ratio <= 1 else None
