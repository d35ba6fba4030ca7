import pytest

from agent.host import procfs
from agent.host.procfs import Malformed

STAT = """cpu  514003 37519 593580 1706155242 5134 45033 38832 7 9 0
cpu0 9755 845 15540 26635869 3021 2312 9724 0 0 0
cpu1 10075 664 10790 26653871 214 973 1163 0 0 0
intr 574218032 193 0
"""
MEMINFO = "MemTotal:  1048576 kB\nMemFree:  262144 kB\nMemAvailable:  524288 kB\nHugePages_Total:  0\n"


def arcstats(size: int, least: int) -> str:
    """ZFS's file with its neighbouring names."""
    return (
        "13 1 0x01 147 39984 9142098838 12345678\nname    type data\nhits    4    7\nc    4    9\n"
        f"c_min    4    {least}\nc_max    4    99\nsize    4    {size}\ncompressed_size    4    1\n"
        "memory_available_bytes    3    -5\n"
    )


def test_busy_ticks_leave_idle_out() -> None:
    """Busy is user + nice + system + irq + softirq; idle, iowait, steal and guest are not."""
    assert procfs.busy_ticks(STAT) == 514003 + 37519 + 593580 + 45033 + 38832
    assert procfs.cpu_count(STAT) == 2


@pytest.mark.parametrize("text", ["", "cpu  1 2 3", "cpu  a b c d e f g", "cpu0 1 2 3 4 5 6 7\n", "intr 1"])
def test_short_stat_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="cpu"):
        procfs.busy_ticks(text)


def test_memory_in_use() -> None:
    """In use is total - available, with page cache total - free."""
    memory = procfs.meminfo(MEMINFO)
    assert memory.used_bytes == 512 << 20
    assert memory.used_with_page_cache_bytes == 768 << 20


@pytest.mark.parametrize(
    ("pools", "used_gib"),
    [
        ("", 70),
        (f"HugePages_Total: 64\nHugepagesize: {1 << 20} kB\nHugetlb: {64 << 20} kB\n", 6),
        (f"HugePages_Total: 64\nHugepagesize: 2048 kB\nHugetlb: {64 << 20} kB\n", 6),  # pools of several sizes
        (f"HugePages_Total: 64\nHugepagesize: {1 << 20} kB\n", 6),  # a kernel before 4.17
        ("HugePages_Total: 0\nHugepagesize: 2048 kB\nHugetlb: 0 kB\n", 70),
    ],
)
def test_huge_pages_are_not_in_use(pools: str, used_gib: int) -> None:
    """A node of 128 GiB with 58 GiB available: pools of huge pages are not usage, as kubelet has no memory there."""
    text = f"MemTotal: {128 << 20} kB\nMemFree: {50 << 20} kB\nMemAvailable: {58 << 20} kB\n{pools}"
    memory = procfs.meminfo(text)
    assert memory.used_bytes == used_gib << 30
    assert memory.used_with_page_cache_bytes == (used_gib + 8) << 30
    assert memory.total_bytes == 128 << 30


def test_arc_above_minimum_is_not_in_use() -> None:
    """A node of 64 GiB with 31 GiB available and an ARC of 22 GiB, 2 of which it keeps: 13 GiB are in use."""
    text = f"MemTotal: {64 << 20} kB\nMemFree: {30 << 20} kB\nMemAvailable: {31 << 20} kB\n"
    memory = procfs.meminfo(text, arcstats(22 << 30, 2 << 30))
    assert memory.used_bytes == 13 << 30
    assert memory.used_with_page_cache_bytes == 14 << 30
    assert procfs.meminfo(text, arcstats(1 << 30, 2 << 30)) == procfs.meminfo(text)  # below its minimum
    assert procfs.meminfo(text, arcstats(60 << 30, 0)).used_bytes == 0
    both = procfs.meminfo(f"{text}Hugetlb: {8 << 20} kB\n", arcstats(22 << 30, 2 << 30))
    assert both.used_bytes == 5 << 30


@pytest.mark.parametrize(("whole", "used"), [(64, 13), (70, 13), (256, 33)])
def test_arc_of_the_host_is_not_of_its_containers(whole: int, used: int) -> None:
    """In a system container (LXC), MemTotal is its limit, and its usage has no ARC; ZFS counts the host's memory."""
    text = f"MemTotal: {64 << 20} kB\nMemFree: {30 << 20} kB\nMemAvailable: {31 << 20} kB\n"
    stats = f"{arcstats(22 << 30, 2 << 30)}memory_all_bytes    4    {whole << 30}\n"
    assert procfs.meminfo(text, stats).used_bytes == used << 30


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "size, c_min"),
        ("size 4 12\n", "c_min"),
        ("size 4 x\nc_min 4 1\n", "size"),
        ("size 4 12\nc_min 4 -1\n", "c_min"),
        ("size 4 12\nc_min 4", "c_min"),  # a short read
        (arcstats(65 << 30, 1), "more free than total"),
    ],
)
def test_bad_arcstats_is_refused_by_its_line(text: str, named: str) -> None:
    with pytest.raises(Malformed, match=named):
        procfs.meminfo(f"MemTotal: {64 << 20} kB\nMemFree: 1 kB\nMemAvailable: 1 kB\n", text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "MemTotal"),
        ("MemTotal: 12 kB\nMemFree: 1 kB\nMemAvailable: 1 kB\nHugetlb: 13 kB\n", "impossible total"),
        ("MemTotal: 12 kB\nMemFree: 1 kB\nMemAvailable: 1 kB\nHugePages_Total: x\n", "HugePages_Total"),
        ("MemTotal: 1 kB\nMemFree: 1 kB\n", "MemAvailable"),
        ("MemTotal: x kB\n", "MemTotal"),
        ("MemTotal: 12 kB\nMemFr", "MemFr"),  # a short read
        ("MemTotal: 12 kB\nMemFree: 13 kB\nMemAvailable: 1 kB\n", "more free than total memory"),
        (f"MemTotal: {1 << 60} kB\nMemFree: 1 kB\nMemAvailable: 1 kB\n", "impossible total"),
        (f"MemTotal: {1 << 64} kB\n", "MemTotal"),
        ("MemTotal: -1 kB\n", "MemTotal"),
    ],
)
def test_bad_meminfo_is_refused_by_its_line(text: str, named: str) -> None:
    with pytest.raises(Malformed, match=named):
        procfs.meminfo(text)


def test_pressure_totals() -> None:
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=812\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    assert procfs.pressure_totals(text) == {"some": 812, "full": 7}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "some avg10=0.00\n",
        "nothing total=1\n",
        "some total=\n",
        "some total=-1\n",
        "some avg10=x avg60=0.00 avg300=0.00 total=1\n",
    ],
)
def test_bad_pressure_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        procfs.pressure_totals(text)
