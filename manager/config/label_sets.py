"""Which sets of labels a selector matches, as something that can be cut and subtracted: exact, without any nodes.

A selector constrains each label by itself, so what it matches is a box: for each label the values it may have
(`None`: it is absent). Two boxes overlap when their values do for every label.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_MOST_PIECES: Final = 64
_MOST_CUTS: Final = 1000


@dataclass(frozen=True, slots=True)
class Values:
    """What one label may be: the listed values, or all but these; `None` among them is an absent label."""

    listed: frozenset[str | None] = frozenset()
    excluded: bool = True

    @property
    def none(self) -> bool:
        """Whether nothing is left."""
        return not (self.excluded or self.listed)

    def both(self, other: "Values") -> "Values":
        """What is in both."""
        if self.excluded and other.excluded:
            return Values(self.listed | other.listed)
        if self.excluded:
            return Values(other.listed - self.listed, excluded=False)
        return Values(self.listed - other.listed if other.excluded else self.listed & other.listed, excluded=False)

    def example(self) -> str | None:
        """One of its values; `None` when the label may be absent."""
        if (None in self.listed) is not self.excluded:
            return None
        if not self.excluded:
            return min(value for value in self.listed if value is not None)
        names = itertools.chain(["any"], (f"any-{number}" for number in itertools.count(1)))
        return next(name for name in names if name not in self.listed)


Box = Mapping[str, Values]  # label -> what it may be; a label that is not there may be anything

_ANYTHING: Final = Values()


def box(selector: Mapping[str, Any] | None) -> Box | None:
    """What a well-formed selector matches; `None` when that is nothing, as for an absent one."""
    if selector is None:
        return None
    labels = (selector.get("matchLabels") or {}).items()
    required = [(name, Values(frozenset({value}), excluded=False)) for name, value in labels]
    for expression in selector.get("matchExpressions") or ():
        absent = expression["operator"] in {"Exists", "DoesNotExist"}
        listed = frozenset({None}) if absent else frozenset(expression.get("values") or ())
        required.append((expression["key"], Values(listed, excluded=expression["operator"] in {"Exists", "NotIn"})))
    found: dict[str, Values] = {}
    for name, values in required:
        found[name] = found.get(name, _ANYTHING).both(values)
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
    pieces, cuts = [of], 0
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
    pieces, inside = list[Box](), dict(whole)
    for name, values in cut.items():
        own = inside.get(name, _ANYTHING)
        outside = own.both(Values(values.listed, not values.excluded))
        if not outside.none:
            pieces.append({**inside, name: outside})
        inside[name] = own.both(values)
    return pieces
