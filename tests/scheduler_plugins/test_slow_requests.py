"""Requests that kube-scheduler did not wait for show in /healthz and in a metric."""

from prometheus_client import CollectorRegistry

from scheduler_plugins.extender.slow_requests import SlowRequests


class _Site:
    def __init__(self) -> None:
        self.now, self.registry = 1000.0, CollectorRegistry()
        self.slow = SlowRequests(self.registry, lambda: self.now)

    def count(self) -> float:
        return self.registry.get_sample_value("headroom_scheduler_slow_requests_total", {"verb": "filter"}) or 0.0


def test_slow_request_fails_health_for_five_minutes() -> None:
    site = _Site()
    site.slow.observe("filter", site.now - 0.9)
    assert (site.count(), site.slow.complaint()) == (0, "")
    site.slow.observe("filter", site.now - 1.5)
    site.now += 10
    site.slow.tick()
    site.now += 0.2
    site.slow.observe("filter", site.now)
    assert site.count() == 1
    assert site.slow.complaint().startswith(
        "answers that came after more than 1 s: 1, the longest after 1.5 s, the last 10 s ago; "
    )
    site.now += 300
    assert site.slow.complaint() == ""
    site.slow.tick()
    site.now += 0.2
    site.slow.tick()
    site.slow.observe("filter", site.now - 2)
    assert site.slow.complaint().startswith("answers that came after more than 1 s: 1, the longest after 2.0 s")


def test_wait_for_a_busy_loop_counts() -> None:
    """A request that was read when the event loop was idle again may have waited since the loop became busy."""
    for ticks in (True, False):
        site = _Site()
        site.slow.tick()
        site.now += 1.5  # a change of a pod keeps the loop busy
        received = site.now
        if ticks:
            site.slow.tick()
        site.slow.observe("filter", received)
        assert site.count() == 1
        assert "the longest after 1.5 s" in site.slow.complaint()


def test_wait_of_others_does_not_count() -> None:
    site = _Site()
    site.now += 1.5
    site.slow.tick()
    site.now += 0.15
    site.slow.observe("filter", site.now)
    assert site.count() == 0
