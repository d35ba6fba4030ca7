"""Run a short program to its end and return its output; and the errors of the dev cluster, in plain lines.

Whatever cannot be done raises one of these errors; docstrings do not repeat it.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TIMEOUT_SECONDS = 120.0


class DevClusterError(Exception):
    """Something the caller can act on: the message names the thing and the way out.

    The command line prints it without a traceback.
    """


class MissingRequirementError(DevClusterError):
    """A program or a right that this machine lacks; the message says how to get it."""


class CommandError(DevClusterError):
    """A program ended with an error; `output` is its output, `returncode` its exit code."""

    def __init__(self, argv: Sequence[str], returncode: int, output: str) -> None:
        super().__init__(f"`{' '.join(argv)}` ended with {returncode}: {output.strip()}")
        self.returncode = returncode
        self.output = output


def run(
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> str:
    """Run a program and return its standard output."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
            cwd=cwd,
            env=None if env is None else dict(env),
            **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
        )
    except OSError as error:
        raise DevClusterError(f"cannot run {words[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise DevClusterError(f"`{' '.join(words)}` took longer than {timeout_seconds:.0f} s") from error
    if done.returncode != 0:
        raise CommandError(words, done.returncode, done.stderr or done.stdout)
    return done.stdout
