import pytest

from crds.workload_history import WorkloadUsage, parse_usage, whole_mib, workload_id


def test_id_is_short_and_stable() -> None:
    """The id of a workload is the same on each node, and others have others."""
    assert workload_id("shop/Deployment/cart") == "o-cSlP0tO0Eh"
    assert len({workload_id(f"shop/Deployment/{number}") for number in range(10_000)}) == 10_000


def test_line_has_all_fields() -> None:
    usage = WorkloadUsage(workload_id("shop/Deployment/cart"), 1250, 812, 37, 2, 1)
    assert parse_usage(str(usage)) == usage


@pytest.mark.parametrize("line", ["x", "o-cSlP0tO0Eh -5 1 1 1 1", "o-cSlP0tO0Eh nan 1 1 1 1", "o-cSlP0tO0Eh 5 1 1 1"])
def test_other_lines_are_rejected(line: str) -> None:
    with pytest.raises(ValueError, match="is not the usage of a workload"):
        parse_usage(line)


def test_memory_is_rounded_up() -> None:
    assert (whole_mib(1), whole_mib(1 << 20), whole_mib((1 << 20) + 1)) == (1, 1, 2)
