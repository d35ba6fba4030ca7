"""What a node in shadow mode would have published, and how often that would have been too much."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.codec import from_json, to_json
from crds.node_metric import ShadowAccount
from manager.calculators.mid import calculate
from manager.inputs import Amounts, NodeInputs
from manager.mid.shadow import Account, ShadowSimulation, StoredAccount, free_for_mid
from tests.support.objects import NOW, Json, mid_pod, node, node_inputs, report

GI = 1024**3
WINDOW = 300.0


def _report(prod: str, reclaimable: str = "4", age: float = 0.0, **more: Any) -> Json:  # noqa: ANN401 - of report
    """A report of our agent in which Prod pods use that many cores."""
    made = report(reclaimable=(reclaimable, "10Gi"), age=age, **more)
    made["status"]["prediction"]["classes"].append({"name": "prod", "usage": {"cpu": prod, "memory": "8Gi"}})
    return made


class Node:
    """A node in shadow mode, and its clock."""

    def __init__(self, **strategy: object) -> None:
        self.strategy: dict[str, Any] = {"midIncreaseHoldSeconds": 0, **strategy}
        self.now = 0.0
        self.simulation = ShadowSimulation(Account(NOW), None, self.now)

    def node_inputs(self, metric: Json | None, *pods: Json) -> NodeInputs:
        """What the formula reads now."""
        return node_inputs(node(), metric, *pods, now=NOW + self.now, **self.strategy)

    def reconcile(self, metric: Json | None, *pods: Json, after: float = 60.0) -> float | None:
        """Look at it some time later."""
        self.now += after
        found = self.node_inputs(metric, *pods)
        return self.simulation.observe(found, calculate(found), WINDOW, self.now)

    def reported(self, prod: str, reclaimable: str = "4", after: float = 60.0) -> None:
        """Look when a report has just come."""
        self.reconcile(_report(prod, reclaimable, age=-(self.now + after)), after=after)

    @property
    def account(self) -> Account:
        """The account so far."""
        return self.simulation.account


HOSTS = [{"priority": "koord-prod", "usage": {"resources": {"cpu": "4", "memory": "1Gi"}}}]
RESERVED = {"node.koordinator.sh/reservation": '{"resources": {"cpu": "6"}}'}


@pytest.mark.parametrize(
    ("the_node", "metric", "cores"),
    [
        (node(cpu="15", capacity={"cpu": "16"}), _report("9", usage=("13", "24Gi"), mid=("3", "1Gi")), 16 - 1 - 9),
        (node(), _report("3", hostApplicationMetric=HOSTS), 16 - (1 + 4) - 3),
        (node(annotations=RESERVED), _report("3"), 16 - 6 - 3),
        (node(), _report("40"), 0),
    ],
    ids=["whatever Mid pods use", "host applications", "reservation", "overload"],
)
def test_free_is_what_is_left(the_node: Json, metric: Json, cores: int) -> None:
    """What Mid pods could have had: capacity without the largest of three reservations, and without Prod's usage."""
    assert (free_for_mid(node_inputs(the_node, metric)) or Amounts()).cpu == cores * 1000


def test_free_without_classes() -> None:
    """Another agent says no class: what is neither the system's nor of requested Mid counts as above Mid."""
    other = report(usage=("10", "24Gi"), mid=None)
    assert free_for_mid(node_inputs(node(), other)) == Amounts(16000 - 1000 - 9000, (64 - 2 - 22) * GI)


@pytest.mark.parametrize("metric", [None, report(usage=("6", None))])
def test_unmeasured_is_not_judged(metric: Json | None) -> None:
    """Where a report does not say what is in use, nothing is free or too much: nobody knows."""
    assert free_for_mid(node_inputs(node(), metric)) is None


def test_quiet_node_sells_safely() -> None:
    """On a node where enough is free all the time, the mean is what was offered and nothing was too much."""
    quiet = Node()
    for _ in range(11):
        quiet.reported("3")
    assert quiet.account.observed == 600_000  # the first report is about the time before
    assert quiet.account.mean.cpu == 4000
    assert not quiet.account.too_much
    assert not quiet.account.worst
    assert quiet.simulation.published == Amounts(4000, 10 * GI)


def test_sudden_load_is_too_much() -> None:
    """What stood when Prod pods took it counts as too much until the report that takes it back, and by how much."""
    sudden = Node()
    sudden.reported("3")
    sudden.reported("3")
    sudden.reported("13", reclaimable="0")  # 2 of 16 cores are left, and 4 were on offer
    assert sudden.account.too_much == Amounts(60_000, 0)
    assert sudden.account.worst == Amounts(2000, 0)
    sudden.reported("13", reclaimable="0")  # taken back at once
    assert sudden.account.too_much == Amounts(60_000, 0)
    assert sudden.account.observed == 180_000
    status = to_json(sudden.simulation.to_status(NOW))
    assert from_json(ShadowAccount, status).observed_seconds == 180
    assert status["tooMuchSeconds"] == {"cpu": 60, "memory": 0}
    assert status["worstExcess"] == {"cpu": "2000m", "memory": "0"}


def test_offer_counts_while_it_stood() -> None:
    """An offer that was lowered between two reports is judged for the time alone in which it stood."""
    halved = Node()
    halved.reported("3")
    metric = _report("3", age=-halved.now)
    halved.strategy["midCPUThresholdPercent"] = 10  # as an edit of the ConfigMap: 4000 -> 1600
    halved.reconcile(metric, after=30)
    halved.reported("13", after=30)
    assert halved.account.too_much == Amounts(30_000, 0)


