"""Build images from Dockerfiles with buildah, in a store of our own in the cache."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.devcluster.commands import CommandError, DevClusterError, MissingRequirementError, run
from tools.devcluster.containerd import lies_on_overlay
from tools.devcluster.image_root import EPOCH
from tools.devcluster.oci import Layout, adopt
from tools.devcluster.places import cache_directory

CERTIFICATES = Path("/etc/ssl/certs")
PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout", "retries")
"""This machine's settings of pip that hold inside a build too."""
LARGEST_STORE_MEBIBYTES = 8192
"""A larger store is cleared: unused layers cannot be distinguished from those of the next build."""
BUILD_SECONDS = 1200.0
LAST_LINES = 15


def store_directory() -> Path:
    """Folder with the layers of our images: a build repeats only what changed."""
    return cache_directory() / "buildah"


@contextmanager
def session() -> Iterator["Buildah"]:
    """A use of the store; to be held by one process at a time."""
    if shutil.which("buildah") is None:
        raise MissingRequirementError("buildah is not installed: install it (Debian, Ubuntu: apt-get install buildah)")
    store_directory().mkdir(parents=True, exist_ok=True)
    if int(run(["du", "--summarize", "--block-size=1M", store_directory()]).split()[0]) > LARGEST_STORE_MEBIBYTES:
        shutil.rmtree(store_directory())
        store_directory().mkdir()
    with tempfile.TemporaryDirectory(prefix="headroom-buildah-") as work:
        yield Buildah(Path(work))


class Buildah:
    """The program buildah, with our store; its mounts end with each command."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._pip_config = work / "pip.conf"
        self._pip_config.write_text(pip_config(run([sys.executable, "-m", "pip", "config", "list"])))

    def run(self, *argv: str | Path, cwd: Path | None = None) -> str:
        """Run a command of buildah and return its output."""
        driver = "vfs" if lies_on_overlay(store_directory()) else "overlay"
        options = [f"--root={store_directory()}", f"--runroot={self._work / 'run'}", f"--storage-driver={driver}"]
        return run(
            ["unshare", "--mount", "buildah", *options, *argv],
            cwd=cwd,
            env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
            timeout_seconds=BUILD_SECONDS,
        )

    def has(self, name: str) -> bool:
        """Return whether the store has an image of this name."""
        try:
            self.run("inspect", "--type", "image", "--format", "{{.FromImageID}}", name)
        except CommandError:
            return False
        return True

    def add(self, image: Layout, name: str) -> None:
        """Put an image into the store under a name."""
        link = self._work / "base"  # buildah makes a name from the path, and not every path is one
        link.symlink_to(image.directory)
        identity = self.run("pull", "--quiet", f"oci:{link.name}", cwd=self._work).split()[-1]
        link.unlink()
        self.run("tag", identity, name)

    def build(self, dockerfile: str, context: Path, base: str, tag: str, architecture: str) -> None:
        """Build an image from a Dockerfile; unchanged layers are taken from the store."""
        options = [
            f"--arch={architecture}",
            "--layers",
            "--network=host",
            "--pull-never",
            f"--build-arg=BASE_IMAGE={base}",
        ]
        # Only the content of an image decides about its digest: not the time or buildah's version.
        options += [f"--timestamp={EPOCH}", "--identity-label=false", f"--volume={self._pip_config}:/etc/pip.conf:ro"]
        if CERTIFICATES.is_dir():
            options.append(f"--volume={CERTIFICATES}:{CERTIFICATES}:ro")
        try:
            self.run("bud", *options, "--file", dockerfile, "--tag", tag, ".", cwd=context)
        except CommandError as error:
            lines = error.output.strip().splitlines()[-LAST_LINES:]
            raise DevClusterError(
                f"building {dockerfile} failed. The end of its output:\n" + "\n".join(f"    {line}" for line in lines)
            ) from error

    def export(self, name: str, directory: Path, known: Sequence[Layout]) -> Layout:
        """Write an image of the store as a layout; layers that `known` ones have are shared with them."""
        # Of the forms that keep blobs apart, only `dir:` leaves them uncompressed, which saves most of the time.
        self.run("push", "--quiet", "--disable-compression", "--format", "oci", name, f"dir:{directory}")
        image = adopt(directory, name)
        for layout in known:
            for digest in {*layout.blobs()} & {*image.blobs()}:
                image.blob(digest).unlink()
                image.blob(digest).hardlink_to(layout.blob(digest))
        return image


def pip_config(listing: str) -> str:
    """The pip configuration for a build.

    Args:
        listing: what `pip config list` prints: lines `section.key='value'`, the strongest last.
    """
    settings: dict[str, str] = {}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        key = name.rpartition(".")[2]
        if key in PIP_SETTINGS:
            settings[key.removeprefix("default-")] = value.strip("'\"").replace("\\n", "\n  ")
    if (CERTIFICATES / "ca-certificates.crt").exists():
        settings["cert"] = str(CERTIFICATES / "ca-certificates.crt")
    return "[global]\n" + "".join(f"{key} = {value}\n" for key, value in sorted(settings.items()))
