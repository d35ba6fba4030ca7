"""The values that settings may take, as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

ALLOWED: Final = "allowed"
"""In the metadata of a dataclass' field: the `Range` of its number, or of each number of its map."""


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two bounds, both included."""

    low: float
    """Smallest allowed value."""
    high: float
    """Largest allowed value."""

    def allows(self, value: Any) -> bool:  # noqa: ANN401 - configuration can hold anything
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    def __str__(self) -> str:
        if self.low == float("-inf"):
            return f"at most {self.high:.0f}"
        low, high = f"{self.low:.12g}", f"{self.high:.12g}"  # 2592000, not 2.592e+06
        return f"{low} to {high}" if self.high != float("inf") else f"{low} or more"


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of a few texts."""

    options: tuple[str, ...]
    """The allowed texts."""

    def allows(self, value: Any) -> bool:  # noqa: ANN401 - configuration can hold anything
        return value in self.options

    def __str__(self) -> str:
        return "one of " + ", ".join(repr(option) for option in self.options)


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def allows(self, value: Any) -> bool:  # noqa: ANN401 - configuration can hold anything
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


Allowed = Range | Choice | Flag


def problems(data: Mapping[str, Any], allowed: Mapping[str, Allowed], path: str = "") -> list[str]:
    """Return a sentence for each JSON field outside its range; absent and null fields pass."""
    prefix = f"{path}." if path else ""
    return [
        f"{prefix}{name}: must be {rule}, got {_shown(data[name])}"
        for name, rule in allowed.items()
        if data.get(name) is not None and not rule.allows(data[name])
    ]


def _shown(value: Any) -> str:  # noqa: ANN401 - configuration can hold anything
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004 - what fits on a line
