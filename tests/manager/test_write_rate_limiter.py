import pytest

from manager.inputs import Resource
from manager.write_rate_limiter import WriteKind, WriteRateLimiter

CPU, MEMORY = Resource.CPU, Resource.MEMORY
BURST, REFILL = 3, 10.0


@pytest.mark.parametrize(
    ("before", "writes", "kind"),
    [
        ({}, {CPU: 4000}, WriteKind.FIRST),
        ({CPU: 4000}, {MEMORY: 1}, WriteKind.FIRST),
        ({CPU: 4000}, {CPU: 3999}, WriteKind.DECREASE),
        ({CPU: 4000}, {CPU: None}, WriteKind.DECREASE),
        ({CPU: 4000}, {CPU: 4001}, WriteKind.INCREASE),
        ({CPU: None}, {CPU: 1}, WriteKind.INCREASE),  # it comes back
        ({CPU: 4000}, {CPU: 4000}, WriteKind.REPEAT),
        ({CPU: None}, {CPU: None}, WriteKind.REPEAT),  # another writer publishes removed amounts
        ({CPU: 4000, MEMORY: 9}, {CPU: 4000, MEMORY: 8}, WriteKind.DECREASE),
        ({CPU: 4000, MEMORY: 9}, {CPU: 4000, MEMORY: 10}, WriteKind.INCREASE),
    ],
)
def test_kinds_of_writes(
    before: dict[Resource, int | None], writes: dict[Resource, int | None], kind: WriteKind
) -> None:
    assert WriteRateLimiter(written=before).write_kind(writes) is kind


def test_increases_are_limited() -> None:
    """After a burst an increase waits until a token is back, not longer; a decrease never, but it takes tokens."""
    limiter = WriteRateLimiter()

    def wait(amount: int | None, now: float) -> float:
        return limiter.wait({CPU: amount}, BURST, REFILL, now)

    for amount in range(100, 100 + BURST):
        assert wait(amount, 0.0) == 0.0
        limiter.record({CPU: amount}, REFILL, 0.0)
    assert [wait(999, now) for now in (0.0, 4.0, 10.0)] == [REFILL, pytest.approx(6.0), 0.0]
    for amount in range(99, 82, -1):
        assert wait(amount, 0.0) == 0.0
        limiter.record({CPU: amount}, REFILL, 0.0)
    assert (wait(None, 0.0), wait(999, 0.0)) == (0.0, 18 * REFILL)


def test_contested_amount_is_written_at_the_rate_of_tokens() -> None:
    limiter, written = WriteRateLimiter(), 0
    for second in range(600):
        if limiter.wait({CPU: 4000}, BURST, REFILL, float(second)) == 0.0:
            limiter.record({CPU: 4000}, REFILL, float(second))
            written += 1
    assert written == BURST + 59
