"""How hard the parsers are tried, and what counts as a sound refusal."""

import functools
import os
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

from hypothesis import given, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

SOAK: Final = os.environ.get("HEADROOM_SOAK", "") not in ("", "0")
"""Whether this is `make soak`: many inputs, new ones in every run. What failed once is tried first the next time."""
EXAMPLES: Final = 10_000 if SOAK else 25
"""Inputs per parser."""
LONGEST_LINE: Final = 1000
"""More than this of one input is not for a log."""
TRIED: Final[Counter[str]] = Counter()
"""How many inputs each test was given."""

_SETTINGS: Final = settings(
    max_examples=EXAMPLES,
    derandomize=not SOAK,
    database=DirectoryBasedExampleDatabase(".hypothesis/examples") if SOAK else None,
    print_blob=SOAK,
)


def fuzz(**strategies: SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try a test with many inputs, and count them."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def counted(*arguments: Any, **inputs: Any) -> None:  # noqa: ANN401 - whatever the test takes
            TRIED[test.__name__] += 1
            test(*arguments, **inputs)

        return _SETTINGS(given(**strategies)(counted))

    return decorate


def answer_or_refusal(parse: Callable[[], T], refusal: type[Exception], *named: str) -> T | None:
    """What a parser answers; None for a sound refusal.

    Args:
        parse: Calls the parser.
        refusal: The error that it is documented to raise; no other is fine.
        named: Of these words one must be in the message, so that a person knows where to look.
    """
    try:
        return parse()
    except refusal as error:
        said = str(error)
        assert said, "a refusal without a word"
        assert len(said) <= LONGEST_LINE, said
        assert "\n" not in said, said
        assert not named or any(word in said for word in named), said
        return None
