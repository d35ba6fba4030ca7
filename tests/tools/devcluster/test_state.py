"""Which clusters run: names, folders, and what happens when two want one name."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tools.devcluster import state
from tools.devcluster.errors import DevClusterError
from tools.devcluster.places import clusters_directory, state_directory


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short folder of our own for the clusters' state."""
    with TemporaryDirectory(prefix="hr") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def test_folder_is_private(runtime: Path) -> None:
    """The folder holds keys: only its owner may look."""
    assert clusters_directory() == runtime / "headroom"
    assert clusters_directory().stat().st_mode & 0o777 == 0o700


def test_long_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder too long for unix sockets is refused before anything starts."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp/" + "x" * 80)  # noqa: S108 - not made
    with pytest.raises(DevClusterError, match="too long for unix sockets: set XDG_RUNTIME_DIR"):
        clusters_directory()


@pytest.mark.parametrize("name", ["", "UPPER", "a_b", "-a", "a-", "../up", "x" * 21])
def test_bad_name_is_refused(name: str) -> None:
    """A name that is no short DNS label is refused."""
    with pytest.raises(DevClusterError, match="use 1 to 20 of a-z, 0-9"):
        state_directory(name)


def test_name_is_taken() -> None:
    """Two clusters cannot have one name; the error says how to end the first."""
    claimed = state.claim("demo", None, 3)
    assert (claimed.alive, state.read("demo"), list(state.clusters())) == (True, claimed, [claimed])
    with pytest.raises(DevClusterError, match=r"python -m tools\.devcluster down demo"):
        state.claim("demo", None, 3)


def test_dead_owner_gives_way() -> None:
    """A cluster whose owner is gone gives its name away, also when its pid was given to another process."""
    claimed = state.claim("demo", None, 3)
    record = json.loads((claimed.directory / state.FILE).read_text())
    (claimed.directory / state.FILE).write_text(json.dumps(record | {"pid_start": record["pid_start"] + 1}))
    (claimed.directory / "rest").touch()
    assert state.claim("demo", "node-1", 0).real_node == "node-1"
    assert not (claimed.directory / "rest").exists()


def test_broken_record_is_no_cluster() -> None:
    """A record that cannot be read is not listed."""
    claimed = state.claim("demo", None, 3)
    (claimed.directory / state.FILE).write_text("{")
    assert list(state.clusters()) == []


def test_end_stops_owner() -> None:
    """Ending a cluster ends its owner and removes what it left."""
    claimed = state.claim("demo", None, 3)
    with subprocess.Popen(["sleep", "100"]) as owner:
        other = state.ClusterState("demo", owner.pid, state.process_start(owner.pid), None, 3)
        assert other.alive
        state.end(other, 5.0)
        assert owner.poll() is not None
    assert not claimed.directory.exists()
