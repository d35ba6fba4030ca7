"""Runs inside a pod: a load that is known. Standard library only; `python3 load.py SHARE MIB FILE_MIB SHARED_MIB`.

It burns SHARE of a core in a closed loop on its own CPU clock, holds MIB of memory that it has written to, reads a file
of FILE_MIB once a second, and keeps one of SHARED_MIB in /shared. Once a second it says how much CPU it has used. The
files share and mib in /load, when they appear, change the first two.
"""

import mmap
import os
import sys
import time
from pathlib import Path

FOLDER = Path("/load")
BLOCK = 1 << 20
TURN_SECONDS = 0.005
HELD: list[mmap.mmap] = []


def hold(mebibytes: float) -> None:
    """Hold at least so much memory, in pages of its own: nothing beside them grows."""
    while len(HELD) < mebibytes:
        piece = mmap.mmap(-1, BLOCK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared would be tmpfs
        piece.write(b"x" * BLOCK)
        HELD.append(piece)


def write(file: Path, mebibytes: float) -> None:
    with file.open("wb") as out:
        for _ in range(int(mebibytes)):
            out.write(os.urandom(BLOCK))


def read(file: Path) -> None:
    with file.open("rb", buffering=0) as content:
        while content.read(BLOCK):
            pass


def override(name: str, otherwise: float) -> float:
    try:
        return float((FOLDER / name).read_text())
    except (OSError, ValueError):
        return otherwise


def main(share: float, mebibytes: float, file_mebibytes: float, shared_mebibytes: float) -> None:
    if shared_mebibytes:
        write(Path("/shared/file"), shared_mebibytes)
    if file_mebibytes:
        write(FOLDER / "file", file_mebibytes)
    began, spent, texts = time.monotonic(), time.process_time(), 0.0
    while True:
        now = time.monotonic()
        if now - texts >= 1.0:
            texts = now
            print(f"{time.time():.3f} {time.process_time():.4f}", flush=True)
            hold(override("mib", mebibytes))
            if file_mebibytes:
                read(FOLDER / "file")
            if (wanted := override("share", share)) != share:
                share, began, spent = wanted, now, time.process_time()
        if time.process_time() - spent < (now - began) * share:
            sum(range(2000))
        else:
            time.sleep(TURN_SECONDS)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:5]))
