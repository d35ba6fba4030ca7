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
        "hotNodes",
        "nodePredictPolicy",
        "nodePredictPolicy.cpu",
        "nodePredictPolicy.memory",
    }
)
# A model's arguments belong to it: a layer that names another model starts without them.
_OF_MODEL: Final = ("parameters", "of")


@dataclass(slots=True)
class Layers:
    """Merged strategy and the source of each field."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def copy(self) -> "Layers":
        return Layers(dict(self.values), dict(self.sources))

    def merge(self, layer: Mapping[str, Any], source: str) -> None:
        self._merge(self.values, layer, source, "")

    def _merge(self, below: dict[str, Any], layer: Mapping[str, Any], source: str, path: str) -> None:
        if "model" in layer and layer["model"] != below.get("model"):
            for name in _OF_MODEL:
                below.pop(name, None)
                self.sources.pop(join(path, name), None)
        for name, value in layer.items():
            where = join(path, name)
            if where in _NESTED and isinstance(value, Mapping):
                below[name] = dict(below.get(name) or {})
                self._merge(below[name], value, source, where)
            else:
                below[name], self.sources[where] = value, source
