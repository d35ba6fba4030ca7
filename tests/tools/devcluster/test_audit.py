"""The audit of images: its lists are complete and the same each time, and it never takes silence for health."""

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.devcluster.audit import CLEAN, NOT_AUDITED, VULNERABLE, Component, Verdict, audit, bill, components, verdict
from tools.devcluster.oci import Layout, write_layout

SITE = "opt/headroom/lib/python3.11/site-packages"
FILES = {
    f"{SITE}/PyYAML-6.0.3.dist-info/METADATA": "Name: PyYAML\nVersion: 6.0.3\n\ntext\n",
    f"{SITE}/x.dist-info/METADATA": "Name: x_y\nVersion: 1\nLicense-Expression: MIT\n",
    "var/lib/dpkg/status.d/libc6": "Package: libc6\nVersion: 2.36-9+deb12u13\nDescription: a\n b\n",
    f"{SITE}/x/METADATA": "Name: none\nVersion: 0\n",
}
PARTS = [
    Component("deb", "libc6", "2.36-9+deb12u13"),
    Component("pypi", "pyyaml", "6.0.3"),
    Component("pypi", "x-y", "1", "MIT"),
]


@pytest.fixture
def image(tmp_path: Path) -> Layout:
    """An image with two libraries and a Debian package."""
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as archive:
        for name, text in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return write_layout(tmp_path / "layout", "localhost/thing:dev", layer, {})


def test_components_are_found(image: Layout) -> None:
    """Libraries are found by their metadata, Debian packages by theirs, and nothing else counts."""
    assert components(image) == PARTS


def test_bill_is_complete(image: Layout) -> None:
    """The list names the image by digest and each part by its package URL; it is the same each time."""
    made = bill(image, PARTS)
    assert made == bill(image, PARTS)
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert made["metadata"]["component"]["version"] == f"dev@{image.digest}"
    assert [part["purl"] for part in made["components"]] == [
        "pkg:deb/debian/libc6@2.36-9+deb12u13",
        "pkg:pypi/pyyaml@6.0.3",
        "pkg:pypi/x-y@1",
    ]
    assert [part.get("licenses") for part in made["components"]] == [None, None, [{"expression": "MIT"}]]


FAULT = {"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2", "3"]}]}
FINE = {"name": "b", "version": "1", "vulns": []}
SKIPPED = {"name": "c", "skip_reason": "not found on PyPI"}


@pytest.mark.parametrize(
    ("report", "state", "line"),
    [
        ({"dependencies": [FINE]}, CLEAN, "1 libraries, none with a known vulnerability"),
        ({"dependencies": [FAULT, SKIPPED]}, VULNERABLE, "a 1: PYSEC-1, mended in 2, 3"),
        ({"dependencies": [FINE, SKIPPED]}, NOT_AUDITED, "1 of 2 libraries (c): not found on PyPI"),
        ({"dependencies": []}, NOT_AUDITED, "0 of 0 libraries (): no library was named"),
        (None, NOT_AUDITED, "pip-audit gave no report: no network"),
    ],
)
def test_verdict(report: dict[str, object] | None, state: str, line: str) -> None:
    """Only an answer about every library is a clean one; a fault is one even where others could not be asked about."""
    assert verdict(report, "no network") == Verdict(state, (line,))


@pytest.mark.parametrize(("state", "passes"), [(CLEAN, True), (NOT_AUDITED, True), (VULNERABLE, False)])
def test_audit_says_what_came_of_it(image: Layout, tmp_path: Path, state: str, *, passes: bool) -> None:
    """The list is written, what was found is said, and only a known fault fails."""
    said: list[str] = []

    def asked(parts: Sequence[Component], _: Path) -> Verdict:
        assert list(parts) == PARTS
        return Verdict(state, ("why",))

    assert audit([image], tmp_path / "out", said.append, asked) is passes
    assert f"{state}: why" in said
    assert json.loads((tmp_path / "out/thing.cdx.json").read_text())["components"]
    assert any("scanner" in line for line in said) is (state == NOT_AUDITED)
