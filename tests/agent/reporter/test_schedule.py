from dataclasses import replace

import pytest

from agent.prediction.node import NodePrediction
from agent.reporter.schedule import has_moved, is_due, phase_of, until_next
from crds.predict_policy import DEFAULTS
from tests.agent.reporter.stage import PREDICTION, READY, moved

MIB = 1 << 20


def test_thousand_nodes_spread() -> None:
    """Of a thousand nodes that return at once, hardly more than their share report in any second."""
    waits = [until_next(1_700_000_000.0, 60.0, phase_of(f"node-{number}")) for number in range(1000)]
    assert all(30 <= wait < 90 for wait in waits)
    assert max(sum(second <= wait < second + 1 for wait in waits) for second in range(30, 90)) <= 34  # 16.7 on average
    assert phase_of("node-1") == 0.20933699023747113  # for ever


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
def test_node_of_phase_0_25_reports_15_seconds_past_each_minute(now: float, wait: float) -> None:
    assert until_next(1_699_999_980.0 + now, 60.0, 0.25) == pytest.approx(wait)


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
def test_moved(sent: dict[str, int], now: dict[str, int], *, moved: bool) -> None:
    assert has_moved(sent, now, 5) is moved


PATIENT = replace(DEFAULTS, resource_diff_threshold_percent=20, force_update_interval_seconds=60)


@pytest.mark.parametrize(
    ("now", "seconds", "due"),
    [
        (PREDICTION, 599.0, False),
        (PREDICTION, 600.0, True),  # forceUpdateIntervalSeconds
        (moved(1050), 0.0, False),
        (moved(1051), 0.0, True),
        (replace(PREDICTION, prod_peak={"cpu": 530}), 0.0, True),
        (replace(PREDICTION, reclaimable={"cpu": 1000}), 0.0, True),  # memory is unknown now
        (replace(PREDICTION, policy=PATIENT), 0.0, True),
        (replace(PREDICTION, problem="there is no model 'x'"), 0.0, True),
        (replace(PREDICTION, readiness=READY._replace(ready=False)), 0.0, True),
        (replace(PREDICTION, readiness=READY._replace(reason="CollectingHistory")), 0.0, True),
        (replace(PREDICTION, readiness=READY._replace(message="another text")), 0.0, False),
        (replace(PREDICTION, time=9e9, warm=7, cold=("shop/a",)), 0.0, False),
    ],
)
def test_due(now: NodePrediction, seconds: float, *, due: bool) -> None:
    """A fast report is due for numbers that moved, another policy, another reason, or age; not for words."""
    assert is_due(PREDICTION, seconds, now) is due


@pytest.mark.parametrize(("cpu", "seconds", "due"), [(1200, 59.0, False), (1201, 59.0, True), (1000, 60.0, True)])
def test_thresholds_are_those_of_the_policy(cpu: int, seconds: float, *, due: bool) -> None:
    assert is_due(replace(PREDICTION, policy=PATIENT), seconds, replace(moved(cpu), policy=PATIENT)) is due
