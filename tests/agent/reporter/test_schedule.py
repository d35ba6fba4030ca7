"""When reports are made."""

import pytest

from agent.reporter.schedule import phase_of, until_next


def test_thousand_nodes_spread() -> None:
    """Of a thousand nodes that come back at the same moment, hardly more than their share reports in any second."""
    waits = [until_next(1_700_000_000.0, 60.0, phase_of(f"node-{number}")) for number in range(1000)]
    assert all(30 <= wait < 90 for wait in waits)
    per_second = [sum(second <= wait < second + 1 for wait in waits) for second in range(30, 90)]
    assert max(per_second) <= 34  # 1000 / 60 = 16.7 on average
    assert phase_of("node-1") == phase_of("node-1")


@pytest.mark.parametrize(
    ("now", "wait"),
    [
        (15.0, 60.0),  # on time
        (15.2, 59.8),  # a little late: back on time
        (14.9, 60.1),  # a little early
        (20.0, 55.0),
        (50.0, 85.0),  # too close to the next moment: the one after it
        (45.0, 30.0),  # exactly half an interval is enough
    ],
)
def test_node_keeps_its_moment(now: float, wait: float) -> None:
    """A node with phase 0.25 reports 15 s past each minute, whenever its last report was."""
    assert until_next(1_699_999_980.0 + now, 60.0, 0.25) == pytest.approx(wait)
