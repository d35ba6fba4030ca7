"""The agent as a real process, with its log as events and its pages."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
AGENT = (sys.executable, "-m", "agent")
QUICK = (
    "--collect-interval=100ms",
    "--training-interval=400ms",
    "--report-after=1s",
    "--listen=127.0.0.1:0",
    "--stop-within=1m",
)
"""Flags with which there is something to see within a second or two."""
_END_SECONDS = 120.0


def clean_environment(**more: str) -> dict[str, str]:
    ours = ("KUBE", "HEADROOM_AGENT_", "NODE_", "XDG_")
    return {**{key: value for key, value in os.environ.items() if not key.startswith(ours)}, **more}


@dataclass
class Running:
    """An agent that runs; its log is in JSON."""

    process: subprocess.Popen[str]  # the process
    log: list[dict[str, Any]]  # the events read so far

    def event(self, text: str) -> dict[str, Any]:
        """Wait for the next event whose message has this text."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(_event(line))
            if text in self.log[-1]["message"]:
                return self.log[-1]
        raise AssertionError(f"the agent ended without {text!r}: {self.log}")

    def address(self) -> str:
        return f"http://{self.event('serving')['message'].rsplit(' ', 1)[1]}"

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop it by a signal and read the rest of its log. Returns its exit code."""
        self.process.send_signal(number)
        assert self.process.stderr is not None
        self.log += map(_event, self.process.stderr)
        return self.process.wait(_END_SECONDS)


def _event(line: str) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:  # Python itself had something to say
        return {"level": "critical", "message": line}


@contextlib.contextmanager
def running(
    *arguments: str, environment: Mapping[str, str] | None = None, command: Sequence[str] = AGENT
) -> Iterator[Running]:
    with subprocess.Popen(
        [*command, *arguments, "--log-format=json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(environment or clean_environment()),
        cwd=ROOT,
    ) as process:
        try:
            yield Running(process, [])
        finally:
            process.kill()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - of an agent that the test runs
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
