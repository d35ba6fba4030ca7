"""A real browser for tests of the manager's web page: one that is installed, else the distribution's package."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools.devcluster.errors import MissingRequirementError
from tools.devcluster.packages import Package, install_packages

PACKAGE: Final = Package("chromium-headless-shell", "a browser without a window", ("chromium-headless-shell",))
"""Debian's; 100 MB with what it needs."""
PROGRAMS: Final = (
    "chromium-headless-shell",
    "headless_shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
"""Browsers that understand the same words, the smallest first."""

Say = Callable[[str], None]


def refusal() -> str | None:
    """Why this machine cannot have one, or None."""
    if find() is not None:
        return None
    if shutil.which("apt-get") is None:
        return f"no browser ({', '.join(PROGRAMS)}) is installed, and {PACKAGE.name} is Debian's package"
    if os.geteuid() != 0:
        return f"no browser is installed, and only root can: apt-get install {PACKAGE.name}"
    return None


def find() -> Path | None:
    """A browser that is installed."""
    found = (shutil.which(program) for program in PROGRAMS)
    return next((Path(each) for each in found if each), None)


def find_or_install(say: Say = print) -> Path:
    """A browser, installed the first time."""
    found = find()
    if found is not None:
        return found
    unable = refusal()
    if unable:
        raise MissingRequirementError(unable)
    install_packages([PACKAGE], say)
    found = find()
    if found is None:
        raise MissingRequirementError(f"{PACKAGE.name} is installed and brought none of {', '.join(PROGRAMS)}")
    return found
