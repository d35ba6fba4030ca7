"""Which nodes a shortlist names."""

import numpy as np
import pytest

from scheduler_plugins.framework.shortlist import Shortlist
from scheduler_plugins.snapshot.preferences import Groups

SCORES = np.array([50.0, 90.0, 10.0, 70.0, 30.0, 80.0])


def _choose(numbers: list[int], avoided: list[int] = [], **length: float) -> list[int]:  # noqa: B006 - not changed
    groups = Groups(np.array(numbers, np.int32), np.zeros(6, np.int32), np.isin(np.arange(6), avoided))
    chosen: list[int] = Shortlist(**length).choose(SCORES, groups, np.random.default_rng(1)).tolist()  # type: ignore[arg-type]
    return chosen


@pytest.mark.parametrize(
    ("numbers", "avoided", "size", "share", "chosen"),
    [
        ([0] * 6, [], 1, 0, [1]),
        ([0] * 6, [], 4, 0, [1, 5, 3, 0]),
        ([0] * 6, [], 1, 0.5, [1, 5, 3]),
        ([0] * 6, [], 1, 0.51, [1, 5, 3, 0]),  # rounded up
        ([0] * 6, [], 9, 0, [1, 5, 3, 0, 4, 2]),
        ([7, 0, 7, 0, 7, 0], [], 1, 0, [1, 0]),  # the best of each group, the best of all first
        ([7, 0, 7, 0, 7, 0], [], 1, 0.5, [1, 5, 0, 4]),
        ([0] * 6, [1, 5], 3, 0, [3, 0, 4]),  # avoided nodes last, however good
        ([0] * 6, [1, 5], 5, 0, [3, 0, 4, 2, 1]),
        ([3, 0, 3, 3, 3, 0], [1, 5], 1, 0, [3, 1]),  # a group of which all are avoided keeps its best
    ],
)
def test_chooses(numbers: list[int], avoided: list[int], size: int, share: float, chosen: list[int]) -> None:
    assert _choose(numbers, avoided, size=size, share=share) == chosen


@pytest.mark.parametrize(("in_flight", "chosen"), [(0, [1, 5, 0, 4]), (1, [1, 0]), (2, [1, 0]), (99, [1, 0])])
def test_bursts_shorten_groups(in_flight: int, chosen: list[int]) -> None:
    groups = Groups(np.array([7, 0, 7, 0, 7, 0], np.int32), np.zeros(6, np.int32), np.zeros(6, np.bool_))
    assert Shortlist(1, 0.5).choose(SCORES, groups, np.random.default_rng(1), in_flight).tolist() == chosen


def test_equal_nodes_are_drawn() -> None:
    groups = Groups(np.zeros(40, np.int32), np.zeros(40, np.int32), np.zeros(40, np.bool_))
    lots = np.random.default_rng(1)
    named = {row for _ in range(30) for row in Shortlist(1, 0).choose(np.zeros(40), groups, lots).tolist()}
    assert len(named) > 10


def test_no_node() -> None:
    groups = Groups(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.bool_))
    assert Shortlist().choose(np.zeros(0), groups, np.random.default_rng(1)).tolist() == []
