"""containerd's folder with all images imported, kept in the cache: a node starts from hard links to it in a second."""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.devcluster import containerd, sandbox
from tools.devcluster.binaries import Binaries
from tools.devcluster.commands import run
from tools.devcluster.node_init import View
from tools.devcluster.oci import Layout
from tools.devcluster.places import cache_directory, file_lock

KEPT = 3  # seeds that stay; older ones are removed when a new one is made
KEY_LENGTH = 16
CONTENTS = "images.json"  # says which images a seed has, by name and digest, and which containerd unpacked them

Say = Callable[[str], None]


def seeds_directory() -> Path:
    """The folder with one folder per set of images."""
    return cache_directory() / "node-images"


def key(images: Sequence[Layout], binaries: Binaries) -> str:
    """A key over the images' names and contents and the containerd that unpacked them."""
    lines = sorted(f"{image.name} {image.digest}" for image in images)
    return hashlib.sha256("\n".join([*lines, str(binaries.path("containerd"))]).encode()).hexdigest()[:KEY_LENGTH]


def plant(directory: Path, images: Sequence[Layout], binaries: Binaries, say: Say = print) -> None:
    """Make containerd's folder for one node, with these images in it."""
    with _held(images, binaries, say) as seed:
        copy(seed / "containerd", directory)


def prepare(images: Sequence[Layout], binaries: Binaries, say: Say = print) -> None:
    """Import these images into the cache, if they are not there, so that the next node with them starts at once."""
    with _held(images, binaries, say):
        pass


@contextmanager
def _held(images: Sequence[Layout], binaries: Binaries, say: Say) -> Iterator[Path]:
    """The seed of these images, made if it is not there; it is not removed meanwhile."""
    seed = seeds_directory() / key(images, binaries)
    with file_lock(seeds_directory() / "lock", "the node's image store", say):
        if not seed.exists():
            grow(seed, images, binaries, say)
        os.utime(seed)
        yield seed


def copy(source: Path, target: Path) -> None:
    """Copy a containerd folder by hard links; only its databases, which are written in place, are really copied."""
    run(["cp", "--archive", "--link", source, target])
    for database in target.glob("io.containerd.*/*.db"):
        content = database.read_bytes()
        database.unlink()
        database.write_bytes(content)


def grow(seed: Path, images: Sequence[Layout], binaries: Binaries, say: Say) -> None:
    """Import the images into a new seed, on top of the newest old one, so that only what changed takes time."""
    for interrupted in seeds_directory().glob(".partial-*"):
        shutil.rmtree(interrupted)
    older = sorted(seeds_directory().glob(f"*/{CONTENTS}"), key=lambda file: file.parent.stat().st_mtime)
    runtime = str(binaries.path("containerd"))
    started = time.monotonic()
    say("importing the node's images: up to 1 min the first time, some seconds after a change")
    with tempfile.TemporaryDirectory(dir=seeds_directory(), prefix=".partial-") as work:
        partial = Path(work, "seed")
        partial.mkdir()
        present: dict[str, str] = {}
        base = next((file for file in reversed(older) if json.loads(file.read_text())["containerd"] == runtime), None)
        if base:
            copy(base.with_name("containerd"), partial / "containerd")
            present = json.loads(base.read_text())["images"]
        else:
            (partial / "containerd").mkdir()
        missing = [image for image in images if present.get(image.name) != image.digest]
        _import(partial / "containerd", Path(work), missing, binaries, say)
        present |= {image.name: image.digest for image in images}
        (partial / CONTENTS).write_text(json.dumps({"containerd": runtime, "images": present}, indent=2))
        partial.rename(seed)
    for old in older[: max(0, len(older) + 1 - KEPT)]:
        shutil.rmtree(old.parent)
    say(f"imported the node's images in {time.monotonic() - started:.0f} s")


def _import(directory: Path, work: Path, images: Sequence[Layout], binaries: Binaries, say: Say) -> None:
    """Run a containerd on this folder for as long as the imports take."""
    logs = cache_directory() / "logs" / "import"
    file = work / "containerd.toml"
    file.write_text(containerd.config(directory, work, work))
    view = View(cgroup="", kept=sandbox.program_folders(binaries), binds={})
    with sandbox.open_sandbox(view, logs) as node:
        containerd.start(node, binaries, file)
        for image in images:
            started = time.monotonic()
            containerd.import_image(node, binaries, image)
            say(f"  {image.name} in {time.monotonic() - started:.1f} s")
