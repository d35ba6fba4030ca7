"""Answers that are remembered by what was asked, within so many bytes: what is asked may come from anybody."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

_Asked = TypeVar("_Asked", bound=Hashable)
_Answer = TypeVar("_Answer")

_ENTRY_BYTES: Final = 300  # what an entry costs beside what was asked and answered [bytes]
_LARGEST_SHARE: Final = 16
"""What would take more than one part in so many is not remembered: it would push out what many ask for."""


class BoundedCache(Generic[_Asked, _Answer]):
    """A function whose last answers are remembered. Not for several threads.

    Args:
        answer: the function; an error is not remembered.
        most_bytes: the sum of the sizes of all that is remembered.
        size: what an answer takes together with what was asked, from what was asked. [bytes]
    """

    def __init__(
        self, answer: Callable[..., _Answer], most_bytes: int, size: Callable[[_Asked], int] | None = None
    ) -> None:
        self._answer = answer
        self._most = most_bytes
        self._size = size or of_tuple
        self._known: OrderedDict[_Asked, tuple[_Answer, int]] = OrderedDict()
        self.bytes = 0  # the sum of the sizes of all that is remembered

    def __call__(self, asked: _Asked, *given: object) -> _Answer:
        """The function's answer."""
        known = self._known.get(asked)
        if known is not None:
            self._known.move_to_end(asked)
            return known[0]
        answer, size = self._answer(*(given or (asked,))), self._size(asked) + _ENTRY_BYTES
        if size * _LARGEST_SHARE <= self._most:
            self._known[asked] = answer, size
            self.bytes += size
            while self.bytes > self._most:
                self.bytes -= self._known.popitem(last=False)[1][1]
        return answer


def of_tuple(asked: Hashable) -> int:
    """Twice the bytes of nested tuples of plain values: once as they are, once as what is made of them."""
    return 2 * _plain(asked)


def of_json(asked: Hashable) -> int:
    """What the JSON in a tuple of texts takes at most, parsed: an empty object takes 64 bytes, a small one 232."""
    texts = asked if isinstance(asked, tuple) else (asked,)
    return _JSON_FACTOR * sum(len(text) for text in texts if isinstance(text, str | bytes))


_JSON_FACTOR: Final = 40


def _plain(value: object) -> int:
    return sys.getsizeof(value) + (sum(map(_plain, value)) if isinstance(value, tuple) else 0)
