"""Words of a command line."""

import pytest

from headroom.runtime.text import joined


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--interval", "-1s"], ["--interval=-1s"]),
        (["--interval", "-.5s", "--listen", ":1"], ["--interval=-.5s", "--listen", ":1"]),
        (["--interval=1s", "-1"], ["--interval=1s", "-1"]),  # this one has its value
        (["-o", "-1"], ["-o", "-1"]),
        (["--once", "-o", "json"], ["--once", "-o", "json"]),
        (["--interval", "--", "-1s"], ["--interval", "--", "-1s"]),
        (["--", "--interval", "-1s"], ["--", "--interval", "-1s"]),
        (["-1s"], ["-1s"]),
        ([], []),
    ],
)
def test_negative_values_are_joined(words: list[str], expected: list[str]) -> None:
    """What begins with minus and a digit is the value of the long flag before it; nothing else changes."""
    assert joined(words) == expected
