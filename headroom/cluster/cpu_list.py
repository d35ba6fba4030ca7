"""Lists of CPUs as the kernel writes them and node annotations name them: 0-3,8."""

from collections.abc import Iterable
from typing import Final

_MOST_CPUS: Final = 1 << 16
_MOST_DIGITS: Final = 5
_SHOWN: Final = 80  # the part of a text that a message quotes [characters]


def count_cpus(text: str) -> int:
    """Count the CPUs of a list such as "0-3,8", in one pass over its ranges.

    Raises ValueError: it is not such a list.
    """
    ranges = sorted(_cpu_range(piece.strip(), text) for piece in text.split(","))
    count, end = 0, -1
    for low, high in ranges:
        count += max(high - max(low - 1, end), 0)
        end = max(end, high)
    return count


def parse_cpus(text: str) -> frozenset[int]:
    """The CPUs of a list that the kernel wrote. Raises ValueError: it is not such a list."""
    ranges = (_cpu_range(piece.strip(), text) for piece in text.split(","))
    return frozenset(cpu for low, high in ranges for cpu in range(low, high + 1))


def format_cpus(cpus: Iterable[int]) -> str:
    """Write CPUs as a list, in the fewest ranges: 8, 0, 2, 1 -> "0-2,8"."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)


def _cpu_range(piece: str, text: str) -> tuple[int, int]:
    first, dash, last = piece.partition("-")
    numbers = [first, last] if dash else [first, first]
    if all(number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS for number in numbers):
        low, high = map(int, numbers)
        if low <= high < _MOST_CPUS:
            return low, high
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    raise ValueError(f"{shown!r} is not a list of CPUs: write it like 0-3,8")
