"""Laying one strategy over another, field by field, remembering where each value comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from manager.config.findings import join

# These have parts of their own, which are overlaid one by one; everything else is taken whole.
_NESTED: Final = frozenset(
    {
        "metricAggregatePolicy",
        "midEviction",
        "nodePredictPolicy",
        "nodePredictPolicy.cpu",
        "nodePredictPolicy.memory",
    }
)
# A model's arguments belong to it: a layer that names another model starts without them.
_OF_MODEL: Final = ("parameters", "of")


@dataclass(slots=True)
class MergedFields:
    """What came of the layers so far."""

    values: dict[str, Any] = field(default_factory=dict)
    """JSON fields of the strategy."""
    sources: dict[str, str] = field(default_factory=dict)
    """Field -> the layer its value comes from."""

    def copy(self) -> "MergedFields":
        """The same, to lay more upon: nothing that is laid changes what was laid before."""
        return MergedFields(dict(self.values), dict(self.sources))

    def merge(self, layer: Mapping[str, Any], source: str) -> None:
        """Put a layer on top; what it leaves out stays as it was."""
        _overlay(self.values, layer, source, "", self.sources)


def _overlay(below: dict[str, Any], layer: Mapping[str, Any], source: str, path: str, sources: dict[str, str]) -> None:
    if "model" in layer and layer["model"] != below.get("model"):
        for name in _OF_MODEL:
            below.pop(name, None)
            sources.pop(join(path, name), None)
    for name, value in layer.items():
        where = join(path, name)
        if where in _NESTED and isinstance(value, Mapping):
            part = dict(below.get(name) or {})
            _overlay(part, value, source, where, sources)
            below[name] = part
        else:
            below[name] = value
            sources[where] = source
