"""System packages: what is missing is named, and installed only where that can work."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.devcluster import packages
from tools.devcluster.errors import DevClusterError, MissingRequirementError
from tools.devcluster.packages import Package

ABSENT = Package("demo-tools", "shows things", ("no-such-program-anywhere",))
APT = 'echo "$@" >> {log}\nif [ $2 = install ]; then {install}; fi\n'


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One package is missing, its program would be in this folder, and the user is root."""
    monkeypatch.setattr(packages, "missing", lambda *_: [one for one in (ABSENT,) if not one.present])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def _apt(folder: Path, install: str) -> None:
    file = folder / "apt-get"
    file.write_text("#!/bin/sh\n" + APT.format(log=folder / "log", install=install))
    file.chmod(0o755)


def test_presence_is_what_counts(tmp_path: Path) -> None:
    """A package is present when its programs and one file of each group are there, wherever they come from."""
    there = tmp_path / "there"
    there.touch()
    assert Package("x", "y", ("sh",), ((tmp_path / "absent", there),)).present
    assert not Package("x", "y", ("sh",), ((tmp_path / "absent",), (there,))).present
    assert not ABSENT.present


def test_installs_and_names_first(missing: Path) -> None:
    """As root with apt-get, the missing packages are named and installed, without recommended ones."""
    program = missing / ABSENT.programs[0]
    _apt(missing, f"touch {program}; chmod +x {program}")
    said: list[str] = []
    packages.install(said.append)
    assert said == ["installing system packages: demo-tools (shows things)"]
    assert (missing / "log").read_text().splitlines() == [
        "-qq update",
        "-qq install -y --no-install-recommends demo-tools",
    ]


def test_installs_take_turns(missing: Path) -> None:
    """Of two that install at once, one waits: apt-get fails where another one is at work."""
    program = missing / ABSENT.programs[0]
    _apt(
        missing,
        f"mkdir {missing}/busy || exit 100; sleep 0.3; touch {program}; chmod +x {program}; rmdir {missing}/busy",
    )
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(packages.install_packages, [ABSENT], lambda _: None) for _ in range(2)]:
            done.result()


def test_failed_install_is_shown(missing: Path) -> None:
    """What apt-get says when it fails is shown, with what to do."""
    _apt(missing, "echo E: no network; exit 100")
    with pytest.raises(DevClusterError, match=r"install demo-tools by hand:\n    E: no network"):
        packages.install(print)


def test_useless_install_is_noticed(missing: Path) -> None:
    """An installation that brings nothing is an error."""
    _apt(missing, "true")
    with pytest.raises(MissingRequirementError, match="still missing after apt-get: what demo-tools bring"):
        packages.install(print)


def test_other_systems_are_told(missing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without apt-get, one line says what to install."""
    monkeypatch.setenv("PATH", str(missing))
    with pytest.raises(MissingRequirementError, match="install what Debian calls demo-tools"):
        packages.install(print)


def test_user_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root nothing is installed, and the line says what does not work and what does."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said: list[str] = []
    packages.install(said.append)
    assert said == ["no system packages are needed: the real node needs root: run with sudo; kwok nodes work without"]
