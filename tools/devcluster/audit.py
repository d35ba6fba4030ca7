"""What our images consist of, as CycloneDX lists, and which of it is known to be vulnerable where that can be asked."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from tools.devcluster import images
from tools.devcluster.binaries import REAL_NODE, Binaries
from tools.devcluster.commands import DevClusterError
from tools.devcluster.oci import Json, Layout

AUDITOR: Final = "pip-audit>=2.10,<3"
ASK_SECONDS: Final = 300.0
METADATA: Final = re.compile(r"/site-packages/[^/]+\.dist-info/METADATA$")
DEBIAN: Final = "var/lib/dpkg/status.d/"
EXAMPLES: Final = 3

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """Something that somebody else has made and that is in an image."""

    kind: str  # as in a package URL: pypi or deb
    name: str
    version: str
    licence: str = ""

    def entry(self) -> Json:
        """As an entry of a CycloneDX list."""
        purl = f"pkg:{self.kind}/{'debian/' if self.kind == 'deb' else ''}{self.name}@{self.version}"
        entry: Json = {"type": "library", "bom-ref": purl, "name": self.name, "version": self.version, "purl": purl}
        return entry | ({"licenses": [{"expression": self.licence}]} if self.licence else {})


def components(image: Layout) -> list[Component]:
    """Every library and every Debian package in an image, sorted."""
    return sorted(set(_described(image)))


def _described(image: Layout) -> Iterator[Component]:
    for digest in image.blobs()[2:]:
        with tarfile.open(image.blob(digest)) as layer:
            for entry in layer:
                debian = entry.name.startswith(DEBIAN)
                wanted = (debian or METADATA.search(entry.name)) and entry.isfile()
                if not wanted or (file := layer.extractfile(entry)) is None:
                    continue
                fields = HeaderParser().parsestr(file.read().decode())
                if debian:
                    yield Component("deb", fields["Package"], fields["Version"])
                else:
                    name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
                    yield Component("pypi", name, fields["Version"], fields.get("License-Expression") or "")


def bill(image: Layout, parts: Sequence[Component]) -> Json:
    """The list of an image's parts (CycloneDX 1.6). Without time and serial number: the same image, the same list."""
    name, _, tag = image.name.rpartition(":")
    about = {"type": "container", "name": name, "version": f"{tag}@{image.digest}"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": about},
        "components": [part.entry() for part in parts],
    }


def _ask(parts: Sequence[Component], folder: Path) -> list[Json] | str:
    """What pip-audit reports of each library among the parts, or why it gave no report."""
    requirements = folder / "libraries.txt"
    requirements.write_text("".join(f"{one.name}=={one.version}\n" for one in parts if one.kind == "pypi"))
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}") or "uv"
    options: list[str | Path] = [
        "--disable-pip",
        "--no-deps",
        "--progress-spinner=off",
        "--format=json",
        "--requirement",
        requirements,
    ]
    command: list[str | Path] = [uv, "tool", "run", "--from", AUDITOR, "pip-audit", *options]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=ASK_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
    return list(report["dependencies"])


def _judge(answer: list[Json] | str, say: Say) -> bool:
    """Say what came of asking; whether nothing is known to be vulnerable. A library that was skipped is not clean."""
    libraries = answer if isinstance(answer, list) else []
    found = [
        f"{one['name']} {one['version']}: {fault['id']}, mended in {', '.join(fault['fix_versions']) or 'no version'}"
        for one in libraries
        for fault in one.get("vulns", ())
    ]
    skipped = [one for one in libraries if "skip_reason" in one]
    for line in found:
        say(f"vulnerable: {line}")
    if found:
        return False
    if libraries and not skipped:
        say(f"clean: {len(libraries)} libraries, none with a known vulnerability")
        return True
    why = f"pip-audit gave no report: {answer}" if isinstance(answer, str) else "no library was named"
    if skipped:
        names = ", ".join(str(one["name"]) for one in skipped[:EXAMPLES]) + (" …" if skipped[EXAMPLES:] else "")
        why = f"{len(skipped)} of {len(libraries)} libraries ({names}): {skipped[0]['skip_reason']}"
    say(f"NOT AUDITED: {why}")
    say("Give the lists to a scanner that brings its data, or run this where the package index tells of faults.")
    return True


def main(say: Say = print) -> None:
    """Audit the images of this checkout, building them where they are not in the cache."""
    built = images.build_all(Binaries.find_or_build(REAL_NODE, say), say)
    folder = images.ROOT / "build" / "audit"
    folder.mkdir(parents=True, exist_ok=True)
    every: set[Component] = set()
    for image in built:
        if image.name not in {recipe.reference for recipe in images.RECIPES}:
            continue
        parts = components(image)
        every |= set(parts)
        file = folder / f"{image.name.rpartition('/')[2].partition(':')[0]}.cdx.json"
        file.write_text(json.dumps(bill(image, parts), indent=1) + "\n")
        say(f"{image.name}: {len(parts)} components, listed in {file}")
    if not _judge(_ask(sorted(every), folder), say):
        raise DevClusterError("known vulnerabilities: lock newer versions with `make lock`, then run the tests")
