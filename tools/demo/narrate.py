"""What the demo says: headings, the commands it runs with their real output, and waits that show what they wait for."""

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text


class StepFailed(Exception):  # noqa: N818 -- it is the outcome of a step, said to a person
    """A step did not show what it promises; the message says what was seen instead."""


@dataclass
class Narrator:
    """Prints the story and keeps the time of each chapter."""

    console: Console = field(default_factory=Console)
    began: float = field(default_factory=time.monotonic)
    chapter: int = 0

    def heading(self, title: str) -> None:
        """Begin a chapter."""
        self.chapter += 1
        self.console.print()
        self.console.rule(
            Text(f"{self.chapter}. {title}  [{time.monotonic() - self.began:.0f} s]", style="bold cyan"), align="left"
        )

    def say(self, words: str) -> None:
        """Say something in plain words."""
        self.console.print(Text(words), soft_wrap=True)

    def command(self, *words: str) -> None:
        """Show a command before its output, as a user would type it."""
        self.console.print(Text(f"$ {shlex.join(words)}", style="bold green"), soft_wrap=True)

    def output(self, text: str) -> None:
        """Show what a command printed, unchanged."""
        self.console.print(Text(text.rstrip()), soft_wrap=True)

    def seen(self, what: str) -> None:
        """Say that a promise was checked and holds."""
        self.console.print(Text(f"✓ {what}", style="green"))

    def failed(self, what: str) -> None:
        """Say that something went wrong."""
        self.console.print(Text(f"✗ {what}", style="bold red"))

    def skipped(self, what: str) -> None:
        """Say by name what is left out, and why."""
        self.console.print(Text(f"- SKIPPED: {what}", style="bold yellow"), soft_wrap=True)

    def suggest(self, command: str) -> None:
        """Show a command for the user to type, on one line so that it can be copied."""
        self.console.print(Text(f"  {command}", style="bold green"), soft_wrap=True)

    def wait_until(self, what: str, probe: Callable[[], str | None], *, seconds: float) -> str:
        """Wait until the probe answers with what it saw; show progress meanwhile."""
        began = time.monotonic()
        with self.console.status(f"waiting until {what} ...") as status:
            while True:
                found = probe()
                waited = time.monotonic() - began
                if found is not None:
                    self.seen(f"{what} (after {waited:.0f} s)")
                    return found
                if waited > seconds:
                    raise StepFailed(f"after {seconds:.0f} s still not: {what}")
                status.update(f"waiting until {what} ... {waited:.0f} s")
                time.sleep(0.5)
