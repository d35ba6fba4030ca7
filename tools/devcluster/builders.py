"""Build the images for a registry of yours, with whichever of docker, podman and buildah works on this machine."""

import argparse
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from tools.devcluster import images
from tools.devcluster.commands import DevClusterError, MissingRequirementError
from tools.devcluster.image_root import EPOCH
from tools.devcluster.images import RECIPES, ROOT

BUILD_SECONDS: Final = 3600.0
PULL_SECONDS: Final = 600.0
ANSWER_SECONDS: Final = 30.0
# Each builder's way to give all files one time; docker's needs BuildKit, which rewrites them as it exports.
BUILDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "docker": ("build", "--build-arg", f"SOURCE_DATE_EPOCH={EPOCH}"),
    "podman": ("build", "--timestamp", str(EPOCH), "--identity-label=false"),
    "buildah": ("build", "--timestamp", str(EPOCH), "--identity-label=false"),
}
"""Programs in the order in which they are tried, and how each builds."""
_INSPECT: Final[Mapping[str, tuple[str, ...]]] = {
    "docker": ("image", "inspect", "--format", "{{.RepoDigests}}"),
    "podman": ("image", "inspect", "--format", "{{.RepoDigests}}"),
    "buildah": ("inspect", "--type", "image", "--format", "{{.FromImageDigest}}"),
}
"""How each tells the digest that a registry has for an image."""

Say = Callable[[str], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m tools.devcluster images` for images that leave this machine."""
    parser.add_argument(
        "--prefix", help="registry and path, such as registry.example/headroom: build for that registry"
    )
    parser.add_argument("--tag", default="latest", help="with --prefix: the images' tag (default: latest)")
    base = "with --prefix: the base (default: the digest that is now behind the tag of the Dockerfiles)"
    parser.add_argument("--base", metavar="IMAGE", help=base)
    parser.add_argument("--builder", choices=tuple(BUILDERS), help="with --prefix: the program (default: what works)")


def find(wanted: str | None = None) -> str:
    """The builder to use: it must be installed, and answer, which a docker without a daemon does not."""
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


def main(options: argparse.Namespace) -> None:
    """Build the images: with a prefix by docker, podman or buildah for a registry, else for dev clusters."""
    if options.prefix:
        _build(options, functools.partial(print, flush=True))
    else:
        images.main()


def _build(options: argparse.Namespace, say: Say) -> None:
    builder = find(options.builder)
    based = ("--build-arg", f"BASE_IMAGE={_pinned(builder, options.base or _default_base(), say)}")
    environment = {**os.environ, "DOCKER_BUILDKIT": "1", "SOURCE_DATE_EPOCH": str(EPOCH)}
    made = []
    for recipe in RECIPES:
        name = f"{options.prefix.rstrip('/')}/{recipe.name}:{options.tag}"
        say(f"building {name} with {builder}")
        command = (builder, *BUILDERS[builder], *based, "--file", recipe.dockerfile, "--tag", name, ".")
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=BUILD_SECONDS)
        if done.returncode != 0:
            raise DevClusterError(f"{builder} could not build {recipe.dockerfile} (exit code {done.returncode})")
        made.append(name)
    say(f"push them with: {' && '.join(f'{builder} push {name}' for name in made)}")


def _default_base() -> str:
    """The base that the Dockerfiles name, which is one for both."""
    texts = [(ROOT / recipe.dockerfile).read_text(encoding="utf-8") for recipe in RECIPES]
    found = {name for text in texts for name in re.findall(r"^ARG BASE_IMAGE=(\S+)$", text, re.MULTILINE)}
    if len(found) != 1:
        raise DevClusterError(f"the Dockerfiles name {len(found)} bases, not one: {', '.join(sorted(found))}")
    return str(found.pop())


def _pinned(builder: str, base: str, say: Say) -> str:
    """A base by the digest that its registry has for it now, so that both images have the same one."""
    if "@sha256:" in base:
        return base
    try:
        subprocess.run([builder, "pull", base], check=True, capture_output=True, timeout=PULL_SECONDS)
        words = (builder, *_INSPECT[builder], base)
        told = subprocess.run(words, check=True, capture_output=True, text=True, timeout=ANSWER_SECONDS).stdout
    except (OSError, subprocess.SubprocessError) as error:
        say(f"the base {base} is not pinned by digest, as its registry cannot be asked: {error}")
        return base
    digest = re.search(r"sha256:[0-9a-f]{64}", told)
    if digest is None:
        say(f"the base {base} is not pinned by digest: it comes from no registry")
        return base
    exactly = f"{base}@{digest[0]}"
    say(f"the base is {exactly}; to build on the same one again: --base {exactly}")
    return exactly
