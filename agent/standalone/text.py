"""Amounts and times as a person reads them in a narrow column."""

from typing import Final

UNKNOWN: Final = "-"
_UNITS: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_SPANS: Final = (("d", 86400), ("h", 3600), ("m", 60))
_WHOLE: Final = 100.0


def cores(value: float | None) -> str:
    """Cores with two decimals: 0.284 -> "0.28"."""
    return UNKNOWN if value is None else f"{value:.2f}"


def size(value: float | None) -> str:
    """Bytes with three digits or so: 3328599654 -> "3.1Gi"."""
    if value is None:
        return UNKNOWN
    for name, unit in _UNITS:
        if value >= unit:
            amount = value / unit
            return f"{amount:.0f}{name}" if amount >= _WHOLE else f"{amount:.1f}{name}"
    return f"{value:.0f}"


def span(seconds: float) -> str:
    """A time in its two largest units: 90061 -> "1d1h", 75 -> "1m15s"."""
    rest, parts = int(seconds), []
    for name, unit in _SPANS:
        if rest >= unit:
            parts.append(f"{rest // unit}{name}")
            rest %= unit
    if rest or not parts:
        parts.append(f"{rest}s")
    return "".join(parts[:2])
