"""A cache with a limit in bytes: its keys may come from any client."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Answer = TypeVar("_Answer")

_ENTRY_BYTES: Final = 300  # overhead of an entry [bytes]
_LARGEST_SHARE: Final = 16
"""An entry of more than this part of the limit is not stored: it would evict many others."""


class BoundedCache(Generic[_Key, _Answer]):
    """A function that caches its results. Not thread-safe.

    Args:
        compute: the function; an error is not cached.
        most_bytes: the limit of the sum of all sizes.
        size: the size of an entry, from its key. [bytes]
    """

    def __init__(
        self, compute: Callable[..., _Answer], most_bytes: int, size: Callable[[_Key], int] | None = None
    ) -> None:
        self._compute = compute
        self._most = most_bytes
        self._size = size or of_tuple
        self._known: OrderedDict[_Key, tuple[_Answer, int]] = OrderedDict()
        self.bytes = 0  # the sum of all sizes

    def __call__(self, key: _Key, *arguments: object) -> _Answer:
        """Return the result for a key; `arguments` replace the key as the function's arguments."""
        entry = self._known.get(key)
        if entry is not None:
            self._known.move_to_end(key)
            return entry[0]
        value, size = self._compute(*(arguments or (key,))), self._size(key) + _ENTRY_BYTES
        if size * _LARGEST_SHARE <= self._most:
            self._known[key] = value, size
            self.bytes += size
            while self.bytes > self._most:
                self.bytes -= self._known.popitem(last=False)[1][1]
        return value


def of_tuple(key: Hashable) -> int:
    """Return twice the bytes of nested tuples of plain values: once for the key, once for the result."""
    return 2 * _plain(key)


def of_json(key: Hashable) -> int:
    """Return the largest size of the parsed JSON texts of a tuple: an empty object takes 64 bytes, a small one 232."""
    texts = key if isinstance(key, tuple) else (key,)
    return _JSON_FACTOR * sum(len(text) for text in texts if isinstance(text, str | bytes))


_JSON_FACTOR: Final = 40


def _plain(value: object) -> int:
    return sys.getsizeof(value) + (sum(map(_plain, value)) if isinstance(value, tuple) else 0)
