from headroom.backtest.history_inheritance import sources
from headroom.backtest.trace import PodLifetime

DAY = 288


def found(*lifetimes: PodLifetime) -> list[int | None]:
    """Who inherits from whom, when every step was measured."""

    def observed(place: int, step: int) -> int:
        return min(max(step - lifetimes[place].start, 0), lifetimes[place].end - lifetimes[place].start)

    return sources(lifetimes, observed, 300.0)


def test_successor_inherits() -> None:
    """A pod of a workload that was there goes on with its history; one of another workload, or of none, does not."""
    first = PodLifetime(0, 0, 0, 100, "shop/cart")
    assert found(first, PodLifetime(1, 0, 100, 200, "shop/cart")) == [None, 0]
    assert found(first, PodLifetime(1, 0, 100, 200, "shop/pay")) == [None, None]
    assert found(PodLifetime(0, 0, 0, 100), PodLifetime(0, 0, 100, 200)) == [None, None]


def test_richest_is_inherited() -> None:
    """Of several pods of the workload the one that was seen longest is gone on with, also while it lives."""
    brief, long = PodLifetime(0, 0, 0, 100, "shop/cart"), PodLifetime(1, 0, 0, 500, "shop/cart")
    assert found(brief, long, PodLifetime(2, 0, 300, 500, "shop/cart")) == [None, None, 1]


def test_chain_is_gone_on_with() -> None:
    pods = [PodLifetime(0, 0, 100 * number, 100 * (number + 1), "shop/cart") for number in range(4)]
    assert found(*pods) == [None, 0, 1, 2]


def test_workload_is_remembered_for_a_week() -> None:
    """After a week without a pod the agent has forgotten a workload."""
    first = PodLifetime(0, 0, 0, DAY, "shop/cart")
    assert found(first, PodLifetime(1, 0, 7 * DAY, 8 * DAY, "shop/cart")) == [None, 0]
    assert found(first, PodLifetime(1, 0, 9 * DAY, 10 * DAY, "shop/cart")) == [None, None]


def test_pods_that_come_together() -> None:
    """Two that come at once both go on with the one before."""
    first = PodLifetime(0, 0, 0, 100, "shop/cart")
    both = [PodLifetime(number, 0, 100, 200, "shop/cart") for number in (1, 2)]
    assert found(first, *both) == [None, 0, 0]
