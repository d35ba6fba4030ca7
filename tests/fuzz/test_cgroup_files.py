"""Files of cgroups, of both versions."""

from hypothesis import strategies as st

from agent.host import cgroup_files
from agent.host.cgroup_files import UNLIMITED
from agent.host.procfs import Malformed
from tests.fuzz.inputs import kernel_texts
from tests.fuzz.originals import CPU_MAX, V1_CPU_STAT, V1_MEMORY_STAT, V1_USAGE, V2_CPU_STAT, V2_MEMORY_STAT
from tests.fuzz.strength import answer_or_refusal, fuzz

LARGEST = 2**64
MOST_BYTES = 2**53  # what the store keeps exactly; one pod beyond it would cost everybody the tick
VERSIONS = st.sampled_from((1, 2))


@fuzz(text=kernel_texts(V1_USAGE, V2_CPU_STAT), version=VERSIONS)
def test_cpu_usage(text: str, version: int) -> None:
    """CPU time is a counter of nanoseconds, or the file is malformed by name."""
    used = answer_or_refusal(
        lambda: cgroup_files.cpu_usage_nanoseconds(text, version), Malformed, "cpuacct.usage", "cpu.stat"
    )
    assert used is None or 0 <= used < 1000 * LARGEST


@fuzz(text=kernel_texts(V1_CPU_STAT, V2_CPU_STAT), version=VERSIONS)
def test_throttling(text: str, version: int) -> None:
    """Throttling is three counters, or cpu.stat is malformed by name."""
    found = answer_or_refusal(lambda: cgroup_files.throttling(text, version), Malformed, "cpu.stat")
    if found is not None:
        assert min(found.periods, found.throttled, found.throttled_nanoseconds) >= 0
        assert 0.0 <= cgroup_files.throttled_ratio(cgroup_files.Throttling(0, 0, 0), found) < float("inf")


@fuzz(text=kernel_texts(V1_MEMORY_STAT, V2_MEMORY_STAT), version=VERSIONS)
def test_memory_stat(text: str, version: int) -> None:
    """Memory in use is an amount that a machine can have, or memory.stat is malformed by name."""
    found = answer_or_refusal(lambda: cgroup_files.memory_stat(text, version), Malformed, "memory.stat")
    if found is not None:
        assert 0 <= found.used_bytes <= found.used_with_page_cache_bytes < MOST_BYTES


@fuzz(text=kernel_texts("12345678\n", "max\n", "9223372036854771712\n"))
def test_memory_amount(text: str) -> None:
    """A single amount is bytes or no limit, or malformed."""
    amount = answer_or_refusal(lambda: cgroup_files.memory_bytes(text), Malformed, "memory")
    assert amount is None or amount == UNLIMITED or 0 <= amount < LARGEST


@fuzz(text=kernel_texts("-1\n", "100000\n", CPU_MAX, "max 100000\n"), version=VERSIONS)
def test_cpu_quota(text: str, version: int) -> None:
    """Quota and period are microseconds or no limit, or malformed by name."""
    quota = answer_or_refusal(lambda: cgroup_files.cpu_quota_microseconds(text, version), Malformed, "cpu")
    period = answer_or_refusal(lambda: cgroup_files.cpu_period_microseconds(text, version), Malformed, "cpu")
    assert quota is None or quota == UNLIMITED or 0 <= quota < LARGEST
    assert period is None or 0 <= period < LARGEST
