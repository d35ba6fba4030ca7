"""Statements of the documents about the code match the code."""

import re
import tomllib

from tests.architecture.sources import ROOT


def _requirement_names() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    requirements = [*project["dependencies"], *(line for extra in extras for line in extra)]
    names = {re.match(r"[A-Za-z0-9._-]+", line).group() for line in requirements}  # type: ignore[union-attr]
    return names - {"kube-headroom"}


def test_every_library_is_justified() -> None:
    """Each library of pyproject.toml has a line with its purpose, and no line is left over."""
    table = (ROOT / "docs/adr/0001-libraries.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \|", table, flags=re.MULTILINE)[1:]
    named = {name.strip() for row in rows for name in row.split(",")} - {"---"}
    assert named == _requirement_names()


def test_make_targets_are_explained() -> None:
    """Every target that the README names is one that `make help` lists."""
    makefile = (ROOT / "Makefile").read_text()
    explained = set(re.findall(r"^([a-z0-9-]+):.*## ", makefile, flags=re.MULTILINE))
    named = set(re.findall(r"`(?:[A-Z]+=\w+ )?make ([a-z0-9-]+)", (ROOT / "README.md").read_text()))
    assert named <= explained
    assert {"demo", "test", "test-fast", "lint", "cluster", "bench", "images", "clean"} <= explained


def test_named_files_exist() -> None:
    """Every test that the documents name is there."""
    texts = [path.read_text() for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]
    named = {name for text in texts for name in re.findall(r"\btests/[\w/]+(?:\.py)?", text)}
    assert "tests/agent/tsdb/test_kill.py" in named
    assert not [name for name in sorted(named) if not (ROOT / name).exists()]
