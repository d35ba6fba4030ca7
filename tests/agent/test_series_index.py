from agent.series_index import FIXED, SeriesIndex, SeriesIndexLimits
from crds.priority import PriorityBand
from tests.agent.made import START, pod

LIMITS = SeriesIndexLimits(grace_seconds=100.0, workload_seconds=1000.0, workloads=2)


class Table:
    def __init__(self) -> None:
        self.known: dict[int, float] = {}

    def clear(self, row: int) -> None:
        self.known[row] = 0.0

    def copy(self, source: int, target: int) -> None:
        self.known[target] = self.known[source]

    def evidence(self, row: int) -> float:
        return self.known.get(row, 0.0)


def new_index() -> tuple[SeriesIndex, Table]:
    table = Table()
    return SeriesIndex(LIMITS, table), table


def test_fixed_entities_come_first() -> None:
    result, _ = new_index()
    assert [result.row(name) for name in FIXED] == [0, 1, 2, 3, 4, 5]
    assert result.rows == 6


def test_row_of_a_forgotten_pod_is_cleared_for_the_next() -> None:
    result, table = new_index()
    result.update(START, [pod("a")])
    table.known[6] = 5.0
    for seconds in (1.0, 200.0):
        result.update(START + seconds, [])
    assert result.row("a") is None
    result.update(START + 201.0, [pod("b")])
    assert (result.row("b"), table.known[6], result.rows) == (6, 0.0, 7)


def test_pod_whose_band_changes_counts_to_its_new_class() -> None:
    result, _ = new_index()
    for band, name in ((PriorityBand.PROD, "prod"), (PriorityBand.MID, "mid"), (PriorityBand.NONE, "prod")):
        result.update(START, [pod("a", band=band)])
        assert result.entries["a"].class_name == name


def test_late_workload_is_followed() -> None:
    """A pod that was here before it was listed continues its workload's history all the same, unless it knows more."""
    for local, stored in ((1.0, 5.0), (9.0, 9.0)):
        result, table = new_index()
        result.update(START, [pod("old", workload="shop/ReplicaSet/cart"), pod("new")])
        old, new = result.row("old"), result.row("new")
        assert old is not None
        assert new is not None
        table.known |= {old: 5.0, new: local}
        result.update(START + 1.0, [pod("new", workload="shop/ReplicaSet/cart")])
        assert (result.row("new"), table.known[new]) == (new, stored)


def test_new_pod_continues_the_pod_of_its_workload_that_knows_most() -> None:
    result, table = new_index()
    result.update(START, [pod("a", workload="w"), pod("b", workload="w"), pod("c", workload="other")])
    table.known.update({6: 1.0, 7: 3.0, 8: 9.0})
    result.update(START + 1.0, [pod("b", workload="w"), pod("d", workload="w")])
    assert table.known[result.row("d") or 0] == 3.0


def test_ended_pod_replaces_history_of_its_workload_only_when_it_knew_more() -> None:
    result, table = new_index()
    for name, cached in (("a", 5.0), ("b", 2.0), ("c", 7.0)):
        result.update(START, [pod(name, workload="w")])
        table.known[result.row(name) or 0] = cached
        result.update(START, [])
    result.update(START + 200.0, [])
    heirs = [entity for entity in result.entries if entity.startswith("workload:")]
    assert len(heirs) == 1
    assert table.known[result.entries[heirs[0]].row] == 7.0


def test_workloads_are_bounded() -> None:
    result, table = new_index()
    for number in range(4):
        now = START + 10.0 * number
        result.update(now, [pod(str(number), workload=f"w{number}")])
        table.known[result.row(str(number)) or 0] = 1.0
        result.update(now, [])
    result.update(START + 300.0, [])
    assert sorted(result.entries)[-2:] == ["workload:w2", "workload:w3"]
    assert len(result.entries) == len(FIXED) + 2
    result.update(START + 2000.0, [])
    assert tuple(result.entries) == FIXED


def test_pod_that_learned_nothing_leaves_nothing() -> None:
    result, _ = new_index()
    result.update(START, [pod("a", workload="w")])
    result.update(START, [])
    result.update(START + 200.0, [])
    assert tuple(result.entries) == FIXED


def test_json_round_trip() -> None:
    result, _ = new_index()
    result.update(START, [pod("a", workload="w"), pod("b")])
    result.update(START + 1.0, [pod("b")])
    again, _ = new_index()
    again.from_json(result.to_json())
    assert again.entries == result.entries
    assert again.rows == 8


def _run(index: SeriesIndex, table: Table, now: float, name: str, workload: str, seconds: float = 60.0) -> None:
    """A pod that runs for so long."""
    index.update(now, [pod(name, workload=workload)])
    table.known[index.row(name) or 0] += seconds
    index.update(now + seconds, [])


def _remembered(index: SeriesIndex) -> set[str]:
    return {entity.removeprefix("workload:") for entity in index.entries if entity.startswith("workload:")}


def test_many_one_off_runs_leave_a_nightly_job() -> None:
    """A CronJob of 30 nights is remembered though 250 workflows with names of their own came after its last run."""
    table = Table()
    index = SeriesIndex(SeriesIndexLimits(grace_seconds=900.0), table)
    for night in range(30):
        for hour in range(24):  # the clock of the index follows steps of an hour at most
            index.update(START + 86400.0 * night + 3600.0 * hour, [])
        _run(index, table, START + 86400.0 * (night + 1) - 1800.0, f"night-{night}", "ops/CronJob/backup")
    day = START + 30 * 86400.0
    for number in range(250):
        _run(index, table, day + 250.0 * number, f"w-{number}", f"ci/Workflow/w-{number}", 200.0)
    index.update(day + 70_000.0, [])
    index.update(day + 73_000.0, [])
    assert len(_remembered(index)) == 200
    assert "ops/CronJob/backup" in _remembered(index)
    _run(index, table, day + 80_000.0, "night-30", "ops/CronJob/backup")
    assert table.known[index.row("night-30") or 0] == 31 * 60.0


def test_what_is_known_longest_stays() -> None:
    """The workload with the least evidence goes first of those that came once; a day of evidence is enough to stay."""
    table = Table()
    index = SeriesIndex(SeriesIndexLimits(grace_seconds=100.0, workloads=2), table)
    for number, (name, seconds) in enumerate({"day": 90_000.0, "hour": 3600.0, "minute": 60.0}.items()):
        index.update(START + number, [pod(name, workload=name)])
        table.known[index.row(name) or 0] = seconds
        index.update(START + number + 0.5, [])
    index.update(START + 300.0, [])
    assert _remembered(index) == {"day", "hour"}


def test_days_survive_a_restart() -> None:
    index, table = new_index()
    _run(index, table, START, "a", "w")
    again, _ = new_index()
    again.from_json(index.to_json())
    assert again.entries["a"].days == 1
    older = index.to_json()
    older["members"] = {entity: fields[:4] for entity, fields in older["members"].items()}
    again.from_json(older)
    assert again.entries["a"].days == 0
