"""The traces in tools/bench/data are what their README says, and leave the repository in no package and no image."""

import re
import tomllib
from fnmatch import fnmatchcase

from tests.architecture.sources import ROOT
from tools.bench import data


def test_not_in_a_package() -> None:
    """No pattern of packages that setuptools looks for takes bench, and no pattern of files takes a table."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages, files = setuptools["packages"]["find"]["include"], setuptools["package-data"]
    assert not [pattern for pattern in packages if fnmatchcase("tools.bench.data", pattern)]
    names = [path.name for path in data.FOLDER.rglob("*") if path.suffix in (".xz", ".csv", ".gz")]
    assert len(names) == 3
    patterns = [pattern for several in files.values() for pattern in several]
    assert not [name for name in names for pattern in patterns if fnmatchcase(name, pattern)]


def test_not_in_an_image() -> None:
    """Images are built from what .dockerignore lets in and a Dockerfile copies: bench is in neither."""
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert let_in
    assert not [name for name in let_in if name in ("tools", "*", "t*") or name.startswith("tools/bench")]
    for dockerfile in ROOT.glob("Dockerfile.*"):
        copied = re.findall(r"^COPY (.*)$", dockerfile.read_text(), re.MULTILINE)
        assert copied
        assert not [line for line in copied if re.search(r"\bbench\b|(^| )\.( |$)", line)]
