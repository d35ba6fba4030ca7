"""Whom a socket, file or event loop costs that nobody closed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEAKS = """
import gc
import socket

gc.disable()  # as when no collection falls into the test

def test_leaks():
    kept = [socket.socket()]
    kept.append(kept)  # only a collection finds it

def test_is_innocent():
    gc.collect()
"""


def test_unclosed_socket_fails_its_own_test(tmp_path: Path) -> None:
    """A test that leaves a socket open fails itself, and not the next one, in which it would be collected."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import unclosed\n", encoding="utf-8")
    (tmp_path / "test_made.py").write_text(LEAKS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"-c={ROOT / 'pyproject.toml'}"]
    run = subprocess.run([*command, f"--rootdir={tmp_path}", str(tmp_path)], cwd=ROOT, capture_output=True, check=False)
    said = run.stdout.decode()
    errors = [line.partition(" - ")[0] for line in said.splitlines() if line.startswith("ERROR ")]
    assert [error.rpartition("::")[2] for error in errors] == ["test_leaks"], said
    assert "2 passed, 1 error" in said
