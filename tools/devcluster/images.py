"""The images of the real node, built on this machine without a registry, and only when their inputs have changed."""

import hashlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tools.devcluster import base_image, buildah, emulation
from tools.devcluster.binaries import Binaries, find_go, install_go
from tools.devcluster.commands import MissingRequirementError, run
from tools.devcluster.containerd import PAUSE_IMAGE
from tools.devcluster.oci import ARCHITECTURES, Layout, write_program_image
from tools.devcluster.places import cache_directory, file_lock

ROOT = Path(__file__).parents[2]
PAUSE_SOURCE = Path(__file__).with_name("pause") / "pause.go"
LOWEST_GO = "1.21"
SHARED_INPUTS = (
    ".dockerignore",
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "requirements/build.txt",
    "tools/devcluster/image_root.py",
    "crds",
)
CHART_VALUES = ",".join(  # for `helm install --set`; the chart before this one has them, too
    f"image.{part}.repository=localhost/headroom-{part},image.{part}.tag=dev" for part in ("agent", "manager")
)
KEPT = 3  # versions of an image that stay in the cache
KEY_LENGTH = 16

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """An image that is built from a Dockerfile."""

    name: str  # its name on the node, without registry and tag
    dockerfile: str
    inputs: tuple[str, ...]  # files and folders that the Dockerfile copies, beside the shared ones

    @property
    def reference(self) -> str:
        """Its full name on the node."""
        return f"localhost/{self.name}:dev"

    def files(self, root: Path) -> Iterator[Path]:
        """Every file that goes into the image, in a fixed order."""
        for name in sorted((self.dockerfile, *SHARED_INPUTS, *self.inputs)):
            path = root / name
            result = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (file for file in result if file.is_file() and not _is_built(file))

    def key(self, root: Path, base: str) -> str:
        """A key over the contents and names of all inputs and of the base image."""
        digest = hashlib.sha256(base.encode())
        for path in self.files(root):
            digest.update(f"\0{path.relative_to(root)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:KEY_LENGTH]


def _is_built(file: Path) -> bool:
    """Return whether a file was made from the sources, on this machine: .dockerignore excludes it, too."""
    return "__pycache__" in file.parts or file.suffix in (".so", ".c")


BACKTEST_INPUTS = (
    "agent/__init__.py",
    "agent/api.py",
    "agent/host",
    "agent/numerics",
    "agent/pods.py",
    "agent/prediction/__init__.py",
    "agent/prediction/policy.py",
    "agent/prediction/stated_risk.py",
    "agent/predictors",
    "agent/samples.py",
    "agent/series_index.py",
)
"""The modules of `kubectl headroom backtest`: the agent's own models."""
RECIPES = (
    Recipe(
        "headroom-agent",
        "Dockerfile.agent",
        (
            "requirements/agent.txt",
            "agent",
            "headroom",
        ),
    ),
    Recipe(
        "headroom-manager",
        "Dockerfile.manager",
        (
            "requirements/manager.txt",
            "headroom",
            "kubectl_headroom",
            "manager",
            "scheduler_plugins",
            "setup.py",
            *BACKTEST_INPUTS,
        ),
    ),
)


def images_directory() -> Path:
    """The folder with one layout per image and content."""
    return cache_directory() / "images"


def build_all(binaries: Binaries, say: Say = print, root: Path = ROOT) -> list[Layout]:
    """Build the images that the cache lacks: pause, kube-scheduler, and our own from the repository's Dockerfiles."""
    with _work(say):
        system = [_pause(say), _kube_scheduler(binaries)]
        return [*system, *_own_images(root, say)]


def build_system(binaries: Binaries, say: Say = print) -> list[Layout]:
    """Only the images without our code, which do not need debootstrap or buildah: pause and kube-scheduler."""
    with _work(say):
        return [_pause(say), _kube_scheduler(binaries)]


def has_base() -> bool:
    """Return whether the cache has the base image, the longest part of a build."""
    return _cached("base", base_image.host_source().key).exists()


@contextmanager
def _work(say: Say) -> Iterator[None]:
    """Hold the images' lock; what an interrupted build left is removed first."""
    with file_lock(images_directory() / "lock", "the container images", say):
        for partial in images_directory().glob(".partial-*"):
            shutil.rmtree(partial, ignore_errors=True)
        yield


def _cached(name: str, key: str) -> Path:
    return images_directory() / f"{name}-{key}"


def _versions(name: str) -> list[Path]:
    """Return the cached builds of an image, the oldest first."""
    result = images_directory().glob(f"{name}-" + "[0-9a-f]" * KEY_LENGTH)
    return sorted(result, key=lambda path: path.stat().st_mtime)


def _trim(name: str) -> None:
    for old in _versions(name)[:-KEPT]:
        shutil.rmtree(old)


def _program_image(name: str, reference: str, key: str, path: str, make: Callable[[Path], Path]) -> Layout:
    directory = _cached(name, key)
    if not directory.exists():
        with tempfile.TemporaryDirectory(dir=images_directory(), prefix=".partial-") as work:
            program = make(Path(work))
            write_program_image(Path(work, "layout"), reference, program, path).directory.rename(directory)
        _trim(name)
    os.utime(directory)
    return Layout(reference, directory)


def _pause(say: Say) -> Layout:
    key = hashlib.sha256(PAUSE_SOURCE.read_bytes()).hexdigest()[:KEY_LENGTH]

    def compile_it(work: Path) -> Path:
        go = find_go(LOWEST_GO)[1] or install_go(say)
        command: list[str | Path] = [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", work / "pause", PAUSE_SOURCE]
        run(command, env={**os.environ, "CGO_ENABLED": "0"}, timeout_seconds=600)
        return work / "pause"

    return _program_image("pause", PAUSE_IMAGE, key, "/pause", compile_it)


def _kube_scheduler(binaries: Binaries) -> Layout:
    program = binaries.path("kube-scheduler").resolve()
    stat = program.stat()
    key = hashlib.sha256(f"{program} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:KEY_LENGTH]
    reference = f"localhost/kube-scheduler:{binaries.kubernetes_version}"
    path = "/usr/local/bin/kube-scheduler"
    return _program_image("kube-scheduler", reference, key, path, lambda _: program)


def build_own(machine: str, say: Say = print, root: Path = ROOT) -> list[Layout]:
    """Build our own images for a machine, as `platform.machine()` names it, unless the cache has them."""
    with _work(say):
        return _own_images(root, say, machine)


def _own_images(root: Path, say: Say, machine: str = platform.machine()) -> list[Layout]:
    origin = replace(base_image.host_source(), machine=machine)
    suffix = "" if machine == platform.machine() else f"-{machine}"
    wanted = {recipe: _cached(recipe.name + suffix, recipe.key(root, origin.key)) for recipe in RECIPES}
    if not all(directory.exists() for directory in wanted.values()):
        if os.geteuid() != 0:
            raise MissingRequirementError("building container images needs root on Linux: run it with sudo")
        with emulation.running(machine, say):
            _build_own(root, origin, wanted, say)
    for directory in wanted.values():
        os.utime(directory)
    return [Layout(recipe.reference, directory) for recipe, directory in wanted.items()]


def _build_own(root: Path, origin: base_image.Source, wanted: dict[Recipe, Path], say: Say) -> None:
    directory = _cached("base", origin.key)
    base = Layout(base_image.NAME, directory) if directory.exists() else base_image.build(origin, directory, say)
    tag = f"{base_image.NAME}-{origin.key}"
    with buildah.session() as builder:
        if not builder.has(tag):
            builder.add(base, tag)
        for recipe, target in wanted.items():
            if target.exists():
                continue
            cached = target.name.removesuffix(f"-{target.name[-KEY_LENGTH:]}")
            started, name = time.monotonic(), recipe.reference + cached.removeprefix(recipe.name)
            say(f"building {name}: up to 1 min the first time, some seconds after a change")
            builder.build(recipe.dockerfile, root, tag, name, ARCHITECTURES[origin.machine])
            layouts = [base, *(Layout(name, path) for path in _versions(cached)[-1:])]
            with tempfile.TemporaryDirectory(dir=images_directory(), prefix=".partial-") as work:
                builder.export(name, Path(work, "layout"), layouts).directory.rename(target)
            _trim(cached)
            say(f"built {name} in {time.monotonic() - started:.0f} s")


def main(say: Say = print) -> None:
    """Build all images and list them: `python -m tools.devcluster images`."""
    started = time.monotonic()
    for image in build_all(Binaries.find_or_build(["kubernetes"], say), say):
        size = sum(image.blob(digest).stat().st_size for digest in image.blobs())
        say(f"{image.name}  {image.digest[:19]}  {size / 1e6:.0f} MB  {image.directory}")
    say(f"all images are ready ({time.monotonic() - started:.0f} s)")
