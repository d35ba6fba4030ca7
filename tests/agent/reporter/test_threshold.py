"""When a prediction is worth a fast report."""

from dataclasses import replace

import pytest

from agent.prediction.node import NodePrediction
from agent.reporter.schedule import has_moved, is_due
from crds.predict_policy import DEFAULTS
from tests.agent.reporter.stage import PREDICTION, READY, moved

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sent", "now", "moved"),
    [
        ({"cpu": 4000}, {"cpu": 4000}, False),
        ({"cpu": 4000}, {"cpu": 4200}, False),  # exactly 5 percent is not more
        ({"cpu": 4000}, {"cpu": 4201}, True),
        ({"cpu": 4000}, {"cpu": 3799}, True),
        ({"cpu": 100}, {"cpu": 109}, False),  # 9 percent, but below 10m
        ({"cpu": 100}, {"cpu": 110}, True),
        ({"memory": 100 * MIB}, {"memory": 115 * MIB}, False),  # 15 percent, but below 16Mi
        ({"memory": 100 * MIB}, {"memory": 116 * MIB}, True),
        ({"cpu": 0}, {"cpu": 1}, True),  # from zero to something always
        ({"cpu": 0}, {"cpu": 0}, False),
        ({"cpu": 9}, {"cpu": 0}, False),
        ({"cpu": 10}, {"cpu": 0}, True),
        ({}, {"cpu": 0}, True),  # known and unknown differ
        ({"cpu": 5}, {}, True),
        ({}, {}, False),
    ],
)
def test_moved(sent: dict[str, int], now: dict[str, int], moved: bool) -> None:  # noqa: FBT001 - a column
    """More than 5 percent and at least 10m or 16Mi; from zero to something always."""
    assert has_moved(sent, now, 5) is moved


@pytest.mark.parametrize(
    ("now", "seconds", "due"),
    [
        (PREDICTION, 599.0, False),
        (PREDICTION, 600.0, True),  # forceUpdateIntervalSeconds
        (moved(1050), 0.0, False),
        (moved(1051), 0.0, True),
        (replace(PREDICTION, prod_peak={"cpu": 530}), 0.0, True),
        (replace(PREDICTION, reclaimable={"cpu": 1000}), 0.0, True),  # memory cannot be judged any more
        (
            replace(PREDICTION, policy=replace(DEFAULTS, safety_margin_percent=11)),
            0.0,
            True,
        ),  # another policy is obeyed
        (replace(PREDICTION, problem="there is no model 'x'"), 0.0, True),
        (replace(PREDICTION, readiness=READY._replace(ready=False, reason="CollectingHistory")), 0.0, True),
        (replace(PREDICTION, readiness=READY._replace(message="another text")), 0.0, False),
        (replace(PREDICTION, time=9e9, warm=7, cold=("shop/a",)), 0.0, False),
    ],
)
def test_due(now: NodePrediction, seconds: float, due: bool) -> None:  # noqa: FBT001 - a column
    """A fast report is due for numbers that moved, another policy, another reason, or age; not for words."""
    assert is_due(PREDICTION, seconds, now) is due


def test_own_thresholds_count() -> None:
    """The thresholds are those of the policy in force now."""
    policy = replace(DEFAULTS, resource_diff_threshold_percent=20, force_update_interval_seconds=60)
    sent = replace(PREDICTION, policy=policy)
    assert not is_due(sent, 59.0, replace(moved(1200), policy=policy))
    assert is_due(sent, 59.0, replace(moved(1201), policy=policy))
    assert is_due(sent, 60.0, sent)
