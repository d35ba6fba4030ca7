"""Contents of our images: complete, minimal, reproducible, and without rights."""

import json
import re
import shutil
import struct
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tools.devcluster import base_image, images
from tools.devcluster.binaries import Binaries
from tools.devcluster.families import REAL_NODE
from tools.devcluster.image_root import EPOCH, USER
from tools.devcluster.images import RECIPES, SHARED_INPUTS, Recipe
from tools.devcluster.oci import Layout
from tools.devcluster.one_container import execute, image_config, unpack

pytestmark = pytest.mark.node

PROGRAMS = {
    "headroom-agent": {"headroom-agent"},
    "headroom-manager": {"headroom-manager", "headroom-scheduler", "kubectl-headroom"},
}
PACKAGES = {
    "headroom-agent": {"agent", "crds", "headroom"},
    "headroom-manager": {"agent", "crds", "headroom", "manager", "scheduler_plugins"},
}
COMPILED = {"headroom-agent": [], "headroom-manager": ["compiled"]}
FORBIDDEN = {
    "pip",
    "setuptools",
    "wheel",
    "pytest",
    "hypothesis",
    "kubernetes",
    "requests",
    "mypy",
    "tests",
    "ensurepip",
    "idlelib",
}
PYC_FLAGS = struct.Struct("<4xI")
HASH_NOT_CHECKED = 1
IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(len([name for name in sys.modules if name.partition(".")[0] in sys.argv[1:]]))
"""


@dataclass(frozen=True, slots=True)
class Contents:
    layout: Layout
    entries: dict[str, tarfile.TarInfo]

    @property
    def name(self) -> str:
        return self.layout.name.partition("/")[2].partition(":")[0]

    @property
    def programs(self) -> set[str]:
        """Every file outside the libraries that can be run."""
        run = (entry for entry in self.entries.values() if entry.isfile() and entry.mode & 0o111)
        return {
            item.name
            for item in run
            if not re.search(r"\.so(\.|$)", item.name) and "/python3" not in Path(item.name).parent.as_posix()
        }

    def read(self, name: str) -> bytes:
        for digest in reversed(self.layout.blobs()[2:]):
            with tarfile.open(self.layout.blob(digest)) as layer:
                if name in layer.getnames() and (file := layer.extractfile(name)) is not None:
                    return file.read()
        raise AssertionError(f"{name} is not in {self.name}")


@pytest.fixture(scope="module")
def binaries(real_node_requirements: None) -> Binaries:  # noqa: ARG001 - it skips
    return Binaries.find_or_build(REAL_NODE, lambda _: None)


@pytest.fixture(scope="module")
def built(binaries: Binaries) -> dict[str, Layout]:
    result = images.build_all(binaries, lambda _: None)
    return {entry.name.partition("/")[2].partition(":")[0]: entry for entry in result if "headroom" in entry.name}


@pytest.fixture(scope="module", params=sorted(PROGRAMS))
def contents(request: pytest.FixtureRequest, built: dict[str, Layout]) -> Contents:
    layout = built[request.param]
    entries: dict[str, tarfile.TarInfo] = {}
    for digest in layout.blobs()[2:]:
        with tarfile.open(layout.blob(digest)) as layer:
            entries |= {entry.name.rstrip("/"): entry for entry in layer}
    return Contents(layout, entries)


def test_programs_are_listed(contents: Contents) -> None:
    """The executables are Python and our commands: no shell, no package manager, no compiler."""
    ours = {f"opt/headroom/bin/{name}" for name in PROGRAMS[contents.name]}
    python = {name for name in contents.programs if re.fullmatch(r"usr/(local/)?bin/python3[.0-9]*", name)}
    assert contents.programs - python - ours == set()
    assert ours < contents.programs
    assert python


def test_no_code_that_is_not_run(contents: Contents) -> None:
    """There is no test, no installer, no header, no library without use, and no package of another image."""
    parts = {part for name in contents.entries for part in Path(name).parts}
    assert parts & FORBIDDEN == set()
    files = [Path(name) for name in contents.entries]
    assert [
        path
        for path in files
        if path.name == "conftest.py" or path.suffix in (".c", ".h", ".pyi", ".a", ".pxd", ".pyx")
    ] == []
    packages = {
        path.parts[5] for path in files if len(path.parts) == 7 and path.parts[:3] == ("opt", "headroom", "lib")
    }
    allowed = {"agent", "crds", "headroom", "manager", "scheduler_plugins", "tools"}
    assert packages & allowed == PACKAGES[contents.name]


def test_nothing_to_climb(contents: Contents) -> None:
    """Everything belongs to root, nothing gains its owner's rights, and only /tmp can be written by others."""
    assert [entry.name for entry in contents.entries.values() if entry.mode & 0o6000 and entry.isfile()] == []
    assert {(entry.uid, entry.gid) for entry in contents.entries.values()} == {(0, 0)}
    loose = [entry.name for entry in contents.entries.values() if entry.mode & 0o002 and not entry.issym()]
    assert loose == ["tmp"]


