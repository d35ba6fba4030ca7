import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from crds.names import ANNOTATION_COLOCATION_STRATEGY
from manager.config.merge import effective_strategy
from manager.config.parse import parse_config
from manager.mid.eviction.limits import LONGEST_SECONDS, EvictionBackoff, EvictionSettings, SlidingMinute

WALL = 1_800_000_000.0


def test_minute_slides() -> None:
    """A lower limit waits longer; 0 means never; a failed eviction gives its place back."""
    rate = SlidingMinute()
    for now in (100.0, 110.0, 120.0):
        rate.take(now)
    assert [rate.free_at(limit, 130.0) for limit in (0, 1, 2, 3, 4)] == [None, 180.0, 170.0, 160.0, 130.0]
    assert [rate.free_at(3, now) for now in (159.9, 160.0)] == [160.0, 160.0]
    rate.give_back(120.0)
    rate.give_back(120.0)  # nothing left to give back
    assert rate.free_at(1, 160.0) == 170.0


def test_replacement_is_left_alone_for_ten_minutes() -> None:
    backoff = EvictionBackoff()
    backoff.evicted("w", WALL - 500, 0.0, WALL)
    cases = [("w", 1, 5.0), ("w", -60, 5.0), ("w", -61, 5.0), ("other", 1, 5.0), ("w", 1, 600.0)]
    result = [backoff.backoff_until(workload, WALL + created, now) for workload, created, now in cases]
    assert result == [600.0, 600.0, None, None, None]  # clocks may differ by a minute
    backoff.evicted("w", WALL - 400, 60.0, WALL + 60)  # a sibling: the time begins again, at the same length
    assert backoff.backoff_until("w", WALL + 1, 61.0) == 660.0


def test_backoff_doubles_to_six_hours_and_is_forgotten() -> None:
    backoff, now, waits = EvictionBackoff(), 0.0, []
    for _ in range(9):
        backoff.evicted("w", WALL + now, now, WALL + now)
        until = backoff.backoff_until("w", WALL + now, now)
        assert until is not None
        waits.append((until - now) / 60)
        now = until
    assert waits == [10, 20, 40, 80, 160, 320, 360, 360, 360]
    for later, workloads in ((now + LONGEST_SECONDS - 1, 2), (now + LONGEST_SECONDS, 1)):
        backoff.evicted("other", WALL, later, WALL + later)
        assert len(backoff) == workloads


def test_restart_takes_young_pods_for_replacements() -> None:
    """A manager that has just started spares pods created in the 10 minutes before, not older or newer ones."""
    backoff = EvictionBackoff()
    backoff.begin(1000.0, WALL)
    backoff.begin(1300.0, WALL + 300)  # it has begun already
    cases = [(-1, 1000.0), (-600, 1000.0), (-601, 1000.0), (0, 1000.0), (-1, 1600.0)]
    result = [backoff.backoff_until("w", WALL + created, now) for created, now in cases]
    assert result == [1600.0, 1600.0, None, None, None]
    backoff.end()
    assert backoff.backoff_until("w", WALL - 1, 1000.0) is None


@given(st.lists(st.tuples(st.floats(0, 4000), st.booleans()), max_size=80))
def test_circles_get_slower(steps: list[tuple[float, bool]]) -> None:
    """However tries are spread, replacements of one workload go with at least 10 minutes between, ever longer ones."""
    backoff, now, evicted, birth = EvictionBackoff(), 0.0, list[float](), WALL - 1000
    for pause, patient in steps:
        now += pause
        until = backoff.backoff_until("w", birth, now)
        if until is not None and patient:
            now = until
            until = backoff.backoff_until("w", birth, now)
        if until is None:
            backoff.evicted("w", birth, now, WALL + now)
            evicted.append(now)
            birth = WALL + now  # started again at once
    gaps = [after - before for before, after in itertools.pairwise(evicted)]
    for number, gap in enumerate(gaps):
        assert gap >= 600.0 - 1e-6
        if sum(gaps[:number]) < LONGEST_SECONDS:  # no long peace yet
            assert gap >= min(600.0 * 2**number, LONGEST_SECONDS) - 1e-6


def test_one_node_raises_no_limit() -> None:
    """A node's annotation lowers limits of evictions and raises none; an entry does not raise the cluster's."""
    entry = {
        "nodeSelector": {"matchLabels": {"pool": "a"}},
        "midEviction": {"maxPerMinute": 50, "maxPerNodePerMinute": 5},
    }
    document = {"midEviction": {"maxPerMinute": 20, "maxPerNodePerMinute": 2}, "nodeConfigs": [entry]}
    parsed = parse_config(json.dumps(document))
    config = parsed.config
    assert config is not None
    assert ["the cluster's part allows 20" in str(warning) for warning in parsed.warnings] == [True]

    def limits(labels: dict[str, str], annotation: str = "") -> tuple[int, int, int]:
        effective = effective_strategy(
            config, labels, {ANNOTATION_COLOCATION_STRATEGY: annotation} if annotation else {}
        )
        settings = EvictionSettings.of(effective.strategy)
        return settings.per_cluster, settings.per_node, len(effective.findings)

    assert limits({}) == (20, 2, 0)
    assert limits({"pool": "a"}) == (20, 5, 0)
    assert limits({"pool": "a"}, '{"midEviction": {"maxPerMinute": 1000, "maxPerNodePerMinute": 1000}}') == (20, 5, 2)
    assert limits({}, '{"midEviction": {"maxPerMinute": 1, "maxPerNodePerMinute": 0}}') == (1, 0, 0)
