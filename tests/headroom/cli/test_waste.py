from dataclasses import replace

import pytest

from headroom.cli.top.nodes import NodeRow
from manager.mid.explanation.node_metric import Amount, Report
from manager.mid.explanation.waste import waste


@pytest.mark.parametrize(
    ("requested", "peak", "offered", "wasted"),
    [
        (10, 4, 5, 1),
        (10, 4, None, 6),  # nothing is offered
        (10, 4, 7, 0),  # more is offered, of what nobody requested
        (3, 4, 0, 0),  # they are predicted to need more than they request
        (None, 4, 0, None),
        (10, None, 0, None),
    ],
)
def test_waste(requested: int | None, peak: int | None, offered: int | None, wasted: int | None) -> None:
    """Waste is what is requested, not predicted to be needed, and offered to nobody."""
    assert waste(requested, peak, offered) == wasted


def test_waste_of_a_node() -> None:
    """A node's waste is told for each resource, and not at all before its prediction is ready."""
    report = Report(prod_peak=Amount(4000, 2**30), prediction="ready")
    row = NodeRow("n", Amount(16_000, 2**35), report, Amount(5000, None), Amount(0, 0), Amount(), Amount(10_000, 2**31))
    assert row.waste == Amount(1000, 2**30)
    assert replace(row, report=replace(report, prediction="warming")).waste == Amount()
