from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.recorded import Make, RecordedMachine, unpack


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("captures")
    done: dict[str, Path] = {}

    def find(kind: str) -> Path:
        if kind not in done:
            done[kind] = unpack(kind, folder)
        return done[kind]

    return find


@pytest.fixture
def recorded(unpacked: Callable[[str], Path], tmp_path: Path) -> Make:
    def make(kind: str) -> RecordedMachine:
        machine = RecordedMachine(unpacked(kind), tmp_path / kind)
        machine.advance("t000")
        return machine

    return make


@pytest.fixture
def machine(recorded: Make) -> RecordedMachine:
    """A with ten pods."""
    return recorded("v2-systemd")
