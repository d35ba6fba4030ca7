from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.codec import CodecError, from_json, to_json
from crds.node_metric import ShadowAccount
from manager.calculators.mid import calculate
from manager.inputs import Amounts, NodeInputs
from manager.mid.shadow import Account, ShadowSimulation, StoredAccount, free_for_mid
from tests.support.objects import NOW, Json, at, exclusive, mid_pod, node, node_inputs, report, resources

GI = 1024**3
WINDOW = 300.0


def used(prod: str, reclaimable: str = "4", age: float = 0.0, **more: Any) -> Json:  # noqa: ANN401 - of report
    made = report(reclaimable=(reclaimable, "10Gi"), age=age, **more)
    made["status"]["prediction"]["classes"].append({"name": "prod", "usage": {"cpu": prod, "memory": "8Gi"}})
    return made


class Node:
    def __init__(self, **strategy: object) -> None:
        self.strategy: dict[str, Any] = {"midIncreaseHoldSeconds": 0, **strategy}
        self.now = 0.0
        self.simulation = ShadowSimulation(Account(NOW), None, self.now)

    def inputs(self, metric: Json | None, *pods: Json) -> NodeInputs:
        return node_inputs(node(), metric, *pods, now=NOW + self.now, **self.strategy)

    def observe(self, metric: Json | None, *pods: Json, after: float = 60.0) -> float | None:
        self.now += after
        inputs = self.inputs(metric, *pods)
        return self.simulation.observe(inputs, calculate(inputs), WINDOW, self.now)

    def reported(self, *prod: str, reclaimable: str = "4", after: float = 60.0) -> None:
        """A report for each, which has just come."""
        for cores in prod:
            self.observe(used(cores, reclaimable, age=-(self.now + after)), after=after)

    @property
    def account(self) -> Account:
        return self.simulation.account


HOSTS = [{"priority": "koord-prod", "usage": resources("4", "1Gi")}]
RESERVED = {"node.koordinator.sh/reservation": '{"resources": {"cpu": "6"}}'}


@pytest.mark.parametrize(
    ("the_node", "metric", "free"),
    [
        (node(cpu="15", capacity={"cpu": "16"}), used("9", usage=("13", "24Gi"), mid=("3", "1Gi")), (16 - 1 - 9, 54)),
        (node(), used("3", hostApplicationMetric=HOSTS), (16 - (1 + 4) - 3, 53)),
        (node(annotations=RESERVED), used("3"), (16 - 6 - 3, 54)),
        (node(), used("40"), (0, 54)),
        (node(), exclusive(used("7", usage=("8", "24Gi")), "1"), (2, 54)),  # 16 - 1 - 7 = 8, of which 6 are exclusive
        # another agent has no classes: usage beyond the system and requested Mid counts as above Mid
        (node(), report(usage=("10", "24Gi"), mid=None), (16 - 1 - 9, 64 - 2 - 22)),
        (node(), None, None),
        (node(), report(usage=("6", None)), None),
    ],
)
def test_free_is_the_amount_for_mid_pods(the_node: Json, metric: Json | None, free: tuple[int, int] | None) -> None:
    expected = free and Amounts(free[0] * 1000, free[1] * GI)
    assert free_for_mid(node_inputs(the_node, metric)) == expected


def test_quiet_node_publishes_safely() -> None:
    quiet = Node()
    quiet.reported(*["3"] * 11)
    published = Amounts(4000, 10 * GI)
    assert quiet.account == Account(NOW, 600_000, Amounts(4000 * 600_000, 10 * GI * 600_000))  # the first is of before
    assert (quiet.account.mean, quiet.simulation.published) == (published, published)


def test_sudden_load_is_too_much() -> None:
    """An amount published while Prod pods took it counts until the report that lowers it, and by how much; once."""
    sudden = Node()
    sudden.reported("3", "3")
    sudden.reported("13", "13", reclaimable="0")  # 2 of 16 cores are left, and 4 were published for one minute of it
    before = sudden.account
    assert (before.observed, before.too_much, before.worst) == (180_000, Amounts(60_000), Amounts(2000))
    sudden.observe(used("13", "0", age=-sudden.now), after=30)
    assert sudden.account == before
    status = to_json(sudden.simulation.to_status(NOW))
    assert status == {
        "since": at(0),
        "time": at(0),
        "observedSeconds": 180,
        "offered": {"cpu": "0m", "memory": str(10 * GI)},
        "mean": {"cpu": "2666m", "memory": str(10 * GI)},
        "tooMuchSeconds": {"cpu": 60, "memory": 0},
        "worstExcess": {"cpu": "2000m", "memory": "0"},
    }


