from headroom.backtest.history_inheritance import sources
from headroom.backtest.trace import Stay

DAY = 288


def found(*stays: Stay) -> list[int | None]:
    """Who inherits from whom, when every step was measured."""

    def observed(place: int, step: int) -> int:
        return min(max(step - stays[place].start, 0), stays[place].end - stays[place].start)

    return sources(stays, observed, 300.0)


def test_successor_inherits() -> None:
    """A pod of a workload that was there goes on with its history; one of another workload, or of none, does not."""
    first = Stay(0, 0, 0, 100, "shop/cart")
    assert found(first, Stay(1, 0, 100, 200, "shop/cart")) == [None, 0]
    assert found(first, Stay(1, 0, 100, 200, "shop/pay")) == [None, None]
    assert found(Stay(0, 0, 0, 100), Stay(0, 0, 100, 200)) == [None, None]


def test_richest_is_inherited() -> None:
    """Of several pods of the workload the one that was seen longest is gone on with, also while it lives."""
    brief, long = Stay(0, 0, 0, 100, "shop/cart"), Stay(1, 0, 0, 500, "shop/cart")
    assert found(brief, long, Stay(2, 0, 300, 500, "shop/cart")) == [None, None, 1]


def test_chain_is_gone_on_with() -> None:
    """What was inherited counts for the next one."""
    pods = [Stay(0, 0, 100 * number, 100 * (number + 1), "shop/cart") for number in range(4)]
    assert found(*pods) == [None, 0, 1, 2]


def test_workload_is_remembered_for_a_week() -> None:
    """After a week without a pod the agent has forgotten a workload."""
    first = Stay(0, 0, 0, DAY, "shop/cart")
    assert found(first, Stay(1, 0, 7 * DAY, 8 * DAY, "shop/cart")) == [None, 0]
    assert found(first, Stay(1, 0, 9 * DAY, 10 * DAY, "shop/cart")) == [None, None]


def test_pods_that_come_together() -> None:
    """Two that come at once both go on with the one before."""
    first = Stay(0, 0, 0, 100, "shop/cart")
    both = [Stay(number, 0, 100, 200, "shop/cart") for number in (1, 2)]
    assert found(first, *both) == [None, 0, 0]
