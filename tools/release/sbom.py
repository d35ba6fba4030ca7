"""Lists the contents of images and archives as CycloneDX 1.6: Debian packages and Python distributions."""

import email
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote

from tools.devcluster.oci import Layout

FORMAT: Final = "1.6"  # of CycloneDX
_DEBIAN: Final = "var/lib/dpkg/status.d/"
_PYTHON: Final = ".dist-info/METADATA"

Json = dict[str, Any]


def of_image(image: Layout, version: str) -> Json:
    """Return the document of an image, read from its layers."""
    components: list[Json] = []
    manifest = json.loads(image.blob(image.digest).read_text())
    for layer in manifest["layers"]:
        with tarfile.open(image.blob(layer["digest"])) as archive:
            components += _components(archive)
    return _document("container", image.name.rpartition("/")[2].partition(":")[0], version, components)


def of_archive(file: Path, name: str, version: str) -> Json:
    """Return the document of a tar archive."""
    with tarfile.open(file) as archive:
        return _document("application", name, version, list(_components(archive)))


def _components(archive: tarfile.TarFile) -> Iterator[Json]:
    for entry in archive:
        if entry.isfile() and _DEBIAN in entry.name:
            fields = _fields(archive.extractfile(entry))
            yield _component("deb/debian", fields["Package"], fields["Version"])
        elif entry.isfile() and entry.name.endswith(_PYTHON):
            fields = _fields(archive.extractfile(entry))
            yield _component("pypi", fields["Name"].lower().replace("_", "-"), fields["Version"])


def _fields(file: IO[bytes] | None) -> "email.message.Message[str, str]":
    return email.message_from_bytes(b"" if file is None else file.read())


def _component(kind: str, name: str, version: str) -> Json:
    return {"type": "library", "name": name, "version": version, "purl": f"pkg:{kind}/{name}@{quote(version, '')}"}


def _document(kind: str, name: str, version: str, components: list[Json]) -> Json:
    by_purl = {component["purl"]: component for component in components}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": FORMAT,
        "version": 1,
        "metadata": {"component": {"type": kind, "name": name, "version": version}},
        "components": [by_purl[purl] for purl in sorted(by_purl)],
    }
