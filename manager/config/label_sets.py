"""Which sets of labels a selector matches, as something that can be cut and subtracted: exact, without any nodes.

A selector constrains each label by itself, so what it matches is a box: for each label the values it may have
(or whether it may be absent). Two boxes overlap when their values do for every label.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_MOST_PIECES: Final = 64
_MOST_CUTS: Final = 1000
_ANY: Final = "any"


@dataclass(frozen=True, slots=True)
class Values:
    """What one label may be."""

    absent: bool = True
    """Whether it may be absent."""
    listed: frozenset[str] = frozenset()
    """Values."""
    excluded: bool = True
    """Whether the values are those that it may not have; else they are all that it may have."""

    @property
    def none(self) -> bool:
        """Whether nothing is left."""
        return not (self.absent or self.excluded or self.listed)

    def both(self, other: "Values") -> "Values":
        """What is in both."""
        absent = self.absent and other.absent
        if self.excluded and other.excluded:
            return Values(absent, self.listed | other.listed)
        if not self.excluded and not other.excluded:
            return Values(absent, self.listed & other.listed, excluded=False)
        finite, cut = (other, self) if self.excluded else (self, other)
        return Values(absent, finite.listed - cut.listed, excluded=False)

    @property
    def others(self) -> "Values":
        """What is not in it."""
        return Values(not self.absent, self.listed, not self.excluded)

    def example(self) -> str | None:
        """One of its values; `None` when the label may be absent."""
        if self.absent:
            return None
        if not self.excluded:
            return min(self.listed)
        number, value = 0, _ANY
        while value in self.listed:
            number += 1
            value = f"{_ANY}-{number}"
        return value


Box = Mapping[str, Values]
"""Label -> what it may be; a label that is not there may be anything."""

_ANYTHING: Final = Values()
_OF_OPERATOR: Final = {"Exists": Values(absent=False), "DoesNotExist": Values(excluded=False)}


def box(selector: Mapping[str, Any] | None) -> Box | None:
    """What a well-formed selector matches; `None` when that is nothing, as for an absent one."""
    if selector is None:
        return None
    found: dict[str, Values] = {}
    for name, value in (selector.get("matchLabels") or {}).items():
        found[name] = Values(absent=False, listed=frozenset({value}), excluded=False)
    for expression in selector.get("matchExpressions") or ():
        listed, name = frozenset(expression.get("values") or ()), expression["key"]
        if expression["operator"] == "In":
            constraint = Values(absent=False, listed=listed, excluded=False)
        elif expression["operator"] == "NotIn":
            constraint = Values(listed=listed)
        else:
            constraint = _OF_OPERATOR[expression["operator"]]
        found[name] = found.get(name, _ANYTHING).both(constraint)
    return None if any(values.none for values in found.values()) else found


def common(one: Box, other: Box) -> Box | None:
    """What both match; `None` when that is nothing."""
    found = dict(one)
    for name, values in other.items():
        found[name] = found.get(name, _ANYTHING).both(values)
        if found[name].none:
            return None
    return found


def example(of: Box) -> dict[str, str]:
    """Labels in a box, as few as possible."""
    values = {name: each.example() for name, each in of.items()}
    return {name: value for name, value in values.items() if value is not None}


def overlap(one: Box | None, other: Box | None) -> dict[str, str] | None:
    """Labels that are in both, as few as possible; `None` when there can be none. Exact, whatever nodes there are."""
    both = None if one is None or other is None else common(one, other)
    return None if both is None else example(both)


def remainder(of: Box, without: Iterable[Box]) -> Box | None:
    """Some part of a box that is in none of the others; `None` when they cover it entirely.

    It gives up where the boxes cut one another into very many pieces, and then answers as if something were left.
    """
    pieces: list[Box] = [of]
    cuts = 0
    for cut in without:
        cuts += len(pieces)
        pieces = [piece for whole in pieces for piece in _subtract(whole, cut)]
        if not pieces:
            return None
        if len(pieces) > _MOST_PIECES or cuts > _MOST_CUTS:
            break
    return pieces[0]


def _subtract(whole: Box, cut: Box) -> list[Box]:
    """The pieces of a box outside of another; no two of them share anything."""
    if common(whole, cut) is None:
        return [whole]
    pieces: list[Box] = []
    inside = dict(whole)
    for name, values in cut.items():
        own = inside.get(name, _ANYTHING)
        outside = own.both(values.others)
        if not outside.none:
            pieces.append({**inside, name: outside})
        inside[name] = own.both(values)
    return pieces
