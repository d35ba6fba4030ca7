"""Pieces that both formats of a profile are read with. Mistakes are collected, not raised."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler_plugins.arguments import ArgumentError, encode, nearest, shown
from scheduler_plugins.profile import registry

_NOTHING: Mapping[str, Any] = {}


@dataclass(slots=True)
class ValidationErrors:
    """The errors of a profile so far, and the ignored settings."""

    mistakes: list[str]  # one sentence each, with the path of the field and the way out
    notes: list[str]  # one sentence each; none of them keeps the extender from starting

    def unknown(self, data: Mapping[Any, Any], known: Collection[str], path: str) -> None:
        """Report every unknown name."""
        for name in data:
            if name not in known:
                self.mistakes.append(f"{path}{_name(name)}: unknown; {nearest(str(name), known)}")

    def as_object(self, data: object, path: str) -> Mapping[str, Any]:
        """The value as an object; empty where it is absent or something else."""
        if data is None:
            return _NOTHING
        if not isinstance(data, Mapping):
            self.mistakes.append(f"{path}: {shown(data)} is not an object")
            return _NOTHING
        return data

    def as_list(self, data: object, path: str) -> Sequence[Any]:
        """The value as a list; empty where it is absent or something else."""
        if data is None:
            return ()
        if not isinstance(data, list):
            self.mistakes.append(f"{path}: {shown(data)} is not a list")
            return ()
        return data

    def number(
        self,
        data: Mapping[str, Any],
        name: str,
        default: float,
        allowed: tuple[float, float],
        path: str,
        *,
        whole: bool = False,
    ) -> float:
        """A number of an object; the default where it is absent or wrong."""
        value = data.get(name)
        if value is None:
            return default
        low, high = allowed
        if type(value) not in ((int,) if whole else (int, float)) or not low <= value <= high:
            kind = "a whole number" if whole else "a number"
            self.mistakes.append(f"{path}{name}: {shown(value)}: must be {kind} from {low:g} to {high:g}")
            return default
        return float(value)

    def plugin(self, name: str, arguments: object, path: str) -> Any:  # noqa: ANN401 - a class that the registry knows
        """The plugin with these arguments; None where they do not fit."""
        try:
            return registry.build(name, {} if arguments is None else arguments, path)
        except ArgumentError as error:
            self.mistakes.extend(error.mistakes)
            return None

    def twice(self, name: str, plugins: Sequence[Any], path: str) -> None:
        """Reject a plugin that is listed more than once, and name the differences."""
        encoded = [encode(plugin) for plugin in plugins if plugin is not None]
        differing = {
            key: [mapping.get(key) for mapping in encoded]
            for key in (encoded[0] if encoded else {})
            if any(mapping.get(key) != encoded[0].get(key) for mapping in encoded)
        }
        how = ", ".join(f"{key} {' and '.join(map(str, values))}" for key, values in differing.items())
        with_ = f" with {how}" if how else ""
        self.mistakes.append(f"{path}: {name} is listed twice{with_}: it has one set of arguments, so leave one")


def _name(name: object) -> str:
    return name if isinstance(name, str) and shown(name).endswith("'") else shown(name)
