"""Huge pages for the heap."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headroom.runtime.huge_pages import collapse, heap

MIB = 2**20
_DETAILS = "Size: {size} kB\nKernelPageSize: 4 kB\nRss: {rss} kB\nAnonHugePages: 0 kB\nVmFlags: rd wr mr mw me ac\n"
_FILL = """
import mmap, re
from pathlib import Path
from headroom.runtime.huge_pages import collapse
text = bytes(range(256)) * (32 * 2**12)
memory = mmap.mmap(-1, len(text), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = text
def show():
    print(sum(map(int, re.findall("AnonHugePages: +([0-9]+)", Path("/proc/self/smaps").read_text()))))
show()
collapse()
show()
assert memory[:] == text
"""


def _mapping(start: int, size: int, kind: str = "rw-p", name: str = "", share: float = 1.0) -> str:
    """A mapping in the format of /proc/PID/smaps; addresses and sizes are in MiB."""
    place = "fe:00 247741" if name.startswith("/") else "00:00 0"
    head = f"{start * MIB:x}-{(start + size) * MIB:x} {kind} 00000000 {place} {name}\n"
    return head + _DETAILS.format(size=size * 1024, rss=int(size * 1024 * share))


def test_whole_pages_of_full_private_mappings() -> None:
    smaps = (
        _mapping(101, 6, name="[heap]")
        + _mapping(200, 4)
        + _mapping(301, 1)
        + _mapping(400, 4, name="[anon: glibc: malloc]", share=0.8)
    )
    assert list(heap(smaps)) == [(102 * MIB, 4 * MIB), (200 * MIB, 4 * MIB), (400 * MIB, 4 * MIB)]


def test_stacks_code_and_shared_memory_stay() -> None:
    smaps = (
        _mapping(100, 8, share=0.01)
        + _mapping(200, 4, "r-xp", "/usr/bin/python3.11")
        + _mapping(300, 4, "rw-p", "/usr/lib/libpython3.11.so")
        + _mapping(400, 4, "rw-s")
        + _mapping(500, 8, name="[stack]")
    )
    assert not list(heap(smaps))


def test_heap_moves_and_keeps_its_content() -> None:
    done = subprocess.run([sys.executable, "-c", _FILL], capture_output=True, text=True, check=True, timeout=60)
    before, after = map(int, done.stdout.split())
    release = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
    has_huge_pages = release >= (6, 1) and Path("/sys/kernel/mm/transparent_hugepage").exists()
    assert (after - before >= 16 * 1024) if has_huge_pages else after == before


def test_unreadable_proc_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("headroom.runtime.huge_pages._SMAPS", tmp_path / "smaps")
    collapse()