def test_lowered_amount_is_evaluated_for_the_time_in_which_it_stood() -> None:
    halved = Node()
    halved.reported("3")
    halved.strategy["midCPUThresholdPercent"] = 10  # as an edit of the ConfigMap: 4000 -> 1600
    halved.observe(used("3", age=60 - halved.now - 60), after=30)
    halved.reported("13", after=30)
    assert halved.account.too_much == Amounts(30_000)


def test_waiting_increase_is_not_published_and_requests_of_running_pods_are() -> None:
    held = Node(midIncreaseHoldSeconds=120)
    held.reported("3", reclaimable="2")
    held.now += 60
    assert held.observe(used("3", age=-held.now), after=0) == 120.0
    assert held.simulation.published == Amounts(2000, 10 * GI)
    held.observe(used("3", age=-held.now), after=120)
    assert held.simulation.published == Amounts(4000, 10 * GI)
    floor = Node()
    floor.observe(used("3", "0", age=-60.0), mid_pod("m", cpu="3000", memory="2Gi"))
    assert floor.simulation.published == Amounts(3000, 10 * GI)


def test_time_without_reports_is_not_observed_and_the_amount_removed() -> None:
    silent = Node(degradeTimeMinutes=1)
    silent.reported("3")
    observed = silent.account.observed
    silent.observe(used("3", age=-60.0), after=61)
    assert silent.simulation.published is None
    silent.reported("3", after=10_000)
    assert silent.account.observed - observed == WINDOW * 1000
    assert silent.account.mean.cpu == 0  # nothing was published in that time


def test_another_process_goes_on_with_the_account() -> None:
    first = Node()
    first.reported("3", "3", "14", "3")
    stored = StoredAccount.of(first.simulation.to_status(NOW + first.now))
    assert stored == StoredAccount(first.account, first.simulation.published, NOW + first.now)
    again = ShadowSimulation(stored.account, stored.published, 0.0)
    inputs = first.inputs(used("3", age=-first.now))
    again.observe(inputs, calculate(inputs), WINDOW, 5.0)
    assert (again.account, again.published) == (stored.account, stored.published)  # the report was evaluated before


SINCE = {"since": at(-9), "time": at(0)}


@pytest.mark.parametrize(
    "status",
    [
        {},
        {**SINCE, "since": "yesterday"},
        {**SINCE, "time": "yesterday"},
        {**SINCE, "observedSeconds": -1},
        {**SINCE, "tooMuchSeconds": {"cpu": 1}},  # longer than observed
        {**SINCE, "offered": {"cpu": "-1"}},
        {**SINCE, "since": "0001-01-01T00:00:00+23:00"},
    ],
)
def test_impossible_account_is_ignored(status: Json) -> None:
    assert StoredAccount.of(from_json(ShadowAccount, status)) is None


_TIME = st.sampled_from(["2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00", "", "x"])
_ODD = st.none() | st.integers() | st.text(max_size=8) | st.dictionaries(st.sampled_from(["cpu", "memory"]), _TIME)
_AMOUNTS = _ODD | st.fixed_dictionaries({"cpu": st.integers(), "memory": st.text(max_size=5)})


@given(
    st.fixed_dictionaries(
        {"since": _TIME, "time": _TIME},
        optional={
            "observedSeconds": st.integers() | _ODD,
            **dict.fromkeys(("offered", "mean", "tooMuchSeconds", "worstExcess"), _AMOUNTS),
        },
    )
)
def test_every_read_value_can_be_written(status: Json) -> None:
    try:
        stored = StoredAccount.of(from_json(ShadowAccount, status))
    except CodecError:
        return
    if stored is not None:
        ShadowSimulation(stored.account, stored.published, 0.0).to_status(NOW)
