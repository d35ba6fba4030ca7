"""`kubectl_complete-headroom`: completions of the command line, by kubectl's protocol for plugins."""

import argparse
from collections.abc import Sequence
from typing import Final

from kubectl_headroom import arguments

_FILES: Final = frozenset({"kubeconfig", "profile", "config", "file", "source", "trace", "db", "policy_file", "plot"})
"""Options with files as values, by the parser's names."""
_NO_FILES_TOO: Final = ":4"
_FILES_TOO: Final = ":0"


def complete(words: Sequence[str]) -> list[str]:
    """Return the candidates for the last word, with their descriptions, and the directive for the shell.

    Args:
        words: the words after the program's name; the last may be empty.
    """
    parser, places, awaiting = arguments.parser(), 0, None
    *before, current = words or [""]
    before = before[1:] if before[:1] == ["help"] else before
    for word in before:
        actions = parser._option_string_actions  # noqa: SLF001 - argparse has no other way to list them
        positionals = parser._get_positional_actions()  # noqa: SLF001 - as above
        if awaiting is not None:
            awaiting = None
        elif word.startswith("-"):
            option = actions.get(word)
            awaiting = option if option is not None and option.nargs != 0 else None
        elif positionals and isinstance(positionals[0].choices, dict):
            parser, places = positionals[0].choices.get(word, parser), 0
        else:
            places += 1
    if awaiting is None and current.startswith("-"):
        options = parser._option_string_actions.items()  # noqa: SLF001 - as above
        return [*(_line(name, action.help) for name, action in options if name.startswith(current)), _NO_FILES_TOO]
    positionals = parser._get_positional_actions()  # noqa: SLF001 - as above
    following = positionals[:1] if parser.kinds else positionals[places:]
    kinds = () if places or awaiting else parser.kinds
    return _values(awaiting or (following[0] if following else None), current, kinds)


def _values(action: argparse.Action | None, current: str, kinds: Sequence[str]) -> list[str]:
    if action is None:
        return [_NO_FILES_TOO]
    helps = {choice.dest: choice.help for choice in getattr(action, "_choices_actions", ())}
    names = [str(name) for name in action.choices or kinds]
    lines = [_line(name, helps.get(name)) for name in names if name.startswith(current)]
    return [*lines, _FILES_TOO if action.dest in _FILES else _NO_FILES_TOO]


def _line(word: str, description: str | None) -> str:
    text = (description or "").partition("; ")[0].replace("%%", "%")
    return f"{word}\t{text}" if text else word
