"""What a trial of quotas in trouble has to have tried."""

from collections import Counter
from collections.abc import Sequence

import pytest

from tools.soak.progress import Telling
from tools.soak.quota_history import Bound, Event, Evicted, LeaseTaken
from tools.soak.quotas import judge

LEADERS: Sequence[Event] = [LeaseTaken(0, "one"), LeaseTaken(9, "two")]
ENOUGH: Sequence[Event] = [
    *(Bound(1, f"p{number}", "a", {}, 0) for number in range(20)),
    *(Evicted(2, "one", f"v{number}", "c") for number in range(2)),
]


@pytest.mark.parametrize(
    ("found", "troubles", "failed"),
    [
        ([*ENOUGH, *LEADERS], 4, 0),
        ([*ENOUGH, *LEADERS[:1]], 4, 1),  # the Lease never changed hands
        ([*ENOUGH[1:], *LEADERS], 4, 1),
        ([*ENOUGH[:-1], *LEADERS], 4, 1),
        ([*ENOUGH, *LEADERS], 3, 1),
    ],
)
def test_enough_is_tried(found: Sequence[Event], troubles: int, failed: int) -> None:
    """A run without a change of leader, or with few bindings, evictions or troubles, shows nothing."""
    telling = Telling(60)
    judge(telling, [], found, Counter({"kill extender": troubles}))
    assert (telling.checked, telling.failed) == (2, failed)


def test_faults_are_named() -> None:
    """A fault in the history fails the trial."""
    telling = Telling(60)
    judge(telling, ["nobody held the lease"], [*ENOUGH, *LEADERS], Counter({"kill extender": 4}))
    assert telling.failed == 1
