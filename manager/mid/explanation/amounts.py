"""Numbers as people read them: milli-cores, memory, shares, ages. The names state the units."""

from typing import Final

from crds.duration import short_age
from crds.quantity import short_bytes, short_milli_cores

NOTHING: Final = "-"  # in place of an unknown number


def cpu(milli_cores: int | None) -> str:
    """CPU as kubectl top writes it: 1500 -> "1500m"."""
    return NOTHING if milli_cores is None else short_milli_cores(milli_cores)


def memory(amount: int | None) -> str:
    """Memory in the largest unit that fits, two or three digits: 9878424781 -> "9.2Gi", 67108864 -> "64Mi"."""
    if amount is None:
        return NOTHING
    return short_bytes(amount)


def pair(milli_cores: int | None, amount: int | None) -> str:
    """CPU and memory in one column: "1500m/9.2Gi", or one dash where neither is known."""
    if milli_cores is None and amount is None:
        return NOTHING
    return f"{cpu(milli_cores)}/{memory(amount)}"


def percent(part: int | None, whole: int | None) -> str:
    """A share: 300 of 1000 -> "30%"; a dash where it has no meaning."""
    return NOTHING if part is None or not whole else f"{100 * part / whole:.0f}%"


def age(seconds: float | None) -> str:
    """Return how long ago, in one or two units: 75 -> "1m15s", 7300 -> "2h1m", 90000 -> "25h", 300000 -> "3d"."""
    return NOTHING if seconds is None else short_age(seconds)
