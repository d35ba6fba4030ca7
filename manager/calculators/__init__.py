"""Formulas: inputs in, amounts and named terms out. No I/O, no clock, no logging.

A calculator is one file here and one line in `CALCULATORS`.
"""

from collections.abc import Mapping
from typing import Final

CALCULATORS: Final[Mapping[str, str]] = {
    "mid": "manager.calculators.mid:MidCalculator",
}
"""Name of a tier -> where its calculator is; resolved with `pkgutil.resolve_name`."""
