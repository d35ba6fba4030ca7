"""Which program builds images for a registry, and how: with programs that stand in for docker, podman and buildah."""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, SHIPPED, modules
from tools.devcluster import builders
from tools.devcluster.errors import DevClusterError, MissingRequirementError
from tools.devcluster.image_root import EPOCH
from tools.devcluster.images import RECIPES, Recipe

WORKS = "exit 0"
NO_DAEMON = "echo 'Client: 28'; echo 'Cannot connect to the Docker daemon. Is it running?' >&2; exit 1"
QUIET_NO_DAEMON = "echo 'ERROR: Cannot connect to the Docker daemon'; exit 0"
Install = Callable[..., Path]
IMPORT = re.compile(r"^ *(?:import (\w+)|from (\w+)[\w.]* import )", re.MULTILINE)
OTHER_NAMES = {"yaml": "pyyaml"}
"""Distributions that are imported by another name."""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts programs of these names on PATH, and nothing else; each notes what it was asked."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()

    def write(**programs: str) -> Path:
        for name, text in programs.items():
            path = tmp_path / "bin" / name
            path.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/asked\n{text}\n')
            path.chmod(0o755)
        return tmp_path / "asked"

    return write


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        ({"docker": WORKS, "podman": WORKS, "buildah": WORKS}, "docker"),
        ({"docker": NO_DAEMON, "podman": WORKS, "buildah": WORKS}, "podman"),
        ({"docker": QUIET_NO_DAEMON, "buildah": WORKS}, "buildah"),
        ({"buildah": WORKS}, "buildah"),
    ],
)
def test_first_that_works(install: Install, programs: dict[str, str], expected: str) -> None:
    """The first that is installed and answers is taken; a docker without a daemon is none."""
    install(**programs)
    assert builders.find() == expected


def test_none_is_told(install: Install) -> None:
    """Where none works, each is named with its reason; a wish for one is not answered with another."""
    install(docker=NO_DAEMON, buildah=WORKS)
    with pytest.raises(MissingRequirementError, match="docker: Cannot connect to the Docker daemon"):
        builders.find("docker")
    with pytest.raises(MissingRequirementError, match="podman: not installed"):
        builders.find("podman")


def _options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    builders.add_options(parser)
    return parser.parse_args(words)


def test_builds_both(install: Install, tmp_path: Path) -> None:
    """Both images are built from their Dockerfiles, on the base that is asked for, under names of the registry."""
    asked = install(podman=WORKS)
    names = builders.build(
        _options("--prefix=r.example/h/", "--tag=1.2", "--base=b@sha256:1"), lambda _: None, tmp_path
    )
    assert names == ["r.example/h/headroom-agent:1.2", "r.example/h/headroom-manager:1.2"]
    common = f"podman build --timestamp {EPOCH} --identity-label=false --build-arg BASE_IMAGE=b@sha256:1"
    assert asked.read_text().splitlines() == [
        "podman info",
        f"{common} --file Dockerfile.agent --tag {names[0]} .",
        f"{common} --file Dockerfile.manager --tag {names[1]} .",
    ]


def test_failed_build_is_told(install: Install) -> None:
    """A build that fails ends with the name of its Dockerfile."""
    install(buildah='[ "$1" = info ] || exit 3')
    with pytest.raises(DevClusterError, match=r"buildah could not build Dockerfile.agent \(exit code 3\)"):
        builders.build(_options("--prefix=x"), lambda _: None)


@pytest.mark.parametrize("program", ["docker", "podman", "buildah"])
def test_base_is_pinned(install: Install, program: str) -> None:
    """A base that is given by its tag is asked for at its registry, and both images are built on that very digest."""
    digest, said = f"sha256:{'5' * 64}", list[str]()
    asked = install(**{program: f'case "$*" in *inspect*) echo "[docker.io/library/python@{digest}]";; esac'})
    builders.build(_options("--prefix=x", f"--builder={program}"), said.append)
    exactly = f"{builders.default_base()}@{digest}"
    builds = [line for line in asked.read_text().splitlines() if " build " in f"{line} "]
    assert len(builds) == 2
    assert all(f"--build-arg BASE_IMAGE={exactly} " in line for line in builds)
    assert f"the base is {exactly}; to build on the same one again: --base {exactly}" in said


@pytest.mark.parametrize(
    ("text", "why"),
    [('[ "$1" != pull ]', "its registry cannot be asked"), ("echo '[]'", "it comes from no registry")],
)
def test_base_without_digest_is_told(install: Install, text: str, why: str) -> None:
    """Where no registry tells a digest, the tag is built on, and that is said."""
    install(podman=text)
    said: list[str] = []
    builders.build(_options("--prefix=x", "--base=localhost/mine:1"), said.append)
    assert any("localhost/mine:1 is not pinned by digest" in line and why in line for line in said)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_needs_are_what_is_imported(recipe: Recipe) -> None:
    """An image keeps the libraries that its packages import, and none for the sake of another image."""
    text = (ROOT / recipe.dockerfile).read_text()
    packages = [
        name
        for name in re.findall(r"^COPY (\w+|headroom/\w+) /build/source/\1$", text, re.MULTILINE)
        if name.split("/")[0] in SHIPPED
    ]
    texts = (path.read_text() for package in packages for _, path in modules(package))
    names = {one or other for text in texts for one, other in IMPORT.findall(text)}
    libraries = {
        OTHER_NAMES.get(name, name.replace("_", "-"))
        for name in names - {*SHIPPED, "_typeshed"} - sys.stdlib_module_names
    }
    (line,) = re.findall(r"image_root.py libraries .* --needs (.*)$", text, re.MULTILINE)
    # For login programs of kubeconfigs, and for pictures, which an image has not.
    assert {*line.split()} == libraries - {"kubernetes", "matplotlib"}
