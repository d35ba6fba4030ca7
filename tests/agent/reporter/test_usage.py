import math
from pathlib import Path

import pytest

from agent.reporter.usage import Usages, measure
from agent.samples import CPU, MEMORY, MEMORY_WITH_PAGE_CACHE, NODE, SYS, Sample
from agent.tsdb import blocks
from agent.tsdb.schema import MINUTES
from agent.tsdb.series import Floats, Integers
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from crds.node_metric import (
    LONGEST_AGGREGATE_SECONDS,
    LONGEST_DURATION_SECONDS,
    MOST_DURATIONS,
    WITH_HOT_PAGE_CACHE,
    WITH_PAGE_CACHE,
    WITHOUT_PAGE_CACHE,
)
from tests.agent.made import START, MadeStore, pod
from tests.agent.tsdb.ticks import connection

NAN = math.nan
CLASSES = {"a": "prod", "b": "mid", "left": "prod"}
PODS = [pod("a"), pod("b")]


def measured(store: MadeStore, *, window: float = 300.0, policy: str = WITHOUT_PAGE_CACHE) -> Usages:
    """Usages at the end of 300 seconds."""
    return measure(
        START + 300.0,
        store,
        PODS,
        CLASSES.get,
        window_seconds=window,
        durations_seconds=[300.0, 600.0],
        memory_policy=policy,
    )


def busy() -> MadeStore:
    """A node that uses 1.5 cores: pod a 1, pod b 0.3, system 0.2; memory the same times 100."""
    store = MadeStore()
    for entity, cores in (("a", 1.0), ("b", 0.3), (SYS, 0.2), (NODE, 1.5)):
        store.put(CPU, entity, START, [cores] * 300)
        store.put(MEMORY, entity, START, [100 * cores] * 300)
        store.put(MEMORY_WITH_PAGE_CACHE, entity, START, [1000 * cores] * 300)
    return store


def test_averages_over_window() -> None:
    """Node, system and pods: means over the window."""
    found = measured(busy())
    assert found.node == pytest.approx({CPU: 1.5, MEMORY: 150.0})
    assert found.system == pytest.approx({CPU: 0.2, MEMORY: 20.0})
    assert found.pods["a"] == pytest.approx({CPU: 1.0, MEMORY: 100.0})


def test_classes_add_up() -> None:
    """Node = sys + prod + mid + batch + free, also with a pod that left and one that came."""
    store = MadeStore()
    store.put(CPU, "a", START, [1.0] * 300)
    store.put(CPU, "left", START, [2.0] * 100)
    store.put(CPU, "b", START + 200.0, [0.5] * 100)
    store.put(CPU, SYS, START, [0.2] * 300)
    store.put(CPU, NODE, START, [3.2] * 100 + [1.2] * 100 + [1.7] * 100)
    found = {name: usage[CPU] for name, usage in measured(store).classes.items()}
    assert found["prod"] == pytest.approx(1.0 + 2.0 / 3)
    assert found["mid"] == pytest.approx(0.5 / 3)
    assert found["node"] == pytest.approx(sum(found[name] for name in ("sys", "prod", "mid", "batch", "free")))


def test_incomplete_ticks_do_not_count() -> None:
    """Ticks without system usage (a pod was not measured) leave all classes, so that they still add up."""
    store = MadeStore()
    store.put(CPU, "a", START, [1.0] * 200 + [NAN] * 100)
    store.put(CPU, SYS, START, [0.2] * 200 + [NAN] * 100)
    store.put(CPU, NODE, START, [1.2] * 200 + [9.0] * 100)
    found = measured(store).classes
    assert {name: found[name][CPU] for name in ("node", "sys", "prod")} == pytest.approx(
        {"node": 1.2, "sys": 0.2, "prod": 1.0}
    )


def test_no_common_tick_is_unknown() -> None:
    """Without a tick that has node and system there is no class usage, not zero."""
    store = MadeStore()
    store.put(CPU, NODE, START, [1.0] * 150 + [NAN] * 150)
    store.put(CPU, SYS, START, [NAN] * 150 + [1.0] * 150)
    assert measured(store).classes == {}


def test_pod_needs_both_resources() -> None:
    """A pod without memory is not listed."""
    store = busy()
    del store.content[MEMORY, "a"]
    assert measured(store).pods.keys() == {"b"}


@pytest.mark.parametrize(
    ("policy", "memory"), [(WITHOUT_PAGE_CACHE, 150.0), (WITH_PAGE_CACHE, 1500.0), (WITH_HOT_PAGE_CACHE, 150.0)]
)
def test_memory_policy_chooses_series(policy: str, memory: float) -> None:
    """With page cache when asked for; hot pages are not measured, so without. System and classes are always without."""
    found = measured(busy(), policy=policy)
    assert found.node[MEMORY] == pytest.approx(memory)
    assert found.pods["a"][MEMORY] == pytest.approx(memory / 1.5)
    assert found.node_windows[0].statistics[MEMORY].average == pytest.approx(memory)
    assert (found.system[MEMORY], found.classes[NODE][MEMORY]) == pytest.approx((20.0, 150.0))


