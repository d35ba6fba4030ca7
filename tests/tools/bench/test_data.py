"""The traces in tools/bench/data are what their README says, and leave the repository in no package and no image."""

import csv
import lzma
import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tools.bench import data

PLANETLAB = sorted((data.PLANETLAB).glob("*.csv.xz"))


def _header(path: Path) -> list[str]:
    with lzma.open(path, "rt") as lines:
        return next(csv.reader(lines))


@pytest.mark.parametrize("name", ["cpu_millicores.csv.xz", "mem_mib.csv.xz"])
def test_bitbrains_has_every_machine(name: str) -> None:
    """Both tables have one column for each of the 499 machines that vms.csv describes, in its order."""
    with (data.BITBRAINS / "vms.csv").open() as lines:
        machines = [row["vm"] for row in csv.DictReader(lines)]
    assert len(machines) == 499
    assert _header(data.BITBRAINS / name) == ["ts", *(f"vm{number}" for number in machines)]


@pytest.mark.parametrize("path", PLANETLAB, ids=lambda path: path.name)
def test_planetlab_names_no_host(path: Path) -> None:
    """Each day has 288 percentages of about a thousand machines, named after their row."""
    with lzma.open(path, "rt") as lines:
        header, *rows = csv.reader(lines)
    assert header == ["vm", *(f"s{step}" for step in range(288))]
    assert [row[0] for row in rows] == [f"planetlab-{row}" for row in range(1, len(rows) + 1)]
    assert len(rows) > 1000
    assert {len(row) for row in rows} == {289}


def test_three_days_of_planetlab() -> None:
    """The days that the README names are the days that are there."""
    assert [path.name for path in PLANETLAB] == ["20110303.csv.xz", "20110322.csv.xz", "20110420.csv.xz"]


def test_not_in_a_package() -> None:
    """No pattern of packages that setuptools looks for takes bench, and no pattern of files takes a table."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages, files = setuptools["packages"]["find"]["include"], setuptools["package-data"]
    assert not [pattern for pattern in packages if fnmatchcase("tools.bench.data", pattern)]
    names = [path.name for path in data.FOLDER.rglob("*") if path.suffix in (".xz", ".csv", ".gz")]
    assert len(names) == 6
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
