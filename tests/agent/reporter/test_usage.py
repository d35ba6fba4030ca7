import math
from pathlib import Path
from typing import Any

import pytest

from agent.reporter.usage import Usages, measure, present
from agent.samples import CPU, MEMORY, MEMORY_WITH_PAGE_CACHE, NODE, SYS, Sample
from agent.tsdb.settings import StoreSettings
from agent.tsdb.tsdb import Tsdb
from crds.node_metric import WITH_HOT_PAGE_CACHE, WITH_PAGE_CACHE, WITHOUT_PAGE_CACHE
from tests.agent.made import START, MadeStore, pod

NAN = math.nan
CLASSES = {"a": "prod", "b": "mid", "left": "prod"}
PODS = [pod("a"), pod("b")]
FOUR_HOURS = 4 * 3600


def measured(store: Any, now: float = START + 300.0, **more: Any) -> Usages:  # noqa: ANN401 - a store, arguments
    args = {"window_seconds": 300.0, "durations_seconds": [300.0, 600.0], "memory_policy": WITHOUT_PAGE_CACHE, **more}
    return measure(now, store, PODS, CLASSES.get, **args)


def filled(metric: str = CPU, start: float = START, **values: list[float]) -> MadeStore:
    store = MadeStore()
    for entity, series in values.items():
        store.put(metric, entity, start, series)
    return store


def busy() -> MadeStore:
    """A node that uses 1.5 cores: pod a 1, pod b 0.3, system 0.2; memory the same times 100."""
    store = MadeStore()
    for entity, cores in (("a", 1.0), ("b", 0.3), (SYS, 0.2), (NODE, 1.5)):
        for metric, scale in ((CPU, 1), (MEMORY, 100), (MEMORY_WITH_PAGE_CACHE, 1000)):
            store.put(metric, entity, START, [scale * cores] * 300)
    return store


@pytest.mark.parametrize(
    ("policy", "memory"), [(WITHOUT_PAGE_CACHE, 150.0), (WITH_PAGE_CACHE, 1500.0), (WITH_HOT_PAGE_CACHE, 150.0)]
)
def test_usages_are_means_of_the_window(policy: str, memory: float) -> None:
    """Node and pods include page cache if configured, and never hot pages. System and classes never include it."""
    result = measured(busy(), memory_policy=policy)
    assert result.node == pytest.approx({CPU: 1.5, MEMORY: memory})
    assert result.pods["a"] == pytest.approx({CPU: 1.0, MEMORY: memory / 1.5})
    assert result.node_windows[0].statistics[MEMORY].average == pytest.approx(memory)
    assert result.system == pytest.approx({CPU: 0.2, MEMORY: 20.0})
    assert result.classes[NODE] == pytest.approx({CPU: 1.5, MEMORY: 150.0})


def test_present_memory_is_that_of_the_last_seconds() -> None:
    """Memory that rose half a minute ago is present memory of node and class; CPU is its mean over five minutes."""
    store = busy()
    for entity, cores in (("a", 4.0), (SYS, 0.2), (NODE, 4.5)):
        for metric, scale in ((CPU, 1), (MEMORY, 100)):
            store.put(metric, entity, START + 300.0, [scale * cores] * 30)
    used = present(START + 330.0, store, CLASSES.get, 300.0)
    assert (used[MEMORY][NODE], used[MEMORY]["prod"]) == pytest.approx((450.0, 400.0), rel=0.01)
    assert used[CPU][NODE] == pytest.approx(1.8, rel=0.01)


@pytest.mark.parametrize(
    ("store", "classes"),
    [
        (  # node = sys + prod + mid + batch + free, also with a pod that left and one that came
            filled(
                a=[1.0] * 300,
                left=[2.0] * 100,
                b=[NAN] * 200 + [0.5] * 100,
                sys=[0.2] * 300,
                node=[3.2] * 100 + [1.2] * 100 + [1.7] * 100,
            ),
            {"node": 6.1 / 3, "sys": 0.2, "prod": 5 / 3, "mid": 0.5 / 3, "batch": 0.0, "free": 0.0},
        ),
        (  # ticks without system usage (a pod was not measured) leave all classes
            filled(a=[1.0] * 200 + [NAN] * 100, sys=[0.2] * 200 + [NAN] * 100, node=[1.2] * 200 + [9.0] * 100),
            {"node": 1.2, "sys": 0.2, "prod": 1.0, "mid": 0.0, "batch": 0.0, "free": 0.0},
        ),
        (filled(node=[1.0] * 150 + [NAN] * 150, sys=[NAN] * 150 + [1.0] * 150), {}),  # unknown, not zero
    ],
)
def test_classes_add_up(store: MadeStore, classes: dict[str, float]) -> None:
    assert {name: usage[CPU] for name, usage in measured(store).classes.items()} == pytest.approx(classes)


def test_pod_needs_both_resources() -> None:
    store = busy()
    del store.content[MEMORY, "a"]
    assert measured(store).pods.keys() == {"b"}


def test_each_window_has_its_own_length() -> None:
    windows = measured(filled(start=START - 300.0, node=[9.0] * 300 + [1.0] * 300)).node_windows
    assert [window.statistics[CPU].average for window in windows] == pytest.approx([1.0, 5.0])
    assert [window.statistics[CPU].count for window in windows] == [300, 600]


def test_nothing_measured_is_nothing() -> None:
    result = measured(MadeStore())
    assert (result.node, result.system, result.classes, result.pods, result.measured_at) == ({}, {}, {}, {}, None)
    assert [window.statistics for window in result.node_windows] == [{}, {}]


@pytest.mark.parametrize(("memory", "at"), [([1.0] * 300, 300), ([1.0] * 100, 100), ([], 300)])
def test_time_is_that_of_the_resource_that_is_behind(memory: list[float], at: int) -> None:
    """No old number is reported as new."""
    store = filled(node=[1.0] * 300)
    if memory:
        store.put(MEMORY, NODE, START, memory)
    assert measured(store).measured_at == START + at


def test_long_windows_are_answered_from_minutes(tmp_path: Path) -> None:
    """A window that reaches further back than samples are kept is not empty or cut off."""
    with Tsdb.open(tmp_path / "t.db", StoreSettings(block_ticks=60, raw_seconds=FOUR_HOURS)) as store:
        for number in range(26 * 360):
            now = START + number * 10.0
            level = (4.0 if number < 22 * 360 else 1.0) + (0.5 if number % 6 == 3 else 0.0)
            store.append(now, [Sample(CPU, NODE, now, level), Sample(CPU, SYS, now, 0.5)])
            store.maintain(now, seconds=0.2)
        result = measured(store, now + 1.0, durations_seconds=[1800.0, 12 * 3600.0, 24 * 3600.0])
    half_hour, half_day, day = (window.statistics[CPU] for window in result.node_windows)
    extra = 0.5 / 6
    assert half_hour.average == pytest.approx(1.0 + extra, abs=1e-3)
    assert half_day.average == pytest.approx((8 * 4.0 + 4.0) / 12 + extra, abs=0.01)
    assert day.average == pytest.approx((20 * 4.0 + 4.0) / 24 + extra, abs=0.01)
    assert half_day.p95 == pytest.approx(4.0 + extra, abs=1e-3)
    assert half_day.max == 4.5
    assert 1.0 <= half_day.last <= 1.5
    assert half_day.count == pytest.approx(12 * 360, abs=6)
    assert day.span_seconds == pytest.approx(86400.0, abs=60.0)
