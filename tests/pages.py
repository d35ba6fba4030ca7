"""Pages of docs/ that are run: their fenced `sh` blocks, one after another, each compared with the output it shows.

A `text` block after a `sh` block is what that prints; without one it prints nothing. In it `…` stands for anything
within a line, a line `…` for any lines, and any number of blanks for any other. A block with the info string `sh again`
is repeated until it prints that, as a reader would repeat it. Blocks of other languages and indented ones are not run.
"""

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PATIENCE_SECONDS: Final = 90.0
"""For how long a block is repeated, and the longest that one may take."""
PAUSE_SECONDS: Final = 0.3
_FENCE: Final = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<content>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_AGAIN: Final = "again"


class PageError(AssertionError):
    """A page says what is not so."""


@dataclass(frozen=True)
class Block:
    """Commands of a page."""

    line: int
    """Where in the page they begin."""
    commands: str
    """What a reader pastes into a shell."""
    expected: str = ""
    """What the page says is printed."""
    again: bool = False
    """Whether they are repeated until that is printed."""


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page that are run, in order.

    Args:
        text: of the page.

    Raises:
        PageError: an info string is not understood, or an output belongs to no commands.
    """
    current: Block | None = None
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        language, *words = found["info"].split() or [""]
        if language == "sh":
            if current is not None:
                yield current
            if words not in ([], [_AGAIN]):
                raise PageError(f"line {line}: sh {' '.join(words)}: not understood; it is sh or sh {_AGAIN}")
            current = Block(line, found["content"], again=bool(words))
        elif language == "text":
            if current is None:
                raise PageError(f"line {line}: an output without the commands that print it")
            yield Block(current.line, current.commands, found["content"], current.again)
            current = None
    if current is not None:
        yield current


def matches(expected: str, actual: str) -> bool:
    """Whether an output is as a page shows it."""
    lines = [line.split() for line in expected.strip().splitlines()]
    pattern = "".join(r"(?:[^\n]*\n)*?" if line == ["…"] else _of_line(line) for line in lines)
    shown = "".join(f"{line.strip()}\n" for line in actual.strip().splitlines())
    return re.fullmatch(pattern, shown) is not None


def _of_line(words: list[str]) -> str:
    return r"[ \t]+".join(r"[^\n]*".join(map(re.escape, word.split("…"))) for word in words) + r"\n"


class Reader:
    """Somebody who pastes block after block into one shell; variables and functions live on from one to the next.

    Args:
        folder: where the shell works.
        environment: what it begins with.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._kept = folder / ".kept"

    def follow(self, page: Path) -> int:
        """Run a page, and return how many blocks it has.

        Raises:
            PageError: a block fails, or prints something else than the page says; with its line and both outputs.
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
            if code == 0 and matches(block.expected, output):
                return
            if not block.again or time.monotonic() > deadline:
                break
            time.sleep(PAUSE_SECONDS)
        parts = f"{block.commands}--- the page says\n{block.expected}--- it prints\n{output}--- exit code {code}"
        raise PageError(f"{name}, line {block.line}:\n{parts}")

    def _paste(self, commands: str) -> tuple[int, str]:
        restored = f". {self._kept}\n" if self._kept.exists() else ""
        kept = f"{{ export -p; declare -fp; }} > {self._kept}"
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", f"{restored}{commands}\n{kept}"],
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
