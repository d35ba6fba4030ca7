import pytest

from agent.host import cgroup_files
from agent.host.cgroup_files import Throttling
from agent.host.procfs import Malformed

V2_CPU = "usage_usec 90000\nuser_usec 20000\nsystem_usec 30000\nnr_periods 10\nnr_throttled 2\nthrottled_usec 3\n"
V2_MEMORY = "anon 200\nfile 300\ninactive_file 50\nactive_file 60\ninactive_anon 70\nactive_anon 80\nunevictable 10\n"
V1_MEMORY = "cache 1\nunevictable 9\n" + "".join(f"total_{line}\n" for line in V2_MEMORY.splitlines())


def test_cpu_usage_is_nanoseconds_in_version_1_and_microseconds_in_version_2() -> None:
    assert cgroup_files.cpu_usage_nanoseconds("9000000000000000\n", 1) == 9_000_000_000_000_000
    assert cgroup_files.cpu_usage_nanoseconds(V2_CPU, 2) == 90_000_000


@pytest.mark.parametrize(("text", "version"), [("", 1), ("-1", 1), ("", 2), ("user_usec 1\n", 2), ("usage_usec", 2)])
def test_short_or_foreign_usage_is_an_error_and_never_zero(text: str, version: int) -> None:
    with pytest.raises(Malformed):
        cgroup_files.cpu_usage_nanoseconds(text, version)


def test_throttling_of_both_versions() -> None:
    assert cgroup_files.throttling(V2_CPU, 2) == Throttling(10, 2, 3000)
    assert cgroup_files.throttling("nr_periods 1\nnr_throttled 2\nthrottled_time 3\n", 1) == Throttling(1, 2, 3)


def test_version_2_has_usage_and_throttling_in_one_file() -> None:
    assert cgroup_files.cpu_counters(V2_CPU) == (90_000_000, Throttling(10, 2, 3000))
    assert cgroup_files.cpu_counters("usage_usec 7\n") == (7000, None)
    with pytest.raises(Malformed, match="nr_throttled"):
        cgroup_files.cpu_counters("usage_usec 7\nnr_periods 1\n")


@pytest.mark.parametrize(
    "number", ["-1", "+1", "1_0", "1.5", "0x1", "1e3", "٣", "9" * 20, str(1 << 64), "1" * 5000, ""]
)
def test_impossible_kernel_text_is_no_number(number: str) -> None:
    with pytest.raises(Malformed):
        cgroup_files.cpu_usage_nanoseconds(number, 1)
    with pytest.raises(Malformed):
        cgroup_files.cpu_usage_nanoseconds(f"usage_usec {number}\n", 2)


@pytest.mark.parametrize("amount", [(1 << 64) - 4096, 1 << 53, (1 << 53) - 1])
def test_wrapped_amount_of_memory_is_refused_also_as_a_sum(amount: int) -> None:
    with pytest.raises(Malformed, match="active_anon is more than any machine has"):
        cgroup_files.memory_stat(V2_MEMORY.replace("active_anon 80", f"active_anon {amount}"), 2)


@pytest.mark.parametrize("text", ["usage_usec 1\n", "nr_periods 1\nnr_throttled abc\n", "nr_periods 1\n"])
def test_throttling_without_counted_periods_is_an_error_and_no_zero(text: str) -> None:
    with pytest.raises(Malformed):
        cgroup_files.throttling(text, 2)


@pytest.mark.parametrize(("text", "version"), [(V2_MEMORY, 2), (V1_MEMORY, 1)])
def test_memory_of_both_versions(text: str, version: int) -> None:
    """In use is the anonymous and unevictable part, descendants included; page cache is apart."""
    stat = cgroup_files.memory_stat(text, version)
    assert stat.used_bytes == 70 + 80 + 10
    assert stat.used_with_page_cache_bytes == stat.used_bytes + 50 + 60


@pytest.mark.parametrize(
    "text", ["", "anon 200\n", V2_MEMORY.replace("200", "x"), V2_MEMORY.replace("active_anon 80", "active_anon")]
)
def test_memory_with_a_missing_or_bad_key_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        cgroup_files.memory_stat(text, 2)


def test_throttled_share() -> None:
    assert cgroup_files.throttled_ratio(Throttling(0, 0, 0), Throttling(20, 5, 9)) == 0.25
    assert cgroup_files.throttled_ratio(Throttling(20, 5, 9), Throttling(20, 5, 9)) == 0
