"""The number of objects per page of a list: parsing a page blocks the event loop."""

from typing import Final

PAGE_SIZE: Final = 250
PAGE_BYTES: Final = 2**19
"""The largest size of a page: 10 ms of parsing for objects of many small parts, such as NodeMetrics. [bytes]"""
_FIRST: Final = 25  # objects of the first page: whether they are Nodes of 50 KiB is not known yet
_GROWTH: Final = 4  # no page has more than so many times the objects of the one before


class Paging:
    """The pages of one list."""

    def __init__(self, most: int = PAGE_SIZE) -> None:
        self._most, self._bytes = most, PAGE_BYTES
        self.limit = min(_FIRST, most)

    def came(self, count: int, size: int) -> None:
        """A page has come: so many objects, of so many bytes."""
        if count:
            self.limit = max(min(self._bytes * count // max(size, 1), self.limit * _GROWTH, self._most), 1)

    def expired(self) -> None:
        """The snapshot of the pages expired before the last page: list again, with fewer and larger pages."""
        self._most, self._bytes, self.limit = self._most * _GROWTH, self._bytes * _GROWTH, self.limit * _GROWTH
