"""Nobody is evicted again and again in vain."""

from headroom.runtime.backoff import Backoff
from scheduler_plugins.preemption.eviction_backoff import EARLY_SECONDS, WorkloadBackoff

BACK_OFF = Backoff(60, 300)


def test_early_end_counts() -> None:
    guard, now = WorkloadBackoff(BACK_OFF), 0.0
    for wait in (60, 120):
        guard.freed_resources("uid", "ns/Job/j", now)
        guard.reconcile({"uid"}, now + 1)
        assert guard.waits("ns/Job/j", now + 1) == 0
        now += EARLY_SECONDS - 1
        guard.reconcile(set(), now)
        assert guard.waits("ns/Job/j", now) == wait
        assert guard.waits("ns/Job/another", now) == 0
        now += wait
        assert guard.waits("ns/Job/j", now) == 0


def test_late_end_does_not() -> None:
    """A pod that stayed used its room, whatever becomes of it."""
    guard = WorkloadBackoff(BACK_OFF)
    guard.freed_resources("uid", "w", 0.0)
    guard.reconcile({"uid"}, EARLY_SECONDS)
    guard.reconcile(set(), EARLY_SECONDS + 1)
    assert guard.waits("w", EARLY_SECONDS + 1) == 0


def test_peace_forgives() -> None:
    """After as long as the longest wait without trouble it begins at the first again."""
    guard = WorkloadBackoff(BACK_OFF)
    guard.freed_resources("one", "w", 0.0)
    guard.reconcile(set(), 10.0)
    guard.reconcile(set(), 10.0 + 60 + 300)
    guard.freed_resources("two", "w", 400.0)
    guard.reconcile(set(), 410.0)
    assert guard.waits("w", 410.0) == 60
