"""The parts of a release folder, without a build of images or a download of libraries."""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from tools.devcluster.oci import Layout, write_layout
from tools.release import krew, sbom, single_file

ROOT = Path(__file__).parents[3]
CONTENT = {
    "var/lib/dpkg/status.d/libc6": "Package: libc6\nVersion: 1:2.36+deb\nArchitecture: amd64\n",
    "opt/headroom/lib/python3.11/site-packages/PyYAML-6.0.dist-info/METADATA": "Name: PyYAML\nVersion: 6.0\n\nText",
    "opt/headroom/lib/other.txt": "",
}


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    file = tmp_path / "layer.tar"
    with tarfile.open(file, "w") as archive:
        for name, text in CONTENT.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return file


def test_sbom_of_an_image_names_packages_and_distributions(layer: Path, tmp_path: Path) -> None:
    document = sbom.of_image(write_layout(tmp_path / "image", "localhost/headroom-agent:dev", layer, {}), "0.1.0")
    assert document["metadata"]["component"] == {"type": "container", "name": "headroom-agent", "version": "0.1.0"}
    assert [component["purl"] for component in document["components"]] == [
        "pkg:deb/debian/libc6@1%3A2.36%2Bdeb",
        "pkg:pypi/pyyaml@6.0",
    ]


def test_archive_of_an_image_has_its_released_name(layer: Path, tmp_path: Path) -> None:
    image = write_layout(tmp_path / "image", "localhost/x:dev", layer, {}, machine="aarch64")
    packed = [io.BytesIO(), io.BytesIO()]
    for file in packed:
        Layout("localhost/x:0.1.0", image.directory).pack(file)
    assert packed[0].getvalue() == packed[1].getvalue()
    with tarfile.open(fileobj=io.BytesIO(packed[0].getvalue())) as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        (manifest,) = yaml.safe_load(index.read())["manifests"]
    assert set(manifest["annotations"].values()) == {"localhost/x:0.1.0"}


@pytest.mark.alone
def test_single_file_runs_and_unpacks_once(filled: Path, tmp_path: Path) -> None:
    archive, program = tmp_path / "a.tar.gz", tmp_path / "bin" / "kubectl-headroom"
    krew.pack(filled, archive)
    program.parent.mkdir()
    single_file.write(archive, "9.9", program)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    for _ in range(2):
        done = subprocess.run([program, "version"], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "kubectl headroom 9.9\n"
    assert len([*(tmp_path / "cache/kubectl-headroom").iterdir()]) == 1
    completing = program.with_name("kubectl_complete-headroom")
    completing.symlink_to(program)
    done = subprocess.run([completing, "vers"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("version\t")


def test_manifest_has_version_and_checksums(tmp_path: Path) -> None:
    file = krew.archive(tmp_path, "9.9", "linux/arm64")
    file.write_bytes(b"archive")
    manifest = yaml.safe_load(krew.manifest((ROOT / ".krew.yaml").read_text(), tmp_path, "9.9", ["linux/arm64"]))
    assert manifest["spec"]["version"] == "v9.9"
    (platform,) = manifest["spec"]["platforms"]
    assert platform["selector"]["matchLabels"] == {"os": "linux", "arch": "arm64"}
    assert platform["uri"] == "{url}/kubectl-headroom_9.9_linux_arm64.tar.gz"
    assert platform["sha256"] == hashlib.sha256(b"archive").hexdigest()
