"""The project does not grow, and its wording does not get worse, unless a commit raises a budget on purpose."""

from tests.architecture.budgets import budgets, exceeded, lines, wording


def test_folders_stay_within_their_lines() -> None:
    """The message names each folder that grew."""
    assert not (above := exceeded(lines(), budgets()["lines"], "lines")), "\n".join(above)


def test_wording_stays_plain() -> None:
    """The message names each class of wording of which there is more."""
    assert not (above := exceeded(wording(), budgets()["wording"], "matches")), "\n".join(above)


def test_excess_is_named() -> None:
    """A folder without a budget may have no line."""
    above = exceeded({"agent": 3, "new": 1, "manager": 5}, {"agent": 2, "manager": 5}, "lines")
    assert above == ["agent: 3 lines, 1 above the budget of 2", "new: 1 lines, 1 above the budget of 0"]
