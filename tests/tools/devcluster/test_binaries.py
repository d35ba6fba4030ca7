"""Finding and building programs: what is taken, what is refused and why, and what decides the cache's key."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools.devcluster import families
from tools.devcluster.binaries import UNUSED_SECONDS, Binaries, build, cache_key, find_cached, find_installed
from tools.devcluster.errors import DevClusterError
from tools.devcluster.families import FAMILIES, Family
from tools.devcluster.golang import PYPI_VERSION, Go, find_go
from tools.devcluster.lock import file_lock

GO = Go("1.26.6", Path("/usr/bin/go"))
DEMO = Family(
    name="demo",
    module="example.org/demo",
    packages=("example.org/demo/cmd",),
    binaries=("demo",),
    minutes=1,
    calls=("one", "two"),
)


def _program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Family:
    """A family of two programs at v1.2.3, an empty cache, and a PATH with nothing but the shell's programs."""
    module = tmp_path / "modules" / "demo"
    module.mkdir(parents=True)
    (module / "go.mod").write_text("module x\n\ngo 1.26.0\n\nrequire example.org/demo v1.2.3 // indirect\n")
    (module / "go.sum").write_text("sum\n")
    monkeypatch.setattr(families, "MODULES", tmp_path / "modules")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return DEMO


@pytest.fixture
def lines() -> list[str]:
    """What was said."""
    return []


def test_apiserver_tells_its_version() -> None:
    """The linker stamps the pinned version: without it helm refuses every chart with a kubeVersion."""
    flags = FAMILIES["kubernetes"].link_flags
    for stamp in ("gitVersion=v1.36.2", "gitMajor=1", "gitMinor=36"):
        assert f"-X k8s.io/component-base/version.{stamp}" in flags


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_modules_pin_versions(family: Family) -> None:
    """Every family names a module that its go.mod requires, at a version that Go's PyPI release can build."""
    assert family.version.startswith("v")
    assert find_go(family.go_version, path="/nowhere") == Go(PYPI_VERSION, None)
    assert tuple(map(int, family.go_version.split("."))) <= tuple(map(int, PYPI_VERSION.split(".")))


def test_path_at_same_minor(demo: Family, tmp_path: Path, lines: list[str]) -> None:
    """Programs on PATH are taken when all are there at the pinned minor version."""
    for name in demo.programs:
        _program(tmp_path / "path", name, "echo demo v1.2.9-distribution")
    assert find_installed(demo, lines.append) == {name: tmp_path / "path" / name for name in demo.programs}
    assert not lines


def test_path_at_other_minor(demo: Family, tmp_path: Path, lines: list[str]) -> None:
    """Programs of another minor version are refused in one line that says what was found and what was wanted."""
    for name in demo.programs:
        _program(tmp_path / "path", name, "echo demo v1.3.0")
    assert find_installed(demo, lines.append) is None
    assert lines == [
        f"not taken from PATH: {tmp_path}/path/one is 1.3, wanted 1.2; {tmp_path}/path/two is 1.3, wanted 1.2"
    ]


def test_path_with_part_missing(demo: Family, tmp_path: Path, lines: list[str]) -> None:
    """A part of a family is refused: its programs must be of one version."""
    _program(tmp_path / "path", "one", "echo demo v1.2.3")
    assert find_installed(demo, lines.append) is None
    assert lines == ["not taken from PATH: one without two"]


def test_path_with_broken_program(demo: Family, tmp_path: Path, lines: list[str]) -> None:
    """A program that cannot tell its version is refused, and says so."""
    for name in demo.programs:
        _program(tmp_path / "path", name, "echo segmentation fault >&2; exit 139")
    assert find_installed(demo, lines.append) is None
    assert "does not tell its version" in lines[0]


