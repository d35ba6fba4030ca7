"""The commands in a page, as words: those in blocks, run or shown, and those quoted in the text."""

import re
import shlex
from collections.abc import Iterator
from typing import Final

from tests.pages import COMMANDS, parts

_HERE: Final = re.compile(r"<<-?\s*'?(\w+)'?")
_INLINE: Final = re.compile(r"`([^`\n]+)`")
_JOINTS: Final = re.compile(r"&&|\|\||\||;|&(?!>)|\$\(|\)|\d?>&\d|\d?>+ ?\S*")
_PROMPTS: Final = (
    "kubectl",
    "helm",
    "headroom-agent",
    "headroom-scheduler",
    "headroom-manager",
    "make",
    "python",
    "pip",
)
"""Programs with checkable command lines."""


def commands(text: str) -> Iterator[tuple[int, list[str]]]:
    """The commands of a page's blocks, with the line where their block begins; what here-documents hold is none."""
    fences, _ = parts(text)
    for fence in fences:
        if fence.info in COMMANDS:
            for line in _logical(fence.content):
                yield from ((fence.line, words) for words in _split(line))


def quoted(text: str) -> Iterator[tuple[int, list[str]]]:
    """The commands in backquotes of a page's text, with their lines."""
    _, prose = parts(text)
    for number, line in prose:
        for code in _INLINE.findall(line):
            if code.startswith(_PROMPTS) and "…" not in code and "..." not in code:
                yield from ((number, words) for words in _split(code))


def spans(text: str) -> Iterator[tuple[int, str]]:
    """All texts in backquotes of a page, with their lines."""
    _, prose = parts(text)
    for number, line in prose:
        yield from ((number, code) for code in _INLINE.findall(line))


def _logical(content: str) -> Iterator[str]:
    lines = iter(content.replace("\\\n", " ").splitlines())
    for line in lines:
        yield line
        if here := _HERE.search(line):
            for inner in lines:
                if inner.strip() == here[1]:
                    break


def _split(line: str) -> Iterator[list[str]]:
    for part in _JOINTS.split(re.sub(r"'[^']*'", "x", line) if line.count("'") % 2 == 0 else line.partition("'")[0]):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:  # a quotation that goes on in the next line: no command of ours has one
            continue
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words = words[1:]
        if words and words[0].rpartition("/")[2].startswith(_PROMPTS):
            yield [words[0].rpartition("/")[2], *words[1:]]
