"""Files of /proc."""

from agent.host import procfs
from agent.host.procfs import Malformed
from tests.fuzz.inputs import kernel_texts
from tests.fuzz.originals import MEMINFO, PRESSURE, STAT
from tests.fuzz.strength import answer_or_refusal, fuzz

LARGEST = 2**64


@fuzz(text=kernel_texts(STAT))
def test_stat(text: str) -> None:
    """/proc/stat gives whole ticks and CPUs, or is malformed by name."""
    ticks = answer_or_refusal(lambda: procfs.busy_ticks(text), Malformed, "/proc/stat")
    assert ticks is None or 0 <= ticks < 5 * LARGEST
    each = answer_or_refusal(lambda: procfs.busy_ticks_per_cpu(text), Malformed, "/proc/stat")
    assert each is None or all(0 <= one < 5 * LARGEST for one in each.values())
    assert procfs.cpu_count(text) >= 0


@fuzz(text=kernel_texts(MEMINFO))
def test_meminfo(text: str) -> None:
    """/proc/meminfo gives a memory of which no more is free than there is, or is malformed by name."""
    memory = answer_or_refusal(lambda: procfs.meminfo(text), Malformed, "/proc/meminfo")
    if memory is not None:
        assert 0 <= memory.used_bytes <= memory.total_bytes < 2**53
        assert 0 <= memory.used_with_page_cache_bytes <= memory.total_bytes


@fuzz(text=kernel_texts(PRESSURE))
def test_pressure(text: str) -> None:
    """A pressure file gives microseconds for some and full, or is malformed by name."""
    totals = answer_or_refusal(lambda: procfs.pressure_totals(text), Malformed, "pressure")
    if totals is not None:
        assert totals.keys() <= {"some", "full"}
        assert all(0 <= total < LARGEST for total in totals.values())
