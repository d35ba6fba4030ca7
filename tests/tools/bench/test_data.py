"""The traces in tools/bench/data are in no package."""

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
