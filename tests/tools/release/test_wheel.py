"""The wheel: what pip installs of it runs, from outside of the project."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tools.release import krew


@pytest.mark.alone
def test_wheel_runs_in_a_new_environment(tmp_path: Path) -> None:
    """In a new environment the wheel's commands are there, and run with the files that belong to them."""
    wheel = krew._wheel(tmp_path)
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=120)
    python = environment / "bin" / "python"
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(wheel)]
    subprocess.run(pip, check=True, timeout=300)
    # Libraries come from where they are already: what is tried here is our own part.
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
