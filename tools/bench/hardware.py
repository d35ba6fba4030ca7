"""What a benchmark ran on: the machine, how busy it was, and which state of the sources."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from tools.bench.machine import ROOT

LISTEN_SECONDS: Final = 1.0
"""How long to listen to a machine before saying how busy it is. [s]"""
_GIB: Final = 1 << 30

Description = dict[str, str | int | float]


def describe() -> Description:
    """The machine, without its name."""
    return {
        "cpu": _cpu(),
        "cpus": os.cpu_count() or 0,
        "memoryGiB": round(psutil.virtual_memory().total / _GIB, 1),
        "system": _system(),
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def in_words(machine: Description) -> str:
    """A machine in one line; what is not known is left out."""
    size = ", ".join(
        part
        for part in (
            f"{machine['cpus']} CPUs" if machine.get("cpus") else "",
            f"{machine['memoryGiB']} GiB" if machine.get("memoryGiB") else "",
            str(machine.get("system", "")),
            str(machine.get("kernel", "")),
            f"Python {machine['python']}" if machine.get("python") else "",
            f"numpy {machine['numpy']}" if machine.get("numpy") else "",
        )
        if part
    )
    known = " ".join(str(machine[key]) for key in ("architecture", "cpu") if machine.get(key))
    return f"{known}: {size}" if known else size


def busy_percent() -> float:
    """What the machine does before a benchmark begins. [percent of one core]"""
    return round(psutil.cpu_percent(interval=LISTEN_SECONDS) * (os.cpu_count() or 1), 1)


def commit() -> str:
    """The state of the sources, such as "1a2b3c4" or, with changes that are not committed, "1a2b3c4 and changes"."""
    try:
        head = _git("rev-parse", "--short", "HEAD").strip()
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!tools/bench/results", ":!docs")
    except (OSError, subprocess.CalledProcessError):
        return ""  # the sources without their history
    return f"{head} and changes" if changed.strip() else head


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.system()