def test_nothing_of_the_builder(contents: Contents) -> None:
    """No time, no user, no path and no certificate authority of the machine that built is in it."""
    assert {entry.mtime for entry in contents.entries.values()} == {EPOCH}
    assert "etc/pip.conf" not in contents.entries
    base = next(images.images_directory().glob(f"base-{base_image.host_source().key}"))
    bundle = Contents(Layout(base_image.NAME, base), {}).read("./etc/ssl/certs/ca-certificates.crt")
    assert contents.read("etc/ssl/certs/ca-certificates.crt") == bundle
    config = image_config(contents.layout)
    assert config["created"] == "1980-01-01T00:00:00Z"
    assert "/work" not in json.dumps(config)
    assert str(ROOT) not in json.dumps(config)


def test_image_config_has_the_command(contents: Contents) -> None:
    """Architecture, user and entry point are those that the chart relies on."""
    config = image_config(contents.layout)
    assert config["architecture"] in ("amd64", "arm64")
    assert config["config"]["User"] == f"{USER}:{USER}"
    assert config["config"]["Entrypoint"] == [f"/opt/headroom/bin/{contents.name}"]
    assert contents.read("etc/passwd").splitlines()[-1].startswith(f"headroom:x:{USER}:{USER}:".encode())


def test_bytecode_holds_without_times(contents: Contents) -> None:
    """Every module is compiled, and no time stamp can make that invalid: nothing is compiled again at each start."""
    modules = [name for name in contents.entries if name.endswith(".py") and "/python3" in name]
    tag = next(name for name in contents.entries if name.endswith(".pyc")).split(".")[-2]
    compiled = {f"{Path(name).parent}/__pycache__/{Path(name).stem}.{tag}.pyc" for name in modules}
    assert len(modules) > 100
    assert compiled - contents.entries.keys() == set()
    for name in ("headroom/kube/__pycache__/api", "numpy/__pycache__/__init__"):
        (result,) = [entry for entry in contents.entries if entry.endswith(f"site-packages/{name}.{tag}.pyc")]
        assert PYC_FLAGS.unpack(contents.read(result)[: PYC_FLAGS.size]) == (HASH_NOT_CHECKED,)


def test_scanners_find_the_packages(contents: Contents) -> None:
    """The base's packages in it are named, in the form that image scanners know."""
    folder = "var/lib/dpkg/status.d/"
    packages = {name.removeprefix(folder) for name in contents.entries if name.startswith(folder)}
    assert {"libc6", "libssl3"} < {re.sub(r"t64$", "", name) for name in packages}
    assert packages & {"bash", "dpkg", "apt", "coreutils", "perl-base"} == set()
    assert re.search(r"^Version: \S+$", contents.read(f"{folder}libc6").decode(), re.MULTILINE)
    assert any(name.endswith("os-release") for name in contents.entries)


@pytest.fixture
def container(contents: Contents, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Runs a command in the image, without rights and on a read-only root."""
    (tmp_path / "root").mkdir()
    unpack(contents.layout, tmp_path / "root")

    def run(*argv: str) -> tuple[int, str]:
        done = execute(contents.layout, tmp_path, *argv)
        return done.returncode, done.stdout + done.stderr

    return run


def test_runs_without_rights(contents: Contents, container: Callable[..., tuple[int, str]]) -> None:
    """Every command starts on a read-only root without capabilities, and every module of ours can be imported."""
    for program in sorted(PROGRAMS[contents.name]):
        code, said = container(program, "--help")
        assert (code, said[:6]) == (0, "usage:"), said
    code, said = container("python3", "-c", "open('/opt/headroom/written', 'w')")
    assert code == 1
    assert "Read-only file system" in said
    code, said = container("python3", "-c", IMPORT_ALL, *sorted(PACKAGES[contents.name]))
    assert code == 0, said
    assert int(said.splitlines()[-1]) > 30
    code, said = container("python3", "-c", "import ssl; print(len(ssl.create_default_context().get_ca_certs()))")
    assert int(said) > 20


def test_compiled_module_loads(contents: Contents, container: Callable[..., tuple[int, str]]) -> None:
    """The manager's image has the compiled module, which loads there; the agent's has no machine code of ours."""
    ours = "|".join(PACKAGES[contents.name])
    compiled = [name for name in contents.entries if re.search(rf"/site-packages/({ours})/.*\.so$", name)]
    assert [Path(name).name.partition(".")[0] for name in compiled] == COMPILED[contents.name]
    if compiled:
        code, said = container("python3", "-c", "import scheduler_plugins.steps.compiled")
        assert code == 0, said


@pytest.mark.long
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_same_sources_same_image(
    recipe: Recipe, binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image that is built again from the same contents, every step of it, has the same digest."""
    monkeypatch.setattr(images, "RECIPES", (recipe,))
    for name in (recipe.dockerfile, *SHARED_INPUTS, *recipe.inputs):
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    first = images.build_all(binaries, lambda _: None, tmp_path)[-1]
    for name in ("tools/devcluster/image_root.py", recipe.inputs[0], "requirements/build.txt"):
        with (tmp_path / name).open("a") as file:  # so that no step's result is taken from an earlier build
            file.write(f"\n# a line of {tmp_path}\n")
    again = images.build_all(binaries, lambda _: None, tmp_path)[-1]
    assert again.directory != first.directory
    assert again.blobs() == first.blobs()
