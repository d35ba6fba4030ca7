"""Find or build the programs of a cluster: $KUBEBUILDER_ASSETS, PATH, a cache keyed by content, else a build."""

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tools.devcluster.commands import run
from tools.devcluster.errors import DevClusterError
from tools.devcluster.families import FAMILIES, Family
from tools.devcluster.golang import Go, find_go
from tools.devcluster.lock import file_lock
from tools.devcluster.places import cache_directory
from tools.devcluster.process import last_lines

SAY_EVERY_SECONDS = 15.0
KEY_LENGTH = 16
UNUSED_SECONDS = 30 * 86400.0
"""Programs that nobody has asked for so long, such as those of versions before, are removed after a build."""
BUILD_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly")
BUILD_SETTINGS = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}
NETWORK_ERRORS = ("dial tcp", "no such host", "i/o timeout", "connection refused", "TLS handshake", "proxyconnect")

Say = Callable[[str], None]


def say_nothing(_: str) -> None:
    """Take a line of progress and drop it."""


@dataclass(frozen=True)
class Binaries:
    """Where the programs of some families are."""

    paths: Mapping[str, Path] = field(default_factory=dict)  # program name -> file

    @classmethod
    def find_or_build(cls, families: Iterable[str], say: Say = print) -> Self:
        """Find the families' programs, and build what is not there."""
        paths: dict[str, Path] = {}
        for name in families:
            family = FAMILIES[name]
            paths.update(find_installed(family, say) or find_cached(family) or build(family, say))
        return cls(paths)

    def path(self, program: str) -> Path:
        """The file of a program."""
        try:
            return self.paths[program]
        except KeyError:
            raise DevClusterError(
                f"{program} is not among the programs found: {', '.join(sorted(self.paths))}"
            ) from None

    @property
    def kubernetes_version(self) -> str:
        """The version of the Kubernetes components, such as `v1.36.2`."""
        return FAMILIES["kubernetes"].version


def find_installed(family: Family, say: Say = print) -> dict[str, Path] | None:
    """The family's programs from $KUBEBUILDER_ASSETS, else from PATH; None unless all are there at the pinned minor.

    What was found and not taken is said in one line a place.
    """
    places = {"$KUBEBUILDER_ASSETS": os.environ.get("KUBEBUILDER_ASSETS"), "PATH": os.environ.get("PATH")}
    for place, path in places.items():
        found = {one: Path(file) for one in family.programs if path and (file := shutil.which(one, path=path))}
        if not found:
            continue
        missing = [program for program in family.programs if program not in found]
        reasons = [reason for program, file in found.items() if (reason := rejection(family, program, file))]
        if not reasons and not missing:
            return found
        if not reasons:
            reasons = [f"{', '.join(found)} without {', '.join(missing)}"]
        say(f"not taken from {place}: {'; '.join(reasons)}")
    return None


def rejection(family: Family, program: str, file: Path) -> str | None:
    """Why this file cannot stand for the family's program; None when its minor version is the pinned one."""
    wanted = _minor(family.version)
    try:
        found = _minor(run([file, *family.version_command(program)], timeout_seconds=20))
    except DevClusterError as error:
        return f"{file} does not tell its version ({str(error).splitlines()[0]})"
    return None if found == wanted else f"{file} is {found or 'of an unknown version'}, wanted {wanted}"


def _minor(text: str) -> str | None:
    match = re.search(r"\bv?(\d+\.\d+)(?:\.\d+|\b)", text)
    return match and match[1]


def cache_key(family: Family, go: Go) -> str:
    """A key over all that decides the build's result: sources, versions, flags, Go, machine."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        file = family.directory / name
        digest.update(f"{name}\0".encode() + (file.read_bytes() if file.exists() else b"") + b"\0")
    settings = [go.version, platform.machine(), family.link_flags, family.tags, *family.packages, *BUILD_FLAGS]
    settings += [f"{name}={value}" for name, value in sorted(BUILD_SETTINGS.items())]
    digest.update("\0".join(settings).encode())
    return digest.hexdigest()[:KEY_LENGTH]


def cached_directory(family: Family, go: Go) -> Path:
    """Where the cache keeps, or will keep, the family's programs."""
    return cache_directory() / "binaries" / f"{family.name}-{cache_key(family, go)}"


