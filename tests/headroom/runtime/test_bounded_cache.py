"""Remembered answers: equal questions have one answer, and all of them together stay within so many bytes."""

import json
import sys
from typing import Any

import pytest

from headroom.runtime.bounded_cache import BoundedCache, of_json

MOST = 100_000


def test_equal_questions_share_an_answer() -> None:
    """A repeated request returns the same object, without calling the function again."""
    calls: list[tuple[str, str]] = []

    def answer(key: tuple[str, str]) -> list[str]:
        calls.append(key)
        return [*key]

    memo = BoundedCache[tuple[str, str], list[str]](answer, MOST)
    assert memo(("a", "b")) is memo(("a", "b"))
    assert calls == [("a", "b")]


def test_cache_is_bounded_by_bytes() -> None:
    """The cache stays within its bytes for any number and size of requests, and results are right."""
    memo = BoundedCache[tuple[str, str], int](len, MOST)
    for number in range(1000):
        assert memo((f"{number}", "x" * (number * 10))) == 2
        assert memo.bytes <= MOST
    assert memo.bytes > MOST / 2


def test_latest_entries_stay() -> None:
    """A repeated request stays in the cache longer than a single one."""
    calls: list[str] = []
    memo = BoundedCache[str, None](calls.append, MOST)
    for number in range(1000):
        memo("often")
        memo(f"once {number}")
    assert calls.count("often") == 1


def test_large_entry_evicts_no_other() -> None:
    """A that is larger than a sixteenth of all is answered and not remembered."""
    memo = BoundedCache[str, int](len, MOST)
    memo("small")
    before = memo.bytes
    assert memo("x" * MOST) == MOST
    assert memo.bytes == before


def test_error_is_not_remembered() -> None:
    failing = [True]

    def answer(_key: str) -> int:
        if failing:
            raise ValueError("no")
        return 5

    memo = BoundedCache[str, int](answer, MOST)
    with pytest.raises(ValueError, match="no"):
        memo("a")
    failing.clear()
    assert memo("a") == 5


@pytest.mark.parametrize("text", ['{"a":{"b":{}}}', '[{"a":1},{"b":2},{"c":3}]', "[" + "{}," * 1000 + "{}]"])
def test_json_is_never_larger_than_thought(text: str) -> None:
    """The size of parsed JSON is estimated from above, by its text."""

    def deep(value: Any) -> int:  # noqa: ANN401 - any JSON
        parts = value.items() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        return sys.getsizeof(value) + sum(map(deep, parts))

    assert of_json(text) >= deep(json.loads(text)) / 2
