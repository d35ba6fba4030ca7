from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.recorded import RecordedMachine, unpack


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
def recorded(unpacked: Callable[[str], Path], tmp_path: Path) -> Callable[[str], RecordedMachine]:
    """A recorded machine of a kind, at its first instant."""

    def make(kind: str) -> RecordedMachine:
        machine = RecordedMachine(unpacked(kind), tmp_path / kind)
        machine.advance("t000")
        return machine

    return make
