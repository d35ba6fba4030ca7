import pytest

from crds.codec import CodecError
from headroom.cluster.cpu_list import count_cpus, format_cpus, parse_cpus
from headroom.cluster.shape import check_node

EVERY_CPU_A_MILLION_TIMES = "0-65535," * 1_000_000 + "1"


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("text", "count"),
    [("0-3", 4), ("0-3,8", 5), (" 1, 1-2 ", 2), ("7", 1), ("9,0-3,2-5,3", 7), (EVERY_CPU_A_MILLION_TIMES, 65536)],
    ids=["range", "list", "twice", "one", "overlapping", "endless"],
)
def test_cpu_lists(text: str, count: int) -> None:
    """A list counts each CPU once, and takes no time for each CPU that it names."""
    assert count_cpus(text) == count


@pytest.mark.parametrize(
    ("text", "cpus", "shortest"),
    [("0-3,8", {0, 1, 2, 3, 8}, "0-3,8"), ("3,1-2, 7", {1, 2, 3, 7}, "1-3,7"), ("5", {5}, "5")],
)
def test_cpus_of_a_list(text: str, cpus: set[int], shortest: str) -> None:
    assert parse_cpus(text) == cpus
    assert format_cpus(cpus) == shortest


@pytest.mark.parametrize("text", ["", "x", "3-1", "-1", "1-2-3", "1-", "1,,2", "0-99999999999", "9" * 5000, "\uff11"])
def test_bad_cpu_lists(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list of CPUs: write it like 0-3,8"):
        count_cpus(text)


def test_absent_fields_are_fine() -> None:
    """Absent, null and unread fields are not checked."""
    check_node({})
    check_node({"metadata": None, "spec": {"podCIDR": 5}})


def test_wrong_node_is_named() -> None:
    """A Node's amounts must be a map; the reader checks its content."""
    check_node({"status": {"capacity": {"cpu": []}}})
    with pytest.raises(CodecError, match=r"status\.allocatable: must be an object"):
        check_node({"status": {"allocatable": [1]}})
