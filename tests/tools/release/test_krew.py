"""The archives for krew. krew itself cannot be had here: its steps with an archive are done by hand."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.tools.release.conftest import HERE
from tools.release import krew

ROOT = Path(__file__).parents[3]


def _installed(filled: Path, tmp_path: Path) -> Path:
    """As krew leaves it: unpacked into its store, and linked from a folder on the PATH."""
    archive = tmp_path / "a.tar.gz"
    krew.pack(filled, archive)
    store = tmp_path / "store"
    with tarfile.open(archive) as packed:
        packed.extractall(store, filter="data")
    link = tmp_path / "bin" / "kubectl-headroom"
    link.parent.mkdir()
    link.symlink_to(store / "kubectl-headroom")
    return link


def _run(program: Path, *words: str, cwd: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path or f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    return subprocess.run(
        [str(program), *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.alone
def test_plugin_starts_from_its_archive(filled: Path, tmp_path: Path) -> None:
    """Linked as krew does, the plugin runs with the archive's libraries, whatever lies in the folder you are in."""
    link = _installed(filled, tmp_path)
    (tmp_path / "headroom.py").write_text("raise SystemExit('the wrong headroom')")
    done = _run(link, "version", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("kubectl headroom 9.9\n", "")
    (tmp_path / "config.json").write_text('{"midEviction": {"mode": "x"}}')
    assert 'one of "off", "dry-run", "on"' in _run(link, "config", "check", "config.json", cwd=tmp_path).stdout
    completing = link.with_name("kubectl_complete-headroom")
    completing.symlink_to(link.resolve())
    assert _run(completing, "vers", cwd=tmp_path).stdout.splitlines()[0].split("\t")[0] == "version"


@pytest.mark.alone
def test_missing_python_is_reported(filled: Path, tmp_path: Path) -> None:
    """Without a Python that the archive has libraries for, one line says which it has."""
    shutil.move(filled / "lib" / HERE, filled / "lib" / "2.7")
    done = _run(_installed(filled, tmp_path), "version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "kubectl headroom: this archive needs one of Python 2.7 on the PATH\n"


def test_manifest_names_each_archive() -> None:
    """The manifest for an index names an archive for every platform that can be built."""
    result = yaml.safe_load((ROOT / ".krew.yaml").read_text())
    assert result["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    labels = [platform["selector"]["matchLabels"] for platform in result["spec"]["platforms"]]
    assert [f"{label['os']}/{label['arch']}" for label in labels] == list(krew.PLATFORMS)
    for entry in result["spec"]["platforms"]:
        assert entry["uri"].endswith("_{os}_{arch}.tar.gz".format(**entry["selector"]["matchLabels"]))


@pytest.mark.alone
def test_wheel_runs_in_a_new_environment(tmp_path: Path) -> None:
    """In a new environment the wheel's commands are there, and run with the files that belong to them."""
    wheel = krew._wheel(tmp_path)
    assert wheel.name.endswith("-py3-none-any.whl")  # archives for other platforms have it, too
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=120)
    python = environment / "bin" / "python"
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(wheel)]
    subprocess.run(pip, check=True, timeout=300)
    # Libraries come from where they are already: our own part is under test.
    site = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (site / "libraries.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    plugin = str(environment / "bin" / "kubectl-headroom")
    assert run(plugin, "version").startswith("kubectl headroom 0.")
    assert run(str(environment / "bin" / "kubectl_complete-headroom"), "vers").startswith("version\t")
    profile = "from scheduler_plugins.profile import DEFAULT_PROFILE as p; print(p, p.is_file())"
    where, there = run(str(python), "-P", "-c", profile).split()
    assert (Path(where).is_relative_to(site), there) == (True, "True")
