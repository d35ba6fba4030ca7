"""`python -m tools.bench.manager_probed FILE …`: the manager, with a probe of its event loop.

FILE gets a line for each pause of the loop above a hundredth of a second: when it ended [s since 1970] and how long it
was [s]. The other arguments are the manager's.
"""

import asyncio
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import manager.__main__ as program

_EVERY_SECONDS: Final = 0.05
_NOTED_SECONDS: Final = 0.01


async def _probe(file: Path) -> None:
    with file.open("a", encoding="utf-8") as notes:
        while True:
            due = time.monotonic() + _EVERY_SECONDS
            await asyncio.sleep(_EVERY_SECONDS)
            late = time.monotonic() - due
            if late > _NOTED_SECONDS:
                notes.write(f"{time.time()} {late}\n")
                notes.flush()


def longest(file: Path, since: float = 0.0) -> float:
    """The longest pause that ended after a time [s since 1970]; 0 where none was noted. [s]"""
    lines: Iterable[str] = file.read_text(encoding="utf-8").splitlines() if file.exists() else ()
    noted = (each.split() for each in lines)
    return max((float(pause) for ended, pause in noted if float(ended) >= since), default=0.0)


def main() -> int:
    """Run the manager until it ends."""
    file, names = Path(sys.argv[1]), vars(program)
    serve = names["serve"]

    async def probed(*given: Any) -> None:  # noqa: ANN401 - what the manager gives
        probe = asyncio.create_task(_probe(file))
        try:
            await serve(*given)
        finally:
            probe.cancel()

    names["serve"] = probed
    return program.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
