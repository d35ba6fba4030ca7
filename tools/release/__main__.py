"""`python -m tools.release`: one folder with all parts of a release, installable from there without a registry.

It has the images as archives, the chart, kubectl-headroom as one file and as an archive for krew with a manifest, a
list of the contents of each (SBOM), checksums, and a page with the commands that install it.
"""

import argparse
import gzip
import hashlib
import json
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final, cast

from tools.devcluster import images
from tools.devcluster.binaries import Binaries
from tools.devcluster.commands import DevClusterError, MissingRequirementError, run
from tools.devcluster.oci import ARCHITECTURES, Layout
from tools.release import krew, sbom, single_file

ROOT: Final = Path(__file__).parents[2]  # the project
PAGE: Final = Path(__file__).with_name("install.md")
CHECKSUMS: Final = "SHA256SUMS"
_MACHINES: Final = {architecture: machine for machine, architecture in ARCHITECTURES.items()}

Say = Callable[[str], None]


def build(out: Path, architectures: Sequence[str], platforms: Sequence[str], pythons: Sequence[str], say: Say) -> None:
    """Write the release into an empty folder.

    Args:
        out: the folder; its former content is removed.
        architectures: of the images, such as amd64.
        platforms: of kubectl-headroom, such as linux/amd64.
        pythons: versions of Python that kubectl-headroom brings libraries for.
        say: takes lines of progress.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    version = krew.version()
    for line in _plugins(out, version, platforms, pythons):
        say(line)
    for architecture in architectures:
        for image in images.build_own(_MACHINES[architecture], say):
            say(_image(out, image, version, architecture))
    helm = Binaries.find_or_build(["helm"], say).path("helm")
    run([helm, "package", ROOT / "charts/headroom", "--version", version, "--app-version", version, "-d", out])
    (out / "INSTALL.md").write_text(PAGE.read_text().replace("{version}", version))
    lines = [f"{_sha256(file)}  {file.name}\n" for file in sorted(out.iterdir())]
    (out / CHECKSUMS).write_text("".join(lines))
    say(f"{out}: {len(lines)} files, {sum(file.stat().st_size for file in out.iterdir()) / 2**20:.0f} MiB")


def _plugins(out: Path, version: str, platforms: Sequence[str], pythons: Sequence[str]) -> Iterator[str]:
    yield from krew.build(out, platforms, pythons)
    manifest = (ROOT / ".krew.yaml").read_text()
    for name in platforms:
        archive = krew.archive(out, version, name)
        target = out / f"kubectl-headroom-{name.replace('/', '-')}"
        single_file.write(archive, version, target)
        _write_json(out / f"{target.name}.cdx.json", sbom.of_archive(archive, "kubectl-headroom", version))
        yield f"{target}: {target.stat().st_size / 2**20:.0f} MiB"
    (out / "headroom.krew.yaml").write_text(krew.manifest(manifest, out, version, platforms))


def _image(out: Path, image: Layout, version: str, architecture: str) -> str:
    """Write an image as an archive with the version as its tag; return a line about it."""
    name = image.name.rpartition("/")[2].partition(":")[0]
    file = out / f"{name}_{version}_linux_{architecture}.tar.gz"
    released = Layout(f"localhost/{name}:{version}", image.directory)
    with file.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
        released.pack(cast("IO[bytes]", packed))
    _write_json(out / f"{name}_{version}_linux_{architecture}.cdx.json", sbom.of_image(released, version))
    return f"{file}: {file.stat().st_size / 2**20:.0f} MiB"


def _write_json(file: Path, document: sbom.Json) -> None:
    file.write_text(json.dumps(document, indent=1) + "\n")


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Build a release; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist/release"), help="where to (default: dist/release)")
    repeated = "can be repeated (default: all of them)"
    parser.add_argument("--arch", action="append", choices=sorted(_MACHINES), help=f"of the images; {repeated}")
    parser.add_argument("--platform", action="append", choices=sorted(krew.PLATFORMS), help=f"of the CLI; {repeated}")
    parser.add_argument("--python", action="append", choices=krew.PYTHONS, help=f"of the CLI; {repeated}")
    options = parser.parse_args(arguments)
    ours = ARCHITECTURES[platform.machine()]  # first, because the others take long
    try:
        build(
            options.out,
            options.arch or [ours, *sorted({*_MACHINES} - {ours})],
            options.platform or list(krew.PLATFORMS),
            options.python or krew.PYTHONS,
            lambda line: print(line, flush=True),
        )
    except (DevClusterError, MissingRequirementError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
