"""Growing waits."""

import pytest

from headroom.runtime.backoff import LONGEST_RETRY_AFTER_SECONDS, Backoff


def test_backoff_grows_and_ends() -> None:
    """Waits double up to the longest, also after a year of failures, and begin anew after a success."""
    backoff = Backoff(1.0, 30.0)
    assert [backoff.failed() for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]
    backoff.succeeded()
    assert backoff.failed() == 1
    backoff.failures = 1_000_000
    assert backoff.failed() == 30


def test_backoff_is_jittered() -> None:
    """Waits differ by up to the jitter, so that clients do not come back together."""
    waits = [Backoff(1.0, 30.0, (0.9, 1.1), failures=10).failed() for _ in range(100)]
    assert all(27 <= wait <= 33 for wait in waits)
    assert len(set(waits)) > 50


@pytest.mark.parametrize(("asked", "least"), [(5.0, 5.0), (0.0, 0.9), (1e9, LONGEST_RETRY_AFTER_SECONDS), (None, 0.9)])
def test_server_is_left_alone(asked: float | None, least: float) -> None:
    """A server is never asked again before the time that it names; one that names a year is not believed."""
    waits = [Backoff(1.0, 30.0, (0.9, 1.1)).failed(asked) for _ in range(50)]
    assert min(waits) >= least
    assert max(waits) <= max(least * 1.25, 1.1)
