"""kill -9 in the middle of writing: nothing that was appended is lost, doubled or reordered; nothing needs repair."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.tsdb.deaths import Nursery, die, left_behind, orders, suicides

DEATHS = 200
LONGEST_SECONDS = 60.0


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    """A warmed process that forks writers."""
    with Nursery.open() as found:
        yield found


def _die(nursery: Nursery, folder: Path, deaths: int) -> None:
    chance = random.Random(deaths)  # noqa: S311 - no secret
    for number, (order, seconds) in enumerate(orders(folder, chance, deaths)):
        assert die(nursery, order, seconds) == "", f"death {number}, {order}"
    assert left_behind(folder) == []


@pytest.mark.long
def test_kill_loses_nothing(nursery: Nursery, tmp_path: Path) -> None:
    """Processes that are killed while they write leave every acknowledged sample, once and in order."""
    _die(nursery, tmp_path, 8)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(LONGEST_SECONDS * DEATHS)
def test_many_kills_lose_nothing(nursery: Nursery, tmp_path: Path) -> None:
    """The same two hundred times, in every kind of moment: compaction, roll-up, retention, checkpoint and the rest."""
    _die(nursery, tmp_path, DEATHS)
    assert suicides(tmp_path) == DEATHS // 2
