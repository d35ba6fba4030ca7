"""A real Prometheus for tests: the distribution's package, downloaded and unpacked into the cache, not installed."""

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.devcluster.commands import CommandError, run
from tools.devcluster.errors import DevClusterError, MissingRequirementError
from tools.devcluster.lock import file_lock
from tools.devcluster.packages import update_lists
from tools.devcluster.places import cache_directory

PACKAGE: Final = "prometheus"
PROGRAMS: Final = ("prometheus", "promtool")
DOWNLOAD_SECONDS: Final = 600.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Prometheus:
    """The programs."""

    server: Path  # Prometheus
    tool: Path  # checks rules and configurations


def refusal() -> str | None:
    """Why this machine cannot have it, or None: it is a package of Debian and Ubuntu, unless it is installed."""
    if _installed() is not None or _cached() is not None:
        return None
    if sys.platform != "linux" or not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        return "Prometheus is not installed, and its package is Debian's and Ubuntu's"
    return None


def find_or_fetch(say: Say = print) -> Prometheus:
    """The programs that are installed, else those in the cache, fetched there the first time."""
    unable = refusal()
    if unable:
        raise MissingRequirementError(unable)
    found = _installed() or _cached()
    if found is not None:
        return found
    directory = cache_directory() / PACKAGE
    with file_lock(directory / "lock", PACKAGE, say):
        return _cached() or _fetch(directory, say)


def _installed() -> Prometheus | None:
    server, tool = map(shutil.which, PROGRAMS)
    return Prometheus(Path(server), Path(tool)) if server and tool else None


def _cached() -> Prometheus | None:
    server, tool = (cache_directory() / PACKAGE / "bin" / program for program in PROGRAMS)
    return Prometheus(server, tool) if server.exists() and tool.exists() else None


def _fetch(directory: Path, say: Say) -> Prometheus:
    say(f"downloading {PACKAGE}, without installing it")
    with tempfile.TemporaryDirectory(dir=directory, prefix=".partial-") as partial:
        work = Path(partial)
        _download(work, say)
        for package in sorted(work.glob("*.deb")):
            run(["dpkg-deb", "--extract", package, work / "unpacked"])
        programs = work / "unpacked/usr/bin"
        if not all((programs / program).exists() for program in PROGRAMS):
            raise DevClusterError(f"the package {PACKAGE} does not hold {' and '.join(PROGRAMS)}")
        programs.rename(directory / "bin")
    found = _cached()
    if found is None:
        raise DevClusterError(f"{directory} vanished while it was filled")
    return found


def _download(work: Path, say: Say) -> None:
    command = ["apt-get", "-qq", "download", PACKAGE]
    try:
        run(command, cwd=work, timeout_seconds=DOWNLOAD_SECONDS)
    except CommandError:
        update_lists(say)  # there may be none yet, or they name a version that is gone
        run(command, cwd=work, timeout_seconds=DOWNLOAD_SECONDS)
