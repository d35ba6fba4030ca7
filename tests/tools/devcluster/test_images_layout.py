"""Images as folders: what is written is a valid layout, and what another program wrote becomes one."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

from tools.devcluster.oci import CONFIG, LAYER, MANIFEST, NAME_ANNOTATION, Layout, adopt, write_program_image

NAME = "localhost/thing:dev"


def _program_image(folder: Path) -> Layout:
    program = folder / "program"
    program.write_bytes(b"\x7fELF and so on")
    program.chmod(0o600)
    return write_program_image(folder / "layout", NAME, program, "/usr/bin/thing")


def test_digests_match_contents(tmp_path: Path) -> None:
    """Each blob's name is the digest of its content, and nothing lies around beside them."""
    image = _program_image(tmp_path)
    assert len(image.blobs()) == 3
    for digest in image.blobs():
        assert digest == f"sha256:{hashlib.sha256(image.blob(digest).read_bytes()).hexdigest()}"
    assert {path.name for path in image.directory.rglob("*") if path.is_file()} == {
        "index.json",
        "oci-layout",
        *(digest.removeprefix("sha256:") for digest in image.blobs()),
    }


def test_layer_holds_the_program(tmp_path: Path) -> None:
    """The one layer has the program, executable for everybody, whatever it was on this machine."""
    image = _program_image(tmp_path)
    with tarfile.open(image.blob(image.blobs()[-1])) as layer:
        (entry,) = layer.getmembers()
        content = layer.extractfile(entry)
        assert (entry.name, entry.mode, entry.uid) == ("usr/bin/thing", 0o755, 0)
        assert content is not None
        assert content.read() == b"\x7fELF and so on"


def test_same_content_same_digest(tmp_path: Path) -> None:
    """An image made twice from the same program is the same image: no time stamp is in it."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert _program_image(tmp_path / "one").digest == _program_image(tmp_path / "two").digest


def test_configuration_runs_the_program(tmp_path: Path) -> None:
    """The image runs its program and finds it on its PATH."""
    image = _program_image(tmp_path)
    config = json.loads(image.blob(image.blobs()[1]).read_text())
    assert config["config"] == {"Entrypoint": ["/usr/bin/thing"], "Env": ["PATH=/usr/bin"]}
    assert config["rootfs"]["diff_ids"] == [image.blobs()[-1]]  # uncompressed: the blob's own digest
    assert len(config["history"]) == 1


def test_archive_is_complete(tmp_path: Path) -> None:
    """The archive for the import has the index, the marker and every blob."""
    image = _program_image(tmp_path)
    buffer = io.BytesIO()
    image.pack(buffer)
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as archive:
        names = set(archive.getnames())
    assert names == {"oci-layout", "index.json"} | {f"blobs/sha256/{digest[7:]}" for digest in image.blobs()}


def test_foreign_image_is_adopted(tmp_path: Path) -> None:
    """A folder that buildah pushed to becomes a layout under our name; what the image does not use is dropped."""

    def write(data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        (tmp_path / digest).write_bytes(data)
        return f"sha256:{digest}"

    config, layer, unused = write(b"{}"), write(b"layer"), write(b"unused")
    manifest = {
        "config": {"mediaType": CONFIG, "digest": config},
        "layers": [{"mediaType": LAYER, "digest": layer}],
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "version").write_text("Directory Transport Version: 1.1\n")
    image = adopt(tmp_path, NAME)
    assert image.blobs()[1:] == [config, layer]
    assert json.loads(image.blob(image.digest).read_text()) == manifest
    assert not image.blob(unused).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blobs", "index.json", "oci-layout"]
    (entry,) = json.loads((tmp_path / "index.json").read_text())["manifests"]
    assert entry["mediaType"] == MANIFEST
    assert entry["annotations"] == {NAME_ANNOTATION: NAME}