def test_windows_look_back_their_own_length() -> None:
    """Each percentile window sees its own length."""
    store = MadeStore()
    store.put(CPU, NODE, START - 300.0, [9.0] * 300 + [1.0] * 300)
    short, long = measured(store).node_windows
    assert (short.statistics[CPU].average, long.statistics[CPU].average) == pytest.approx((1.0, 5.0))
    assert (short.statistics[CPU].count, long.statistics[CPU].count) == (300, 600)


def test_empty_store_is_no_error() -> None:
    """Nothing measured yet: everything is absent."""
    found = measured(MadeStore())
    assert (found.node, found.system, found.classes, found.pods) == ({}, {}, {}, {})
    assert [window.statistics for window in found.node_windows] == [{}, {}]


def test_measuring_time_is_the_older() -> None:
    """The measurement time is that of the resource that is behind: no old number is reported as new."""
    assert measured(busy()).measured_at == START + 300
    stale = MadeStore()
    stale.put(CPU, NODE, START, [1.0] * 300)
    stale.put(MEMORY, NODE, START, [1.0] * 100)
    assert measured(stale).measured_at == START + 100
    only = MadeStore()
    only.put(CPU, NODE, START, [1.0] * 200)
    assert measured(only).measured_at == START + 200
    assert measured(MadeStore()).measured_at is None


def test_long_windows_are_of_minutes(tmp_path: Path) -> None:
    """A window that reaches further back than samples are kept is answered from minutes: neither empty nor cut off."""
    hours, step = 26, 10.0
    with Tsdb.open(tmp_path / "t.db", StoreSettings(block_ticks=60, raw_seconds=4 * 3600)) as store:
        for number in range(round(hours * 360)):
            now = START + number * step
            cores = 4.0 if number < (hours - 4) * 360 else 1.0
            level = cores + (0.5 if number % 6 == 3 else 0.0)
            store.append(now, [Sample(CPU, NODE, now, level), Sample(CPU, SYS, now, 0.5)])
            store.maintain(now, seconds=0.2)
        found = measure(
            now + 1.0,
            store,
            [],
            CLASSES.get,
            window_seconds=300.0,
            durations_seconds=[1800.0, 12 * 3600.0, 24 * 3600.0],
            memory_policy=WITHOUT_PAGE_CACHE,
        )
    half_hour, half_day, day = (window.statistics[CPU] for window in found.node_windows)
    extra = 0.5 / 6
    assert half_hour.average == pytest.approx(1.0 + extra, abs=1e-3)
    assert half_day.average == pytest.approx((8 * 4.0 + 4.0) / 12 + extra, abs=0.01)
    assert day.average == pytest.approx((20 * 4.0 + 4.0) / 24 + extra, abs=0.01)
    assert half_day.p95 == pytest.approx(4.0 + extra, abs=1e-3)
    assert half_day.max == 4.5
    assert 1.0 <= half_day.last <= 1.5
    assert half_day.count == pytest.approx(12 * 360, abs=6)
    assert day.span_seconds == pytest.approx(86400.0, abs=60.0)


def test_longest_windows_read_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report with ten of the longest windows reads the minutes of the node and the system once, and no pod's."""
    read: list[bytes] = []
    real = blocks.decode
    with Tsdb.open(tmp_path / "t.db", StoreSettings(block_ticks=60, raw_seconds=4 * 3600)) as store:
        entities = (NODE, SYS, *(f"pod-{number}" for number in range(30)))
        for number in range(7 * 288):
            now = START + number * 300.0
            store.append(now, [Sample(metric, one, now, 1.0) for one in entities for metric in (CPU, MEMORY)])
            store.maintain(now, seconds=1.0)
        counts = connection(store).execute("SELECT count(*) FROM blocks WHERE tier = 1 AND state = 1").fetchone()

        def counted(tier: int, data: bytes, times_ms: Integers) -> tuple[Integers, Floats]:
            read.extend([data] if tier == MINUTES else [])
            return real(tier, data, times_ms)

        monkeypatch.setattr(blocks, "decode", counted)
        durations = [LONGEST_DURATION_SECONDS - number for number in range(MOST_DURATIONS)]
        found = measure(
            now,
            store,
            [],
            CLASSES.get,
            window_seconds=LONGEST_AGGREGATE_SECONDS,
            durations_seconds=durations,
            memory_policy=WITHOUT_PAGE_CACHE,
        )
    assert len(found.node_windows) == MOST_DURATIONS
    assert found.node_windows[0].statistics[CPU].average == 1.0
    assert 0 < len(read) <= 4 * counts[0]
