"""When a prediction is worth a fast report."""

import pytest

from agent.reporter.change import has_moved

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sent", "now", "moved"),
    [
        ({"cpu": 4000}, {"cpu": 4000}, False),
        ({"cpu": 4000}, {"cpu": 4200}, False),  # exactly 5 percent is not more
        ({"cpu": 4000}, {"cpu": 4201}, True),
        ({"cpu": 4000}, {"cpu": 3799}, True),
        ({"cpu": 100}, {"cpu": 109}, False),  # 9 percent, but below 10m
        ({"cpu": 100}, {"cpu": 110}, True),
        ({"memory": 100 * MIB}, {"memory": 115 * MIB}, False),  # 15 percent, but below 16Mi
        ({"memory": 100 * MIB}, {"memory": 116 * MIB}, True),
        ({"cpu": 0}, {"cpu": 1}, True),  # from zero to something always
        ({"cpu": 0}, {"cpu": 0}, False),
        ({"cpu": 9}, {"cpu": 0}, False),
        ({"cpu": 10}, {"cpu": 0}, True),
        ({}, {"cpu": 0}, True),  # known and unknown differ
        ({"cpu": 5}, {}, True),
        ({}, {}, False),
    ],
)
def test_moved(sent: dict[str, int], now: dict[str, int], moved: bool) -> None:  # noqa: FBT001 - a column
    """More than 5 percent and at least 10m or 16Mi; from zero to something always."""
    assert has_moved(sent, now, 5) is moved
