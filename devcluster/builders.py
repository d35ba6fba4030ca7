"""Build the images for a registry of yours, with whichever of docker, podman and buildah works on this machine."""

import argparse
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from devcluster.errors import DevClusterError, MissingRequirementError
from devcluster.image_root import EPOCH
from devcluster.images import RECIPES, ROOT

BUILD_SECONDS: Final = 3600.0
ANSWER_SECONDS: Final = 30.0
# Each builder's way to give all files one time; docker's needs BuildKit, which rewrites them as it exports.
BUILDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "docker": ("build", "--build-arg", f"SOURCE_DATE_EPOCH={EPOCH}"),
    "podman": ("build", "--timestamp", str(EPOCH), "--identity-label=false"),
    "buildah": ("build", "--timestamp", str(EPOCH), "--identity-label=false"),
}
"""Programs in the order in which they are tried, and how each builds."""

Say = Callable[[str], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m devcluster images` for images that leave this machine."""
    parser.add_argument(
        "--prefix", help="registry and path, such as registry.example/headroom: build into the builder's own store"
    )
    parser.add_argument("--tag", default="latest", help="with --prefix: the images' tag (default: latest)")
    parser.add_argument("--base", metavar="IMAGE", help="with --prefix: the base (default: as the Dockerfiles say)")
    parser.add_argument(
        "--builder", choices=tuple(BUILDERS), help="with --prefix: the program (default: the first that works)"
    )


def find(wanted: str | None = None) -> str:
    """The builder to use: it must be installed, and answer, which a docker without a daemon does not.

    Args:
        wanted: the only one that will do.

    Raises:
        MissingRequirementError: none works; with what each said.
    """
    said = []
    for name in [wanted] if wanted else BUILDERS:
        fault = _fault(name)
        if fault is None:
            return name
        said.append(f"{name}: {fault}")
    raise MissingRequirementError("no program here can build images. " + "; ".join(said))


def _fault(name: str) -> str | None:
    """Why a program cannot build; None where it can."""
    if shutil.which(name) is None:
        return "not installed"
    try:
        done = subprocess.run([name, "info"], check=False, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    # Docker's client answers for itself with status 0 in some versions, and says only in words that there is no daemon.
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode != 0 or any("annot connect" in line for line in (*lines, *done.stdout.splitlines())):
        return (lines or ["does not answer"])[-1].strip()
    return None


def build(options: argparse.Namespace, say: Say = print, root: Path = ROOT) -> list[str]:
    """Build both images into the builder's own store.

    Args:
        options: of `add_options`, with a prefix.
        say: takes lines of progress.
        root: the repository.

    Returns:
        The images' names.

    Raises:
        MissingRequirementError: no builder works.
        DevClusterError: a build failed; what it said is on the terminal.
    """
    builder = find(options.builder)
    made = []
    for recipe in RECIPES:
        name = f"{options.prefix.rstrip('/')}/{recipe.name}:{options.tag}"
        say(f"building {name} with {builder}")
        command = build_command(builder, recipe.dockerfile, name, options.base)
        environment = {**os.environ, "DOCKER_BUILDKIT": "1", "SOURCE_DATE_EPOCH": str(EPOCH)}
        done = subprocess.run(command, cwd=root, env=environment, check=False, timeout=BUILD_SECONDS)
        if done.returncode != 0:
            raise DevClusterError(f"{builder} could not build {recipe.dockerfile} (exit code {done.returncode})")
        made.append(name)
    say(f"push them with: {' && '.join(f'{builder} push {name}' for name in made)}")
    return made


def build_command(builder: str, dockerfile: str, name: str, base: str | None) -> Sequence[str]:
    """The command that builds an image."""
    based = ("--build-arg", f"BASE_IMAGE={base}") if base else ()
    return (builder, *BUILDERS[builder], *based, "--file", dockerfile, "--tag", name, ".")