def test_hold_counts() -> None:
    """An increase that would have waited was not on offer while it waited, and says when it would be written."""
    held = Node(midIncreaseHoldSeconds=120)
    held.reported("3", reclaimable="2")
    held.now += 60
    assert held.reconcile(_report("3", "4", age=-held.now), after=0) == 120.0
    assert held.simulation.published == Amounts(2000, 10 * GI)
    held.reconcile(_report("3", "4", age=-held.now), after=120)
    assert held.simulation.published == Amounts(4000, 10 * GI)


def test_floor_counts() -> None:
    """What running Mid pods requested would have stayed on offer."""
    floor = Node()
    floor.reconcile(_report("3", "0", age=-60.0), mid_pod("m", cpu="3000", memory="2Gi"))
    assert floor.simulation.published == Amounts(3000, 10 * GI)


def test_silence_is_not_observed() -> None:
    """Time of which no report's averages speak is not observed, and what would be taken back is."""
    silent = Node(degradeTimeMinutes=1)
    silent.reported("3")
    observed = silent.account.observed
    silent.reconcile(_report("3", age=-60.0), after=61)
    assert silent.simulation.published is None
    silent.reported("3", after=10_000)
    assert silent.account.observed - observed == WINDOW * 1000
    assert silent.account.mean.cpu == 0  # nothing stood in that time


def test_same_report_is_judged_once() -> None:
    """Looking again, for whatever reason, judges nothing anew."""
    once = Node()
    once.reported("3")
    before = once.account
    once.reconcile(_report("3", age=-once.now), after=30)
    assert once.account == before


def test_restart_goes_on() -> None:
    """What is written is read back by another process, which goes on with the offer that stood."""
    first = Node()
    for prod in ("3", "3", "14", "3"):
        first.reported(prod)
    stored = StoredAccount.read(to_json(first.simulation.to_status(NOW + first.now)))
    assert stored is not None
    assert stored.published == first.simulation.published
    assert stored.written_at == NOW + first.now
    assert stored.account.observed == first.account.observed
    assert stored.account.mean == first.account.mean
    assert (stored.account.too_much, stored.account.worst) == (first.account.too_much, first.account.worst)
    again = ShadowSimulation(stored.account, stored.published, 0.0)
    found = first.node_inputs(_report("3", age=-first.now))
    again.observe(found, calculate(found), WINDOW, 5.0)
    assert again.account == stored.account  # the report was judged before
    assert again.published == first.simulation.published


@pytest.mark.parametrize(
    "status",
    [
        None,
        1,
        [],
        {},
        {"since": "yesterday", "time": "2026-01-01T00:00:00Z"},
        {"since": "2026-01-01T00:00:00Z", "time": "2026-01-01T00:00:00Z", "observedSeconds": "x"},
        {"since": "2026-01-01T00:00:00Z", "time": "2026-01-01T00:00:00Z", "observedSeconds": -1},
        {"since": "2026-01-01T00:00:00Z", "time": "2026-01-01T00:00:00Z", "tooMuchSeconds": {"cpu": 1}},
        {"since": "2026-01-01T00:00:00Z", "time": "2026-01-01T00:00:00Z", "offered": {"cpu": "-1"}},
        {"since": "0001-01-01T00:00:00+23:00", "time": "2026-01-01T00:00:00Z"},
    ],
)
def test_odd_status_begins_anew(status: object) -> None:
    """What cannot be read counts as not there."""
    assert StoredAccount.read(status) is None


_TIME = st.sampled_from(["2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00", "", "x"])
_ODD = st.one_of(
    st.none(), st.integers(), st.text(max_size=8), st.dictionaries(st.sampled_from(["cpu", "memory"]), _TIME)
)


@given(
    st.fixed_dictionaries(
        {"since": _TIME, "time": _TIME},
        optional={
            "observedSeconds": st.one_of(st.integers(), _ODD),
            "offered": st.one_of(_ODD, st.fixed_dictionaries({"cpu": st.integers(), "memory": st.text(max_size=5)})),
            "mean": _ODD,
            "tooMuchSeconds": st.one_of(_ODD, st.fixed_dictionaries({"cpu": st.integers()})),
            "worstExcess": _ODD,
        },
    )
)
def test_whatever_stands_there_goes_on(status: Json) -> None:
    """Whatever somebody wrote there, an account that is read can be written again."""
    stored = StoredAccount.read(status)
    if stored is not None:
        ShadowSimulation(stored.account, stored.published, 0.0).to_status(NOW)


_AMOUNT = st.integers(0, 2**50)


@given(st.lists(st.tuples(_AMOUNT, _AMOUNT, st.integers(0, 10**8)), max_size=20))
def test_sums_are_bounded(rows: list[tuple[int, int, int]]) -> None:
    """The mean and the worst are no more than the largest offer, and too much is never longer than observed."""
    account = Account(NOW)
    for offered, free, milliseconds in rows:
        account = account.add(Amounts(offered, 0), Amounts(free, 0), milliseconds)
    largest = max((offered for offered, _, _ in rows), default=0)
    assert 0 <= account.mean.cpu <= largest
    assert 0 <= account.too_much.cpu <= account.observed == sum(row[2] for row in rows)
    assert account.worst.cpu <= largest
    assert account.too_much.memory == 0
