"""The build of the compiled module: in place for the virtual environment, and left out without a compiler."""

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT


def test_environment_has_the_module() -> None:
    """Where gcc and Python.h are, `make venv` has built the module."""
    if shutil.which("gcc") is None or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("no gcc or no Python.h: scheduler_plugins.steps runs in Python")
    assert str(importlib.import_module("scheduler_plugins.steps.compiled").__file__).endswith(".so")


@pytest.mark.alone
def test_compiler_is_optional(tmp_path: Path) -> None:
    """Without a compiler the wheel has all but the compiled module; a build that requires the module fails."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "scheduler_plugins/steps", tmp_path / "scheduler_plugins/steps", ignore=ignored)
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)

    def build(**environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(tmp_path)]
        variables = {**os.environ, "CC": "no-such-compiler", **environment}
        return subprocess.run(command, env=variables, check=False, capture_output=True, text=True, timeout=120)

    done = build()
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "scheduler_plugins/steps/__init__.py" in names
    assert not [name for name in names if name.endswith((".c", ".pyx", ".so"))]
    required = build(HEADROOM_COMPILED="required")
    assert required.returncode != 0
    assert "no-such-compiler" in required.stderr
