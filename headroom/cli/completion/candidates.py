"""What can stand next, by the parser alone: commands, options, choices, or a kind of name that the cluster has."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class Names(StrEnum):
    """Names that somebody else knows."""

    NODES = "nodes"
    NAMESPACES = "namespaces"
    PODS = "pods"
    QUOTAS = "quotas"
    CONTEXTS = "contexts"
    FIELDS = "fields"
    POLICIES = "policies"


Candidate = tuple[str, str]  # a word, and what it means; the latter may be empty

_OPTIONS: Final = {
    "namespace": Names.NAMESPACES,
    "headroom_namespace": Names.NAMESPACES,
    "node": Names.NODES,
    "context": Names.CONTEXTS,
    "policy": Names.POLICIES,
}
_FILES: Final = frozenset(
    {"kubeconfig", "profile", "config", "file", "trace", "db", "nodemetrics", "pods", "policy_file", "plot"}
)
_EXPLAINED: Final = {"node": Names.NODES, "pod": Names.PODS, "quota": Names.QUOTAS}


@dataclass(frozen=True, slots=True)
class Next:
    """What can stand next."""

    candidates: tuple[Candidate, ...] = ()  # words
    names: Names | None = None  # also names of this kind
    files: bool = False  # also files
    given: dict[str, Any] = field(default_factory=dict)
    """What was given before, by the parser's names: which cluster, which namespace."""


def after(parser: argparse.ArgumentParser, words: Sequence[str]) -> Next:
    """What can stand in the place of the last word.

    Args:
        parser: of the whole command line.
        words: what was typed after the program's name; the last is being typed, and may be empty.
    """
    *before, current = words or [""]
    line = _Line(parser)
    for word in before:
        line.take(word)
    if line.waiting is not None:
        return line.values(line.waiting)
    name, equals, _ = current.partition("=")
    if equals and (option := line.option(name)) is not None:
        found = line.values(option)
        return Next(tuple((f"{name}={word}", told) for word, told in found.candidates), given=line.given)
    if current.startswith("-") and not line.only_words:
        return Next(tuple(line.options(current)), given=line.given)
    return line.next_word()


class _Line:
    """A command line as far as it was typed."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.given: dict[str, Any] = {}
        self.waiting: argparse.Action | None = None  # an option whose value comes next
        self.only_words = False  # whether -- was typed: no options follow
        self.repeated: argparse.Action | None = None  # an option that takes further values until another one comes
        self._enter(parser)

    def _enter(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser
        actions = parser._actions  # noqa: SLF001 - argparse offers no other way to ask it
        self._options = {name: each for each in actions for name in each.option_strings}
        self._places = [each for each in actions if not each.option_strings]

    def take(self, word: str) -> None:
        """A word that is complete."""
        if self.waiting is not None:
            self._give(self.waiting, word)
            self.repeated = self.waiting if self.waiting.nargs == "+" else None
            self.waiting = None
        elif word == "--":
            self.only_words = True
        elif word.startswith("-") and len(word) > 1 and not self.only_words:
            name, equals, value = word.partition("=")
            found, self.repeated = self.option(name), None
            if found is not None and found.nargs != 0:
                if equals:
                    self._give(found, value)
                else:
                    self.waiting = found
        elif self._places:
            place = self._places[0]
            if isinstance(place, argparse._SubParsersAction):  # noqa: SLF001 - as above
                if word in place.choices:
                    self._give(place, word)
                    self._enter(place.choices[word])
                return
            self._places.pop(0)
            self._give(place, word)

    def _give(self, action: argparse.Action, value: str) -> None:
        self.given[action.dest] = value

    def option(self, name: str) -> argparse.Action | None:
        return self._options.get(name)

    def options(self, current: str) -> Iterator[Candidate]:
        """The options that begin so; short ones only where nothing longer was typed."""
        for name, action in self._options.items():
            if name.startswith(current) and (name.startswith("--") or len(current) < 2):  # noqa: PLR2004 - "-" and "-o"
                yield name, _told(action)

    def next_word(self) -> Next:
        place = self._places[0] if self._places else self.repeated
        return self.values(place) if place is not None else Next(given=self.given)

    def values(self, action: argparse.Action) -> Next:
        """What an option or a place takes."""
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            helps = {each.dest: each.help or "" for each in action._choices_actions}  # noqa: SLF001 - as above
            return Next(tuple((name, helps.get(name, "")) for name in action.choices), given=self.given)
        if action.choices is not None:
            return Next(tuple((str(choice), "") for choice in action.choices), given=self.given)
        if action.dest in _FILES:
            return Next(files=True, given=self.given)
        if action.dest == "source":
            return Next(names=Names.PODS, files=True, given=self.given)
        return Next(names=self._names(action), given=self.given)

    def _names(self, action: argparse.Action) -> Names | None:
        if action.dest == "name":
            return _EXPLAINED.get(str(self.given.get("what")))
        if action.dest == "pod":
            return Names.PODS if self.given.get("what") == "explain" else None
        if action.dest == "field":
            return Names.FIELDS
        return _OPTIONS.get(action.dest)


def _told(action: argparse.Action) -> str:
    return (action.help or "").partition("; ")[0].replace("%%", "%")
