"""Where the usage traces of the backtest are. Nothing else: reading them is the backtest's."""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent  # all of them, with a README
BITBRAINS: Final = FOLDER / "bitbrains-rnd-2013-08"  # CPU and memory of 499 machines for 30 days
