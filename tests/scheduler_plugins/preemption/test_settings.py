"""The argument `reclaim` of CapacityScheduling."""

import pytest

from scheduler_plugins.arguments import ArgumentError, decode
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.preemption.selection.context import BudgetsRule
from scheduler_plugins.preemption.settings import RANGES, OverMaxRule, PreemptionSettings
from scheduler_plugins.profile.registry import build


def test_defaults() -> None:
    settings = decode(CapacityScheduling, {}, "args").reclaim
    assert settings == PreemptionSettings(
        enabled=True,
        dry_run=False,
        disruption_budgets=BudgetsRule.RESPECT,
        over_max=OverMaxRule.TELL,
        scheduler_names=(),
        hold_seconds=120,
        evictions_per_second=10,
        eviction_burst=50,
        back_off_seconds=60,
        longest_back_off_seconds=3600,
    )
    assert settings.problems() == ()


@pytest.mark.parametrize("name", RANGES)
def test_ranges(name: str) -> None:
    low, high = RANGES[name]
    free = {"longest_back_off_seconds": 86_400} if name == "back_off_seconds" else {"back_off_seconds": 1}
    for value, wrong in ((low, 0), (high, 0), (low - 0.001, 1), (high + 1, 1)):
        problems = PreemptionSettings(**{**free, name: value}).problems()  # type: ignore[arg-type]
        assert len([problem for problem in problems if "range" in problem.message]) == wrong


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"holdSeconds": 4}, r"args.reclaim.holdSeconds: 4 is not in the range 5 to 3600"),
        ({"disruptionBudgets": "ignore"}, "must be respect or count"),
        ({"schedulerNames": [""]}, r"args.reclaim.schedulerNames\[0\]: '' is no name of a scheduler"),
        ({"backOffSeconds": 60, "longestBackOffSeconds": 30}, "longestBackOffSeconds: 30 is less than backOffSeconds"),
        ({"dryrun": True}, 'args.reclaim.dryrun: unknown; did you mean "dryRun"'),
        ({"crossNode": True}, "args.reclaim.crossNode: crossNode was removed: all victims of a pod run on one node"),
        ({"enabled": "yes"}, "args.reclaim.enabled: 'yes' is not true or false"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        build("CapacityScheduling", {"reclaim": arguments}, "args")
