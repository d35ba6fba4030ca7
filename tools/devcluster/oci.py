"""Container images as OCI layouts in folders: write one, read which blobs it has, pack it for import."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
NAME_ANNOTATION = "io.containerd.image.name"  # by this name of index.json containerd knows the image
TAG_ANNOTATION = "org.opencontainers.image.ref.name"  # by this one other programs do
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = "1970-01-01T00:00:00Z"
CHUNK_BYTES = 1 << 20

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """An image in a folder, under the name it has on the node."""

    name: str  # such as `localhost/pause:dev`
    directory: Path

    @property
    def digest(self) -> str:
        """Digest of the manifest: two layouts with the same one are the same image."""
        digest: str = json.loads((self.directory / "index.json").read_text())["manifests"][0]["digest"]
        return digest

    def blob(self, digest: str) -> Path:
        """The file of a blob."""
        return self.directory / "blobs" / digest.replace(":", "/", 1)

    def blobs(self) -> list[str]:
        """Digests of all blobs of the image: manifest, configuration, layers."""
        manifest = json.loads(self.blob(self.digest).read_text())
        return [self.digest, manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])]

    def pack(self, file: IO[bytes], left_out: Container[str] = ()) -> None:
        """Write the layout as an archive, as `ctr images import` wants it. The same image makes the same bytes."""
        with tarfile.open(fileobj=file, mode="w|", bufsize=CHUNK_BYTES) as archive:
            index = json.loads((self.directory / "index.json").read_text())
            index["manifests"][0]["annotations"] = {NAME_ANNOTATION: self.name, TAG_ANNOTATION: self.name}
            for part, data in (
                ("oci-layout", (self.directory / "oci-layout").read_bytes()),
                ("index.json", json.dumps(index).encode()),
            ):
                entry = tarfile.TarInfo(part)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
            for digest in (blob for blob in self.blobs() if blob not in left_out):
                entry = tarfile.TarInfo(f"blobs/{digest.replace(':', '/', 1)}")
                entry.size = self.blob(digest).stat().st_size
                with self.blob(digest).open("rb") as blob:
                    archive.addfile(entry, blob)


def adopt(directory: Path, name: str) -> Layout:
    """Make a layout of a folder that another program wrote in the form `dir:` (blobs beside `manifest.json`)."""
    data = (directory / "manifest.json").read_bytes()
    manifest = json.loads(data)
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for digest in (manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])):
        (directory / _hexadecimal(digest)).rename(blobs / _hexadecimal(digest))
    for path in directory.iterdir():
        if path.is_file():
            path.unlink()
    _write_index(directory, name, _write_blob(directory, data))
    return Layout(name, directory)


def _hexadecimal(digest: str) -> str:
    return digest.partition(":")[2]


def write_program_image(directory: Path, name: str, program: Path, path: str) -> Layout:
    """Write an image that holds one static program and nothing else."""
    directory.mkdir(parents=True)
    layer = directory / "layer.tar"
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.size, entry.mode = program.stat().st_size, 0o755
    with tarfile.open(layer, mode="w", format=tarfile.USTAR_FORMAT) as archive, program.open("rb") as source:
        archive.addfile(entry, source)
    return write_layout(directory, name, layer, {"Entrypoint": [path], "Env": [f"PATH={Path(path).parent}"]})


def write_layout(directory: Path, name: str, layer: Path, config: Json, machine: str = platform.machine()) -> Layout:
    """Write an image of one layer."""
    (directory / "blobs" / "sha256").mkdir(parents=True)
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = layer.stat().st_size
    layer.rename(directory / "blobs" / "sha256" / digest)
    document: Json = {
        "architecture": ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": EPOCH, "created_by": "devcluster"}],  # buildah wants one entry per layer
    }
    manifest: Json = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _write_json(directory, document) | {"mediaType": CONFIG},
        "layers": [{"mediaType": LAYER, "digest": f"sha256:{digest}", "size": size}],
    }
    _write_index(directory, name, _write_json(directory, manifest))
    return Layout(name, directory)


def _write_index(directory: Path, name: str, manifest: Json) -> None:
    described = manifest | {"mediaType": MANIFEST, "annotations": {NAME_ANNOTATION: name}}
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [described]}))
    (directory / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))


def _write_json(directory: Path, document: Json) -> Json:
    return _write_blob(directory, json.dumps(document, sort_keys=True).encode())


def _write_blob(directory: Path, data: bytes) -> Json:
    digest = hashlib.sha256(data).hexdigest()
    (directory / "blobs" / "sha256" / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}
