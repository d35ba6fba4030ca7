"""Images: their rebuilds, their base, and the statements of their Dockerfiles."""

import fnmatch
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tools.devcluster import base_image, buildah
from tools.devcluster.base_image import Source
from tools.devcluster.commands import MissingRequirementError
from tools.devcluster.images import RECIPES, SHARED_INPUTS, Recipe

DEBIAN = 'ID=debian\nVERSION_CODENAME=trixie\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n'
UBUNTU = "ID=ubuntu\nVERSION_CODENAME=noble\n"
FEDORA = "ID=fedora\nVERSION_ID=42\n"


@pytest.mark.parametrize(
    ("os_release", "targets", "expected"),
    [
        (
            DEBIAN,
            "http://mirror/debian-security trixie-security main\nhttp://mirror/debian/ trixie main\n",
            Source("trixie", "http://mirror/debian", ("main",)),
        ),
        (
            UBUNTU,
            "http://archive/ubuntu noble universe\nhttp://archive/ubuntu noble main\n",
            Source("noble", "http://archive/ubuntu", ("main", "universe")),  # pip is in universe
        ),
        (FEDORA, "", Source("bookworm", "http://deb.debian.org/debian", ("main",))),  # no apt
        (DEBIAN, "http://other/repo stable main\n", Source("bookworm", "http://deb.debian.org/debian", ("main",))),
        ("", "", Source("bookworm", "http://deb.debian.org/debian", ("main",))),
    ],
)
def test_base_follows_the_machine(os_release: str, targets: str, expected: Source) -> None:
    """The base is the machine's own release from the mirror of its apt; elsewhere Debian's."""
    assert base_image.source(os_release, targets) == expected


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in (*SHARED_INPUTS, "Dockerfile.x", "requirements/x.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "crds":
            path.mkdir()
            (path / "__init__.py").write_text(f'"""{name}"""')
        else:
            path.write_text(name)
    return tmp_path


RECIPE = Recipe("x", "Dockerfile.x", ("requirements/x.txt",))


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "crds" / "__init__.py").write_text("x = 1"),
        lambda root: (root / "crds" / "new.py").touch(),
        lambda root: (root / "crds" / "new.pyx").touch(),
        lambda root: (root / "crds" / "__init__.py").rename(root / "crds" / "other.py"),
        lambda root: (root / "requirements" / "x.txt").write_text("numpy==1"),
        lambda root: (root / "Dockerfile.x").write_text("FROM scratch"),
    ],
    ids=["content", "new file", "new Cython file", "name", "library", "Dockerfile"],
)
def test_change_builds_again(repository: Path, change: Callable[[Path], object]) -> None:
    before = RECIPE.key(repository, "base")
    change(repository)
    assert RECIPE.key(repository, "base") != before


@pytest.mark.parametrize("name", ["__pycache__/x.pyc", "x.cpython-311-x86_64-linux-gnu.so", "x.c"])
def test_built_files_are_no_input(repository: Path, name: str) -> None:
    """A file that this machine made from the sources does not build an image again, and does not enter it."""
    before = RECIPE.key(repository, "base")
    (repository / "crds" / name).parent.mkdir(exist_ok=True)
    (repository / "crds" / name).touch()
    assert RECIPE.key(repository, "base") == before
    _, _, excluded = (ROOT / ".dockerignore").read_text().rpartition("\n!")
    patterns = [line.removeprefix("**/") for line in excluded.splitlines() if line.startswith("**/")]
    assert any(fnmatch.fnmatch(part, pattern) for part in Path(name).parts for pattern in patterns)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_recipe_names_the_copied_files(recipe: Recipe) -> None:
    """The files that decide about a build are those that the Dockerfile copies, and the build context has them."""
    text = (ROOT / recipe.dockerfile).read_text()
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()}
    assert copied | {".dockerignore"} == {*SHARED_INPUTS, *recipe.inputs}
    admitted = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert all(
        any(fnmatch.fnmatch(name if name.startswith("tools/") else name.split("/")[0], pattern) for pattern in admitted)
        for name in copied
    )


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_dockerfile_suits_users(recipe: Recipe) -> None:
    """The base is an argument with a public default, libraries come by hash, and the image does not run as root."""
    text = (ROOT / recipe.dockerfile).read_text()
    assert "ARG BASE_IMAGE=docker.io/library/python:" in text
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE_IMAGE}", "base", "scratch"}
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE)[-1] == "scratch"  # the rest stays in its stages
    assert "--require-hashes" in text
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["65532:65532"]
    assert json.loads(re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[0]) == [f"/opt/headroom/bin/{recipe.name}"]


def test_pip_settings_reach_the_build() -> None:
    """The machine's index and proxy hold in the build, the strongest setting wins, and other settings stay outside."""
    listing = (
        "global.index-url='https://one/simple'\n"
        ":env:.index-url='https://two/simple'\n"
        "global.cert='/home/me/ca.pem'\n"
        ":env:.default-timeout='180'\n"
        "global.find-links='/opt/wheels'\n"
    )
    config = buildah.pip_config(listing)
    assert "index-url = https://two/simple\n" in config
    assert "timeout = 180\n" in config
    assert "find-links" not in config
    assert "/home/me" not in config


def test_missing_buildah_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingRequirementError, match="apt-get install buildah"), buildah.session():
        pass
