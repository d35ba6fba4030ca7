"""The manager beside many nodes: how many there is time for, and what is judged."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tools.bench import manager as bench
from tools.soak import STEPS, manager
from tools.soak.manager import size
from tools.soak.progress import Telling

GOOD = {
    "manager_rss_peak": 190.0,
    "behind": 0.0,
    "missed": 17.0,
    "reports": 83.3,
    "decrease_p99": 1.2,
    "restart_writes": 0.0,
    "restart": 9.0,
    "edit": 21.0,
    "edit_pause": 90.0,
    "stall_lost": 0.0,
    "hostile_lost": 0.0,
    "hostile_pause": 80.0,
    "hostile_events": 13.0,
    "lease_lost": 0.0,
}


def test_the_hour_is_for_all_nodes() -> None:
    """In its share of the hour the step tries 5,000 nodes; with less time fewer, never none."""
    assert size(STEPS["manager"].minutes * 60) == (5000, 60)
    assert size(300) == (1100, 60)
    assert size(60) == (200, 20)


@pytest.mark.parametrize(
    ("figures", "failed"),
    [
        ({}, 0),
        ({"manager_rss_peak": 1025.0}, 1),
        ({"behind": 1.0}, 1),
        ({"decrease_p99": 61.0}, 0),  # how fast it is depends on the machine
        ({"restart_writes": 3.0}, 1),
        ({"edit_pause": 2000.0}, 0),
        ({"stall_lost": 1.0}, 1),
        ({"hostile_lost": 1.0}, 1),
        ({"lease_lost": 1.0}, 1),
        ({"hostile_events": 101.0}, 1),
        (dict.fromkeys(GOOD), 7),  # nothing was seen, so nothing holds
    ],
)
def test_figures_are_judged(
    figures: dict[str, Any], failed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each figure beyond its bound, or missing, fails its claim alone."""

    def measured(plan: bench.Plan) -> Iterator[tuple[int, bench.Figures]]:
        yield plan.nodes[0], {**GOOD, **figures}

    monkeypatch.setattr(bench, "measure", measured)
    telling = Telling(660.0)
    manager.trial(telling)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["passed"] for line in lines if "passed" in line].count(False) == telling.failed == failed
