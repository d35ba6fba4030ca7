"""What our images consist of, as CycloneDX lists, and which of it is known to be vulnerable where that can be asked."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from tools.devcluster import images as own_images
from tools.devcluster.binaries import REAL_NODE, Binaries
from tools.devcluster.commands import DevClusterError
from tools.devcluster.oci import Json, Layout

AUDITOR: Final = "pip-audit>=2.10,<3"
ROOT: Final = Path(__file__).parents[2]
ASK_SECONDS: Final = 300.0
METADATA: Final = re.compile(r"/site-packages/[^/]+\.dist-info/METADATA$")
DEBIAN: Final = "var/lib/dpkg/status.d/"
CLEAN, VULNERABLE, NOT_AUDITED = "clean", "vulnerable", "NOT AUDITED"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """Something that somebody else has made and that is in an image."""

    kind: str  # as in a package URL: pypi or deb
    name: str
    version: str
    licence: str = ""

    @property
    def purl(self) -> str:
        """Its package URL."""
        space = "debian/" if self.kind == "deb" else ""
        return f"pkg:{self.kind}/{space}{self.name}@{self.version}"


def components(image: Layout) -> list[Component]:
    """Every library and every Debian package in an image, sorted."""
    return sorted({component for name, text in _described(image) for component in _parsed(name, text)})


def _described(image: Layout) -> Iterator[tuple[str, str]]:
    for digest in image.blobs()[2:]:
        with tarfile.open(image.blob(digest)) as layer:
            for entry in layer:
                wanted = METADATA.search(entry.name) or entry.name.startswith(DEBIAN)
                if wanted and entry.isfile() and (file := layer.extractfile(entry)) is not None:
                    yield entry.name, file.read().decode()


def _parsed(name: str, text: str) -> Iterator[Component]:
    fields = HeaderParser().parsestr(text)
    if name.startswith(DEBIAN):
        yield Component("deb", fields["Package"], fields["Version"])
    else:
        distribution = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
        yield Component("pypi", distribution, fields["Version"], fields.get("License-Expression") or "")


def bill(image: Layout, parts: Sequence[Component]) -> Json:
    """The list of an image's parts (CycloneDX 1.6). Without time and serial number: the same image, the same list."""
    name, _, tag = image.name.rpartition(":")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name, "version": f"{tag}@{image.digest}"}},
        "components": [
            {
                "type": "library",
                "bom-ref": part.purl,
                "name": part.name,
                "version": part.version,
                "purl": part.purl,
                **({"licenses": [{"expression": part.licence}]} if part.licence else {}),
            }
            for part in parts
        ],
    }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an audit has found."""

    state: str  # CLEAN, VULNERABLE or NOT_AUDITED
    lines: tuple[str, ...]  # the findings, or why there are none


def verdict(report: Mapping[str, object] | None, why: str = "") -> Verdict:
    """Judge what pip-audit reports. A library that it could not ask about is not one without fault."""
    if report is None:
        return Verdict(NOT_AUDITED, (f"pip-audit gave no report: {why}",))
    libraries: list[Json] = list(report["dependencies"])  # type: ignore[call-overload]
    found = [
        f"{one['name']} {one['version']}: {fault['id']}, mended in {', '.join(fault['fix_versions']) or 'no version'}"
        for one in libraries
        for fault in one.get("vulns", ())
    ]
    skipped = [one for one in libraries if "skip_reason" in one]
    if found:
        return Verdict(VULNERABLE, tuple(found))
    if skipped or not libraries:
        names = ", ".join(str(one["name"]) for one in skipped[:3]) + (" …" if len(skipped) > 3 else "")  # noqa: PLR2004 - as an example
        reason = f"{skipped[0]['skip_reason']}" if skipped else "no library was named"
        return Verdict(NOT_AUDITED, (f"{len(skipped)} of {len(libraries)} libraries ({names}): {reason}",))
    return Verdict(CLEAN, (f"{len(libraries)} libraries, none with a known vulnerability",))


def ask(parts: Sequence[Component], folder: Path) -> Verdict:
    """Ask for known vulnerabilities of the libraries among the parts, by pip-audit of the package index."""
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
        return verdict(None, str(error))
    try:
        return verdict(json.loads(done.stdout))
    except ValueError:
        return verdict(None, (done.stderr.strip().splitlines() or ["nothing was said"])[-1])


def audit(
    images: Sequence[Layout],
    folder: Path,
    say: Say = print,
    asked: Callable[[Sequence[Component], Path], Verdict] = ask,
) -> bool:
    """Write a list for each image, ask for vulnerabilities, and say what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    every: set[Component] = set()
    for image in images:
        parts = components(image)
        every |= set(parts)
        file = folder / f"{image.name.rpartition('/')[2].partition(':')[0]}.cdx.json"
        file.write_text(json.dumps(bill(image, parts), indent=1) + "\n")
        say(f"{image.name}: {len(parts)} components, listed in {file}")
    found = asked(sorted(every), folder)
    for line in found.lines:
        say(f"{found.state}: {line}")
    if found.state == NOT_AUDITED:
        say("Give the lists to a scanner that brings its data, or run this where the package index tells of faults.")
    return found.state != VULNERABLE


def main(say: Say = print) -> None:
    """Audit the images of this checkout, building them where they are not in the cache."""
    built = own_images.build_all(Binaries.find_or_build(REAL_NODE, say), say)
    names = {recipe.reference for recipe in own_images.RECIPES}
    if not audit([one for one in built if one.name in names], ROOT / "build" / "audit", say):
        raise DevClusterError("known vulnerabilities: lock newer versions with `make lock`, then run the tests")
