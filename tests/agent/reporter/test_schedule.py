"""When reports are made."""

import random

import pytest

from agent.reporter.schedule import LONGEST_OBEYED_SECONDS, Backoff, phase_of, until_next


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


def test_backoff_grows_and_ends() -> None:
    """Waits double up to the longest, and begin anew after a success."""
    backoff = Backoff(30.0, 0.0)
    assert [backoff.failed() for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]
    backoff.succeeded()
    assert backoff.failed() == 1


def test_backoff_is_jittered() -> None:
    """Waits differ by up to the jitter, so that nodes do not come back together."""
    waits = []
    for seed in range(100):
        backoff = Backoff(30.0, 0.1, random.Random(seed), failures=10)  # noqa: S311
        waits.append(backoff.failed())
    assert all(27 <= wait <= 33 for wait in waits)
    assert len(set(waits)) > 50


@pytest.mark.parametrize(("asked", "least"), [(5.0, 5.0), (0.0, 0.9), (1e9, LONGEST_OBEYED_SECONDS), (None, 0.9)])
def test_server_is_left_alone(asked: float | None, least: float) -> None:
    """A server is never asked again before the time that it names; one that names a year is not believed."""
    waits = [Backoff(30.0, 0.1, random.Random(seed)).failed(asked) for seed in range(50)]  # noqa: S311
    assert min(waits) >= least
    assert max(waits) <= max(least * 1.25, 1.1)


def test_endless_outage_is_bounded() -> None:
    """After a year of failures a wait is as after a minute."""
    backoff = Backoff(30.0, 0.0, failures=1_000_000)
    assert backoff.failed() == 30
