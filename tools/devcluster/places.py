"""Where the dev cluster keeps what it makes: built things in the cache, running clusters in a short state folder."""

import os
import re
from pathlib import Path

from tools.devcluster.errors import DevClusterError

NAME_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?")
LONGEST_STATE_PATH = 60  # Unix sockets lie under the state folder, and their paths may have 107 bytes


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/headroom` (`~/.cache/headroom`): binaries, images, Go, logs of failures. May be deleted."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "headroom"


def clusters_directory() -> Path:
    """The folder with one folder per running cluster: in `$XDG_RUNTIME_DIR`, else in /tmp; readable by us alone."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    directory = Path(runtime) / "headroom" if runtime else Path(f"/tmp/headroom-{os.getuid()}")  # noqa: S108
    if len(str(directory)) > LONGEST_STATE_PATH:
        raise DevClusterError(f"{directory} is too long for unix sockets: set XDG_RUNTIME_DIR to a shorter folder")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise DevClusterError(f"{directory} belongs to another user: set XDG_RUNTIME_DIR to a folder of your own")
    return directory


def state_directory(name: str) -> Path:
    """The folder of the cluster with this name; not made here."""
    if not NAME_PATTERN.fullmatch(name):
        raise DevClusterError(
            f"cluster name {name!r}: use 1 to 20 of a-z, 0-9 and '-', not starting or ending with '-'"
        )
    return clusters_directory() / name
