"""The NodeMetric as the API server has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from crds.codec import CodecError, from_json
from crds.meta import Condition
from crds.names import CONDITION_COLLECTING, CONDITION_PREDICTION_READY

Json = dict[str, Any]
_OUR_CONDITIONS: Final = (CONDITION_COLLECTING, CONDITION_PREDICTION_READY)


@dataclass(slots=True)
class RemoteNodeMetric:
    """The object as last seen. Whatever stands in it, reading it does not fail."""

    object: Json = field(default_factory=dict)
    """All of it; empty while it was not seen."""

    @property
    def known(self) -> bool:
        """Whether it was seen."""
        return bool(self.object)

    @property
    def spec(self) -> Json:
        """The requested spec."""
        return _mapping(self.object.get("spec"))

    @property
    def status(self) -> Json:
        """What was reported."""
        return _mapping(self.object.get("status"))

    @property
    def version(self) -> str | None:
        """Version of the object as a whole."""
        found = _mapping(self.object.get("metadata")).get("resourceVersion")
        return found if isinstance(found, str) else None

    @property
    def generation(self) -> int | None:
        """Version of the spec."""
        found = _mapping(self.object.get("metadata")).get("generation")
        return found if isinstance(found, int) else None

    @property
    def identity(self) -> Json:
        """Which object it is, with which spec."""
        metadata = _mapping(self.object.get("metadata"))
        return {key: metadata.get(key) for key in ("uid", "generation")}

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions that can be read."""
        found = []
        for one in self._conditions():
            try:
                found.append(from_json(Condition, one))
            except CodecError:
                continue  # written by another program, and replaced by this report
        return tuple(found)

    def update(self, node_metric: Json) -> bool:
        """Remember the object. Whether it took another one's place: it was deleted and made again."""
        before = _mapping(self.object.get("metadata")).get("uid")
        replaced = self.known and before != _mapping(node_metric.get("metadata")).get("uid")
        self.object = node_metric
        return replaced

    def is_current(self, metadata: Mapping[str, Any]) -> bool:
        """Whether an object with this metadata is this one, with this spec."""
        return all(metadata.get(key) == value for key, value in self.identity.items())

    def with_foreign_conditions(self, status: Mapping[str, Any]) -> Json:
        """Our status with the conditions that other programs wrote."""
        others = [one for one in self._conditions() if one.get("type") not in _OUR_CONDITIONS]
        return {**status, "conditions": others + list(status.get("conditions") or ())}

    def has_conditions(self, wanted: Sequence[Mapping[str, Any]]) -> bool:
        """Whether these are the conditions that stand there, in whatever order."""
        stored = self.status.get("conditions")
        if not isinstance(stored, list) or len(stored) != len(wanted):
            return False
        return all(each in stored for each in wanted)

    def _conditions(self) -> list[Json]:
        stored = self.status.get("conditions")
        return [one for one in stored if isinstance(one, dict)] if isinstance(stored, list) else []


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}
