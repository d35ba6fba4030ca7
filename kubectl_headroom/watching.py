"""`--watch`: repeats a request; a result replaces the last one on a terminal, and follows it elsewhere."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TextIO

from headroom import kube
from kubectl_headroom import output as outputs
from kubectl_headroom.errors import CommandError
from kubectl_headroom.output import YAML

INTERVAL_SECONDS: Final = 10.0
"""The default interval. Agents report once a minute. [s]"""
_HOME_AND_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"

Ask = Callable[[kube.ApiServer], Awaitable[int | None]]
Pause = Callable[[float], Awaitable[None]]


async def watch_loop(
    api: kube.ApiServer,
    ask: Ask,
    interval_seconds: float,
    output: str,
    out: TextIO | None = None,
    pause: Pause = asyncio.sleep,
) -> None:
    """Repeat a request until an interrupt; temporary failures are printed on standard error.

    Args:
        api: the cluster.
        ask: sends the requests once, and prints.
        interval_seconds: between an answer and the next question. [s]
        output: one of `kubectl_headroom.output.CHOICES`; YAML documents are separated, others follow one another.
        out: where it prints; standard output by default.
        pause: waits a number of seconds.
    """
    shown = out or sys.stdout
    first = True
    while True:
        if shown.isatty():
            shown.write(_HOME_AND_CLEAR)
        elif not first:
            shown.write("---\n" if output == YAML else "\n")
        first = False
        try:
            await ask(api)
        except (CommandError, kube.ApiUnavailable) as error:
            outputs.line(f"kubectl headroom: {error}; trying again in {interval_seconds:g} s", sys.stderr)
        shown.flush()
        await pause(interval_seconds)
