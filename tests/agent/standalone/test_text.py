"""Amounts and times in a narrow column."""

import pytest

from agent.standalone.text import cores, size, span


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (900, "900"), (1 << 20, "1.0Mi"), (3328599654, "3.1Gi"), (500 << 30, "500Gi")],
)
def test_size(value: float | None, text: str) -> None:
    """Bytes in the largest unit that fits; what is unknown is no zero."""
    assert size(value) == text


def test_cores() -> None:
    """Cores have two decimals; what is unknown is no zero."""
    assert (cores(0.284), cores(0.0), cores(None)) == ("0.28", "0.00", "-")


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59.9, "59s"), (75, "1m15s"), (86400, "1d"), (90061, "1d1h")])
def test_span(seconds: float, text: str) -> None:
    """The two largest units say enough."""
    assert span(seconds) == text