def find_cached(family: Family) -> dict[str, Path] | None:
    """The family's programs from the cache, or None."""
    directory = cached_directory(family, find_go(family.go_version))
    if not directory.is_dir():
        return None
    with contextlib.suppress(OSError):  # somebody else's cache may be used, too
        os.utime(directory)
    return {program: directory / program for program in family.programs}


def _remove_unused(family: Family, say: Say) -> None:
    """Remove what was built of a family for others than us, and that nobody has used for long."""
    folder, pattern = cache_directory() / "binaries", re.compile(rf"{re.escape(family.name)}-[0-9a-f]{{{KEY_LENGTH}}}")
    for old in sorted(folder.iterdir()):
        if pattern.fullmatch(old.name) and time.time() - old.stat().st_mtime > UNUSED_SECONDS:
            say(f"removing {old}, which nobody has used for {UNUSED_SECONDS / 86400:.0f} days")
            shutil.rmtree(old, ignore_errors=True)


def build(family: Family, say: Say = print) -> dict[str, Path]:
    """Build the family with the Go toolchain into the cache; another process that wants the same waits."""
    go = find_go(family.go_version)
    directory = cached_directory(family, go)
    with file_lock(cache_directory() / "binaries" / f"{family.name}.lock", f"building {family.name}", say):
        if not directory.is_dir():
            partial = directory.with_name(f".{directory.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            _compile(family, go, partial, say)
            for call in family.calls:
                (partial / call).symlink_to(family.binaries[0])
            partial.rename(directory)
            os.utime(directory)
            _remove_unused(family, say)
    return {program: directory / program for program in family.programs}


def _compile(family: Family, go: Go, directory: Path, say: Say) -> None:
    output = directory / family.binaries[0] if len(family.binaries) == 1 else f"{directory}/"
    log = cache_directory() / "logs" / f"build-{family.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [str(go.command(say)), "build", *BUILD_FLAGS, "-tags", family.tags, "-ldflags", family.link_flags]
    command += ["-o", str(output), *family.packages]
    say(f"building {family.name} {family.version} with Go {go.version}: up to {family.minutes:g} min on 2 cores, once")
    started = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=family.directory,
            env={**os.environ, **BUILD_SETTINGS},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        returncode = _watch(process, family, started, say)
    if returncode != 0:
        raise DevClusterError(_explain(family, log))
    size = sum((directory / one).stat().st_size for one in family.binaries)
    say(f"built {family.name} {family.version} in {time.monotonic() - started:.0f} s: {size / 1e6:.0f} MB")


def _watch(process: subprocess.Popen[bytes], family: Family, started: float, say: Say) -> int:
    try:
        while True:
            try:
                return process.wait(SAY_EVERY_SECONDS)
            except subprocess.TimeoutExpired:
                say(f"  still building {family.name}: {time.monotonic() - started:.0f} s")
    finally:
        if process.poll() is None:  # Ctrl-C: the compiler stops with us
            process.terminate()
            process.wait()


def _explain(family: Family, log: Path) -> str:
    text = log.read_text(errors="replace")
    if any(sign in text for sign in NETWORK_ERRORS):
        line = next(one for one in text.splitlines() if any(sign in one for sign in NETWORK_ERRORS))
        return (
            f"cannot download the Go modules of {family.name}: {line.strip()}. Make the module proxy reachable "
            f"(`go env GOPROXY`), or point $KUBEBUILDER_ASSETS at {family.version} of {', '.join(family.programs)}"
        )
    return f"building {family.name} failed. The end of {log}:\n{last_lines(log)}"
