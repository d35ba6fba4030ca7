from agent.series_index import FIXED, SeriesIndex, SeriesIndexLimits
from crds.priority import PriorityBand
from tests.agent.made import START, pod

LIMITS = SeriesIndexLimits(grace_seconds=100.0, workload_seconds=1000.0, workloads=2)


class Table:
    """Rows that remember one number each."""

    def __init__(self) -> None:
        self.known: dict[int, float] = {}

    def clear(self, row: int) -> None:
        """Forget a row."""
        self.known[row] = 0.0

    def copy(self, source: int, target: int) -> None:
        """Copy a row."""
        self.known[target] = self.known[source]

    def evidence(self, row: int) -> float:
        """How much is known."""
        return self.known.get(row, 0.0)


def new_index() -> tuple[SeriesIndex, Table]:
    """A series index with its table."""
    table = Table()
    return SeriesIndex(LIMITS, table), table


def test_fixed_entities_come_first() -> None:
    """Node, system and the classes have rows 0 to 5, with or without pods."""
    found, _ = new_index()
    assert [found.row(name) for name in FIXED] == [0, 1, 2, 3, 4, 5]
    assert found.rows == 6


def test_rows_are_reused() -> None:
    """The row of a forgotten pod goes to the next one, cleared."""
    found, table = new_index()
    found.update(START, [pod("a")])
    table.known[6] = 5.0
    for seconds in (1.0, 200.0):
        found.update(START + seconds, [])
    assert found.row("a") is None
    found.update(START + 201.0, [pod("b")])
    assert (found.row("b"), table.known[6], found.rows) == (6, 0.0, 7)


def test_band_is_followed() -> None:
    """A pod whose band changes counts to its new class from then on."""
    found, _ = new_index()
    for band, name in ((PriorityBand.PROD, "prod"), (PriorityBand.MID, "mid"), (PriorityBand.NONE, "prod")):
        found.update(START, [pod("a", band=band)])
        assert found.entries["a"].class_name == name


def test_late_workload_is_followed() -> None:
    """A pod that was here before it was listed continues its workload's history all the same, unless it knows more."""
    for own, kept in ((1.0, 5.0), (9.0, 9.0)):
        found, table = new_index()
        found.update(START, [pod("old", workload="shop/ReplicaSet/cart"), pod("new")])
        old, new = found.row("old"), found.row("new")
        assert old is not None
        assert new is not None
        table.known |= {old: 5.0, new: own}
        found.update(START + 1.0, [pod("new", workload="shop/ReplicaSet/cart")])
        assert (found.row("new"), table.known[new]) == (new, kept)


def test_richest_relative_is_followed() -> None:
    """Of several pods of a workload a new one continues the one that knows most."""
    found, table = new_index()
    found.update(START, [pod("a", workload="w"), pod("b", workload="w"), pod("c", workload="other")])
    table.known.update({6: 1.0, 7: 3.0, 8: 9.0})
    found.update(START + 1.0, [pod("b", workload="w"), pod("d", workload="w")])
    assert table.known[found.row("d") or 0] == 3.0


def test_workload_keeps_richer_history() -> None:
    """A pod that ends replaces what its workload knew only when it knew more."""
    found, table = new_index()
    for name, known in (("a", 5.0), ("b", 2.0), ("c", 7.0)):
        found.update(START, [pod(name, workload="w")])
        table.known[found.row(name) or 0] = known
        found.update(START, [])
    found.update(START + 200.0, [])
    heirs = [entity for entity in found.entries if entity.startswith("workload:")]
    assert len(heirs) == 1
    assert table.known[found.entries[heirs[0]].row] == 7.0


def test_workloads_are_bounded() -> None:
    """Only so many workloads are remembered, the latest ones, and only for so long."""
    found, table = new_index()
    for number in range(4):
        now = START + 10.0 * number
        found.update(now, [pod(str(number), workload=f"w{number}")])
        table.known[found.row(str(number)) or 0] = 1.0
        found.update(now, [])
    found.update(START + 300.0, [])
    assert sorted(found.entries)[-2:] == ["workload:w2", "workload:w3"]
    assert len(found.entries) == len(FIXED) + 2
    found.update(START + 2000.0, [])
    assert tuple(found.entries) == FIXED


def test_pod_that_learned_nothing_leaves_nothing() -> None:
    """A pod that was never measured leaves no history to its workload."""
    found, _ = new_index()
    found.update(START, [pod("a", workload="w")])
    found.update(START, [])
    found.update(START + 200.0, [])
    assert tuple(found.entries) == FIXED


def test_json_round_trip() -> None:
    """All series come back, rows numbered anew in the same order."""
    found, _ = new_index()
    found.update(START, [pod("a", workload="w"), pod("b")])
    found.update(START + 1.0, [pod("b")])
    again, _ = new_index()
    again.from_json(found.to_json())
    assert again.entries == found.entries
    assert again.rows == 8
