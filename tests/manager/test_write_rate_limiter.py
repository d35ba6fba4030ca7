"""How often one node may be written to."""

from collections.abc import Mapping

import pytest

from manager.inputs import Resource
from manager.write_rate_limiter import WriteKind, WriteRateLimiter

CPU, MEMORY = Resource.CPU, Resource.MEMORY
BURST, REFILL = 3, 10.0


def _wait(budget: WriteRateLimiter, writes: Mapping[Resource, int | None], now: float) -> float:
    return budget.wait(writes, BURST, REFILL, now)


@pytest.mark.parametrize(
    ("before", "writes", "write_kind"),
    [
        ({}, {CPU: 4000}, WriteKind.FIRST),
        ({CPU: 4000}, {MEMORY: 1}, WriteKind.FIRST),
        ({CPU: 4000}, {CPU: 3999}, WriteKind.DECREASE),
        ({CPU: 4000}, {CPU: None}, WriteKind.DECREASE),
        ({CPU: 4000}, {CPU: 4001}, WriteKind.INCREASE),
        ({CPU: None}, {CPU: 1}, WriteKind.INCREASE),  # it comes back
        ({CPU: 4000}, {CPU: 4000}, WriteKind.REPEAT),
        ({CPU: None}, {CPU: None}, WriteKind.REPEAT),  # somebody else offers what we have taken away
        ({CPU: 4000, MEMORY: 9}, {CPU: 4000, MEMORY: 8}, WriteKind.DECREASE),
        ({CPU: 4000, MEMORY: 9}, {CPU: 4000, MEMORY: 10}, WriteKind.INCREASE),
    ],
)
def test_writes_are_told_apart(
    before: dict[Resource, int | None], writes: dict[Resource, int | None], write_kind: WriteKind
) -> None:
    """A write is the first one, lets the node offer less or more, or says again what was said."""
    assert WriteRateLimiter(written=before).write_kind(writes) is write_kind


def test_increases_are_limited() -> None:
    """After a burst an increase waits until a token is back, not longer."""
    budget = WriteRateLimiter()
    for amount in range(BURST):
        assert _wait(budget, {CPU: amount}, 0.0) == 0.0
        budget.record({CPU: amount}, REFILL, 0.0)
    assert _wait(budget, {CPU: 9}, 0.0) == REFILL
    assert _wait(budget, {CPU: 9}, 4.0) == pytest.approx(6.0)
    assert _wait(budget, {CPU: 9}, 10.0) == 0.0


def test_decreases_pass() -> None:
    """What lets a node offer less is never held back, whatever was written before; it takes tokens all the same."""
    budget = WriteRateLimiter()
    for amount in range(20, 0, -1):
        assert _wait(budget, {CPU: amount}, 0.0) == 0.0
        budget.record({CPU: amount}, REFILL, 0.0)
    assert _wait(budget, {CPU: None}, 0.0) == 0.0
    assert _wait(budget, {CPU: 30}, 0.0) == 18 * REFILL


def test_fight_is_limited() -> None:
    """Who changes our numbers all the time gets an answer at the rate of the tokens, not at his own."""
    budget, written = WriteRateLimiter(), 0
    for second in range(600):
        if _wait(budget, {CPU: 4000}, float(second)) == 0.0:
            budget.record({CPU: 4000}, REFILL, float(second))
            written += 1
    assert written == BURST + 59
