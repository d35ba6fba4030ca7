"""The effect of another configuration: the changed nodes, and the old and new values with their sources."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final, NamedTuple

from crds.codec import to_json
from crds.colocation import ColocationConfig
from manager.config.merge import EffectiveStrategy, effective_strategy

_MOST_KNOWN: Final = 512
"""The number of strategy pairs with cached differences: nodes that all differ would take a gigabyte."""


class NodeMetadata(NamedTuple):
    """Return the parts of a Node that decide about its strategy."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that changes, such as `nodePredictPolicy.model`: values as JSON, and the layers they come from."""

    path: str
    old: Any  # `None` for no value
    old_source: str
    new: Any
    new_source: str


@dataclass(frozen=True, slots=True)
class Change:
    """Nodes, sorted by name, with the same change of their strategy."""

    nodes: tuple[str, ...]
    fields: tuple[FieldChange, ...]


def node_metadata(node: Mapping[str, Any]) -> NodeMetadata:
    metadata = node.get("metadata") or {}
    return NodeMetadata(str(metadata.get("name", "")), metadata.get("labels") or {}, metadata.get("annotations") or {})


def compare(before: ColocationConfig, after: ColocationConfig, nodes: Iterable[NodeMetadata]) -> tuple[Change, ...]:
    return changes(differences(before, after, nodes))


def differences(
    before: ColocationConfig, after: ColocationConfig, nodes: Iterable[NodeMetadata]
) -> Iterator[tuple[str, tuple[FieldChange, ...]]]:
    """Yield how the strategy of each node changes, one node after the other, so that the caller can pause in between.

    Equal nodes share the strategies before and after, and so their differences: an equal pair is the
    same object.
    """
    cache: dict[tuple[int, int], tuple[EffectiveStrategy, EffectiveStrategy, tuple[FieldChange, ...]]] = {}
    same: dict[str, tuple[FieldChange, ...]] = {}
    for name, labels, annotations in nodes:
        old, new = effective_strategy(before, labels, annotations), effective_strategy(after, labels, annotations)
        pair = id(old), id(new)
        if pair not in cache:
            fields = _differences(old, new)
            if len(cache) >= _MOST_KNOWN:
                cache.clear()
            cache[pair] = old, new, same.setdefault(json.dumps([astuple(field) for field in fields]), fields)
        yield name, cache[pair][-1]


def changes(found: Iterable[tuple[str, tuple[FieldChange, ...]]]) -> tuple[Change, ...]:
    """Return the result of `differences`: nodes by change, the largest group first."""
    alike: dict[int, tuple[tuple[FieldChange, ...], list[str]]] = {}
    for name, fields in found:
        if fields:
            alike.setdefault(id(fields), (fields, []))[1].append(name)
    made = [Change(tuple(sorted(members)), fields) for fields, members in alike.values()]
    return tuple(sorted(made, key=lambda change: (-len(change.nodes), change.nodes)))


def _differences(old: EffectiveStrategy, new: EffectiveStrategy) -> tuple[FieldChange, ...]:
    old_values, new_values = to_json(old.strategy), to_json(new.strategy)
    result = []
    for path in sorted({*old.sources, *new.sources}):
        was, becomes = _at(old_values, path), _at(new_values, path)
        if was != becomes:
            result.append(FieldChange(path, was, old.sources.get(path, ""), becomes, new.sources.get(path, "")))
    return tuple(result)


def _at(values: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    for name in path.split("."):
        values = values.get(name) if isinstance(values, Mapping) else None
    return values
