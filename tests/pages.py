"""Pages of documentation: how their fenced blocks are marked, and how the commands in them are run.

Everything that a reader may type or see stands in a fenced block, and its info string states what it is:

- ``sh``: run by a test, one block after another in one shell. A ``text`` block after it in the same section, with no
  other block between, is what it prints; without one it prints nothing. In it ``…`` stands for anything within a
  line, a line ``…`` for any lines, and any number of blanks for any other.
- ``sh again``: likewise, and repeated until it prints that, as a reader would repeat it.
- ``sh prints``: run, and it prints something that is not compared.
- ``sh elsewhere``: shown, not run. It needs what a dev cluster does not have, and the line above it names what that is.
- one of `SHOWN`: shown.

Commands in indented blocks are refused, so that none is left out by accident.
"""

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PATIENCE_SECONDS: Final = 180.0
"""For how long a block is repeated, and the longest that one may take: machines that run tests are busy."""
PAUSE_SECONDS: Final = 0.3
COMMANDS: Final = ("sh", "sh again", "sh prints", "sh elsewhere")
"""The marks of commands."""
SHOWN: Final = ("text", "yaml", "json", "python", "promql", "dockerfile", "toml", "csv", "mermaid", "diff")
"""The marks of blocks without commands."""
_AGAIN: Final = "again"
_PRINTS: Final = "prints"
_OUTPUT: Final = "text"
_OPEN: Final = re.compile(r"(?P<ticks>`{3,}|~{3,})(?P<info>.*)")
_ITEM: Final = re.compile(r" *(?:[-*+]|\d+[.)]) +")
_INDENT: Final = 4
"""Blanks before a line that make it a block of commands for Markdown."""


class PageError(AssertionError):
    """A page is wrong, or has another form."""


@dataclass(frozen=True)
class Fence:
    """A fenced block."""

    line: int
    """Where in the page it begins, from 1."""
    info: str
    """Its info string: the kind of block."""
    content: str
    """Its lines."""
    above: str
    """The nearest line above it that is not blank; empty at the top of a page."""
    section: int
    """The number of headings above it."""


@dataclass(frozen=True)
class Block:
    """Commands of a page."""

    line: int
    """Where in the page they begin."""
    commands: str
    """A command of the reader."""
    expected: str = ""
    """The output on the page."""
    again: bool = False
    """True if they are repeated until that is printed."""
    compared: bool = True
    """True if the output must be equal; else any output, but not none."""

    def held(self, output: str) -> bool:
        """Return whether this output is one that the page promises."""
        return matches(self.expected, output) if self.compared else bool(output.strip())


def parts(text: str) -> tuple[list[Fence], list[tuple[int, str]]]:
    """A page's fenced blocks in order, and its other lines with their numbers.

    Raises:
        PageError: a block is not closed.
    """
    fences: list[Fence] = []
    prose: list[tuple[int, str]] = []
    lines = enumerate(text.splitlines(), 1)
    above, section = "", 0
    for number, line in lines:
        opened = _OPEN.match(line)
        if opened is None:
            prose.append((number, line))
            section += bool(re.match(r"#{1,6} ", line))
            above = line.strip() or above
            continue
        content = []
        for _, inner in lines:
            if inner.startswith(opened["ticks"]) and not inner.strip("`~ \t"):
                break
            content.append(f"{inner}\n")
        else:
            raise PageError(f"line {number}: a block that is not closed")
        fences.append(Fence(number, " ".join(opened["info"].split()), "".join(content), above, section))
        above = line
    return fences, prose


def faults(text: str) -> list[str]:
    """Where a page is not in the form that the module describes; each with its line."""
    try:
        fences, prose = parts(text)
    except PageError as error:
        return [str(error)]
    return sorted({*_of_fences(fences), *_of_prose(prose)}, key=lambda fault: int(re.findall(r"\d+", fault)[0]))


