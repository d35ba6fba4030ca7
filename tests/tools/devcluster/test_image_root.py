"""What the Dockerfiles do inside a build, on small trees: links, times, bytecode, and which libraries stay."""

import hashlib
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tools.devcluster import image_root
from tools.devcluster.image_root import EPOCH, remove_unused, settle_all, take


def test_take_follows_links(tmp_path: Path) -> None:
    """A file behind links in its folders and at its end comes with all of them, and is found by the same name."""
    real = tmp_path / "real"
    (real / "lib-1").mkdir(parents=True)
    (real / "lib-1/x.so.1.2").write_text("x")
    (real / "lib-1/x.so.1").symlink_to("x.so.1.2")
    (real / "lib-1/x.so").symlink_to(real / "lib-1/x.so.1")  # an absolute one
    (real / "lib").symlink_to("lib-1")
    target = tmp_path / "target"
    take(real / "lib" / "x.so", target)
    copy = target / real.relative_to("/")
    assert sorted(path.name for path in (copy / "lib-1").iterdir()) == ["x.so", "x.so.1", "x.so.1.2"]
    assert (copy / "lib").readlink() == Path("lib-1")
    assert (copy / "lib/x.so.1").read_text() == "x"
    take(real / "lib-1" / ".." / "lib" / "x.so", target)  # what is there already may come again


def _tree(folder: Path, moment: int) -> Path:
    (folder / "package").mkdir(parents=True)
    (folder / "package/module.py").write_text(
        "NAMES = {'a', 'b', 'c'}\n\n\ndef f() -> frozenset[str]:\n    return NAMES\n"
    )
    (folder / "package/data.txt").write_text("data")
    (folder / "package/__pycache__").mkdir()
    (folder / "package/__pycache__/module.old.pyc").write_text("of another interpreter")
    os.utime(folder / "package/module.py", (moment, moment))
    return folder


def _digests(folder: Path) -> dict[str, tuple[str, float]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime)
        for path in files
    }


def test_settled_trees_are_equal(tmp_path: Path) -> None:
    """Neither the folder of the build nor the time of a file is in the result; bytecode is valid whatever the times."""
    trees = [_tree(tmp_path / "one", 1_000_000_000), _tree(tmp_path / "another/place", 1_700_000_000)]
    for tree in trees:
        settle_all(tree, Path("/opt/headroom"))
    first, second = map(_digests, trees)
    assert first == second
    assert {moment for _, moment in first.values()} == {EPOCH}
    (compiled,) = trees[0].rglob("*.pyc")
    assert struct.unpack("<4xI", compiled.read_bytes()[:8]) == (1,)  # by hash, and never checked
    assert b"/opt/headroom/package/module.py" in compiled.read_bytes()


def test_epoch_may_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SOURCE_DATE_EPOCH decides where it is set."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    settle_all(_tree(tmp_path / "tree", 5), Path("/x"))
    assert (tmp_path / "tree/package/data.txt").stat().st_mtime == 1_000_000_000


def _install(site: Path, name: str, *requires: str) -> None:
    info = site / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{needs}")
    (site / name / "tests").mkdir(parents=True)
    files = [f"{name}/__init__.py", f"{name}/x.pyi", f"{name}/tests/test_x.py", f"{name}-1.dist-info/METADATA"]
    for file in files[:3]:
        (site / file).touch()
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in [*files, f"{name}-1.dist-info/RECORD"]))


def test_what_is_needed_stays(tmp_path: Path) -> None:
    """A library stays when ours or one that stays requires it here; tests and stubs go, and installers always."""
    site = tmp_path / "lib/python3.11/site-packages"
    _install(site, "wanted", "Deep", 'windows; sys_platform == "win32"', 'more; extra == "all"', "pip")
    for name in ("deep", "windows", "more", "pip", "other"):
        _install(site, name)
    (tmp_path / "bin").mkdir()
    for name in ("python3", "pip", "normalizer"):
        (tmp_path / "bin" / name).touch()
    remove_unused(tmp_path, ["Wanted"])
    assert sorted(path.name for path in site.iterdir()) == ["deep", "deep-1.dist-info", "wanted", "wanted-1.dist-info"]
    assert [path.name for path in (site / "wanted").iterdir()] == ["__init__.py"]
    assert [path.name for path in (tmp_path / "bin").iterdir()] == ["python3"]


def test_missing_library_ends_the_build(tmp_path: Path) -> None:
    """What the code imports and the lock does not install is named."""
    _install(tmp_path / "lib/python3.11/site-packages", "deep")
    with pytest.raises(SystemExit, match="absent is needed, and the lock does not install it"):
        remove_unused(tmp_path, ["absent"])


def test_runs_with_python_alone() -> None:
    """The file imports nothing that a build stage has not, before it is asked which libraries stay."""
    command = [sys.executable, "-I", "-S", str(image_root.__file__), "--help"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "system" in done.stdout