def test_assets_come_before_path(
    demo: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    """$KUBEBUILDER_ASSETS is looked at before PATH."""
    for folder in ("path", "assets"):
        for name in demo.programs:
            _program(tmp_path / folder, name, "echo demo v1.2.3")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    found = find_installed(demo, lines.append)
    assert found is not None
    assert {file.parent for file in found.values()} == {tmp_path / "assets"}


CHANGES: dict[str, Callable[[Path], object]] = {
    "go.mod": lambda module: (module / "go.mod").write_text("require (\n\texample.org/demo v1.2.4\n)\ngo 1.26.0\n"),
    "go.sum": lambda module: (module / "go.sum").write_text("other\n"),
    "main.go": lambda module: (module / "main.go").write_text("package main\n"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_key_follows_sources(demo: Family, tmp_path: Path, name: str) -> None:
    """Another go.mod, go.sum or main.go is another build."""
    before = cache_key(demo, GO)
    assert cache_key(demo, GO) == before
    CHANGES[name](tmp_path / "modules" / "demo")
    assert cache_key(demo, GO) != before


def test_key_follows_settings(demo: Family) -> None:
    """So is another Go, other tags, other stamps."""
    others = [
        cache_key(demo, replace(GO, version="1.26.7")),
        cache_key(replace(demo, tags="x"), GO),
        cache_key(replace(demo, stamps=("a=b",)), GO),
        cache_key(demo, replace(GO, program=None)),
    ]
    assert len({cache_key(demo, GO), *others[:3]}) == 4
    assert others[3] == cache_key(demo, GO)  # where Go comes from does not matter, only its version


def test_old_go_is_refused(demo: Family, tmp_path: Path) -> None:
    """A Go on PATH that is older than go.mod asks for gives way to PyPI's; a newer one is taken."""
    go = _program(tmp_path / "path", "go", "echo go version go1.25.9 linux/amd64")
    assert find_go(demo.go_version, str(tmp_path / "path")) == Go(PYPI_VERSION, None)
    _program(tmp_path / "path", "go", "echo go version go1.27.0 linux/amd64")
    assert find_go(demo.go_version, str(tmp_path / "path")) == Go("1.27.0", go)


BUILDER = """
if [ "$1" = version ]; then echo go version go1.26.6 linux/amd64; exit; fi
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho demo v1.2.3\\n' > "$2"
"""


def test_build_fills_cache(demo: Family, tmp_path: Path, lines: list[str]) -> None:
    """A build says what, with which Go and how long; the next one finds it, under every name of the family."""
    _program(tmp_path / "path", "go", BUILDER)
    assert find_cached(demo) is None
    paths = build(demo, lines.append)
    assert [line.split(" in ")[0] for line in lines] == [
        "building demo v1.2.3 with Go 1.26.6: up to 1 min on 2 cores, once",
        "built demo v1.2.3",
    ]
    assert find_cached(demo) == paths
    assert (paths["one"].is_symlink(), paths["one"].resolve().name) == (True, "demo")


def test_unused_programs_go(demo: Family, tmp_path: Path, lines: list[str]) -> None:
    """A build removes what was built of the same family before, and that nobody has asked for in thirty days."""
    _program(tmp_path / "path", "go", BUILDER)
    folder, long_ago = tmp_path / "cache/headroom/binaries", time.time() - UNUSED_SECONDS - 60
    old, recent, other, odd = (
        folder / name for name in (f"demo-{'a' * 16}", f"demo-{'b' * 16}", f"else-{'a' * 16}", "demo-x")
    )
    for each in (old, recent, other, odd):
        each.mkdir(parents=True)
        os.utime(each, (long_ago, long_ago))
    os.utime(recent)
    (current,) = {path.parent for path in build(demo, lines.append).values()}
    assert (old.exists(), recent.exists(), other.exists(), odd.exists(), current.exists()) == (
        False,
        True,
        True,
        True,
        True,
    )
    assert [line for line in lines if "removing" in line] == [f"removing {old}, which nobody has used for 30 days"]
    os.utime(current, (long_ago, long_ago))
    assert find_cached(demo)
    assert current.stat().st_mtime > long_ago + 1  # to be found is to be used


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("main.go:3: undefined: x", r"building demo failed. The end of (?s:.)*undefined: x"),
        (
            "go: example.org/demo: Get https://proxy: dial tcp: lookup proxy: no such host",
            r"cannot download the Go modules of demo: go: example.org(?s:.)*go env GOPROXY",
        ),
    ],
)
def test_failed_build_is_explained(demo: Family, tmp_path: Path, lines: list[str], output: str, said: str) -> None:
    """A failed build shows its end, one without network says what to do; neither leaves anything in the cache."""
    script = f"if [ $1 = version ]; then echo go version go1.26.6 l/a; exit; fi; echo '{output}' >&2; exit 1"
    _program(tmp_path / "path", "go", script)
    with pytest.raises(DevClusterError, match=said):
        build(demo, lines.append)
    assert find_cached(demo) is None


def test_unknown_program_is_named() -> None:
    """Asking for a program of a family that was not asked for names it."""
    with pytest.raises(DevClusterError, match="helm is not among the programs found: etcd"):
        Binaries({"etcd": Path("/bin/etcd")}).path("helm")


HOLDER = """
import sys
from pathlib import Path
from tools.devcluster.lock import file_lock
with file_lock(Path(sys.argv[1]), "the demo"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_second_builder_waits(tmp_path: Path) -> None:
    """While one process has the lock the other says for whom it waits, and gets it when the first is killed."""
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        said = []

        def say(line: str) -> None:
            said.append(line)
            holder.kill()

        with file_lock(lock, "the demo", say):
            assert lock.read_text() == str(os.getpid())
    assert said == [f"waiting for pid {holder.pid}, which has the lock of the demo (0 s)"]