def _of_fences(fences: list[Fence]) -> Iterator[str]:
    for fence in fences:
        if fence.info not in (*COMMANDS, *SHOWN):
            allowed = ", ".join((*COMMANDS, *SHOWN))
            yield f"line {fence.line}: a block marked {fence.info or 'with nothing'}; it is one of {allowed}"
        if fence.info == COMMANDS[-1] and not _is_sentence(fence.above):
            yield f"line {fence.line}: the line above `sh elsewhere` names what its commands need"


def _is_sentence(line: str) -> bool:
    return bool(line) and not line.startswith(("#", "|", "```", "~~~"))


def _of_prose(prose: list[tuple[int, str]]) -> Iterator[str]:
    deepest = _INDENT  # blanks that begin an indented block here; more within a list
    blank = True
    for number, line in prose:
        indent = len(line) - len(line.lstrip(" "))
        if line.lstrip().startswith(("```", "~~~")):
            yield f"line {number}: a fence that does not begin its line"
        if blank and line.strip() and indent >= deepest:
            yield f"line {number}: an indented block; it is fenced and marked"
        if item := _ITEM.match(line):
            deepest = item.end() + _INDENT
        elif line.strip() and indent == 0:
            deepest = _INDENT
        blank = not line.strip()


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page that are run, in order.

    Args:
        text: of the page.

    Raises:
        PageError: an info string is not understood, or a block is not closed.
    """
    fences, _ = parts(text)
    for index, fence in enumerate(fences):
        after = fences[index + 1] if index + 1 < len(fences) else None
        if fence.info not in (*COMMANDS, *SHOWN):
            raise PageError(f"line {fence.line}: {fence.info}: not understood")
        if fence.info not in COMMANDS[:-1]:
            continue
        shows = after is not None and after.info == _OUTPUT and after.section == fence.section
        expected = after.content if after is not None and shows else ""
        again, compared = fence.info.endswith(_AGAIN), not fence.info.endswith(_PRINTS)
        yield Block(fence.line, fence.content, expected if compared else "", again=again, compared=compared)


def matches(expected: str, actual: str) -> bool:
    """Return whether an output is as a page shows it."""
    lines = [line.split() for line in expected.strip().splitlines()]
    pattern = "".join(r"(?:[^\n]*\n)*?" if line == ["…"] else _of_line(line) for line in lines)
    shown = "".join(f"{line.strip()}\n" for line in actual.strip().splitlines())
    return re.fullmatch(pattern, shown) is not None


def _of_line(words: list[str]) -> str:
    return r"[ \t]+".join(r"[^\n]*".join(map(re.escape, word.split("…"))) for word in words) + r"\n"


class Reader:
    """A reader who pastes block after block into one shell, where functions and exported variables live on.

    Args:
        folder: where the shell works, and where it keeps what lives on.
        environment: its initial variables.
        kept: where what lives on is kept, where that is not the folder.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], kept: Path | None = None) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._kept = (kept or folder) / ".kept"

    def follow(self, page: Path) -> int:
        """Run a page, and return how many blocks it has.

        Raises:
            PageError: a block fails, or prints something else than the page shows; with its line and both outputs.
        """
        count = 0
        for block in blocks(page.read_text(encoding="utf-8")):
            self._run(page.name, block)
            count += 1
        return count

    def _run(self, name: str, block: Block) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            code, output = self._paste(block.commands)
            if code == 0 and block.held(output):
                return
            if not block.again or time.monotonic() > deadline:
                break
            time.sleep(PAUSE_SECONDS)
        promised = block.expected if block.compared else "something\n"
        report = f"{block.commands}--- the page shows\n{promised}--- it prints\n{output}--- exit code {code}"
        raise PageError(f"{name}, line {block.line}:\n{report}")

    def _paste(self, commands: str) -> tuple[int, str]:
        restored = f". {self._kept}\n" if self._kept.exists() else ""
        save = f"{{ export -p; declare -fp; }} > {self._kept}"
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", f"{restored}{commands}\n{save}"],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout
