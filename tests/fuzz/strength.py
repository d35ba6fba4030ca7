"""Effort of the fuzz tests, and the definition of a valid refusal."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from hypothesis import given, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.strategies import SearchStrategy

from tests.rounds import SOAK, of_a_round

T = TypeVar("T")

LONGEST_LINE: Final = 1000  # more of one input is not for a log
_SETTINGS: Final = settings(
    max_examples=of_a_round(10_000) if SOAK else 10,
    derandomize=not SOAK,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples") if SOAK else None,
    print_blob=SOAK,
)


def fuzz(**strategies: SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return lambda test: _SETTINGS(given(**strategies)(test))


def are_lines(*texts: str) -> None:
    for text in texts:
        assert text
        assert len(text) <= LONGEST_LINE, text
        assert "\n" not in text, text


def answer_or_refusal(parse: Callable[[], T], refusal: type[Exception], *named: str) -> T | None:
    """A parser's result; None for a refusal, with one of the words `named` in its message."""
    try:
        return parse()
    except refusal as error:
        said = str(error)
    are_lines(said)
    assert not named or any(word in said for word in named), said
    return None
