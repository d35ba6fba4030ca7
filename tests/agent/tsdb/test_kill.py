import random
from pathlib import Path

import pytest

from tests.agent.tsdb.deaths import Nursery, die, left_behind, orders, suicides

DEATHS = 200
LONGEST_SECONDS = 60.0


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(LONGEST_SECONDS * DEATHS)
def test_kill_loses_nothing(tmp_path: Path) -> None:
    """Two hundred times, in every kind of moment: compaction, roll-up, retention, checkpoint and the rest."""
    with Nursery.open() as nursery:
        for number, (order, seconds) in enumerate(orders(tmp_path, random.Random(DEATHS), DEATHS)):  # noqa: S311
            assert die(nursery, order, seconds) == "", f"death {number}, {order}"
    assert left_behind(tmp_path) == []
    assert suicides(tmp_path) == DEATHS // 2
