"""How long the machine slept."""

from agent.host.rates import SUSPENDED_SECONDS, slept_seconds


def test_awake_machine_has_not_slept() -> None:
    """Between two looks at a machine that runs, it has not slept: no busy neighbour makes it seem so."""
    first = slept_seconds()
    assert first > -SUSPENDED_SECONDS / 2
    assert all(abs(slept_seconds() - first) < SUSPENDED_SECONDS for _ in range(1000))
