import json

import pytest

from agent.reporter import spec as specs
from agent.reporter.workloads import workload_lines
from agent.samples import CPU, MEMORY
from crds.workload_history import LONGEST_REPORT, parse_usage, workload_id
from tests.agent.made import GIB, machine, pod

CART, TILL = "shop/Deployment/cart", "shop/Deployment/till"


def test_workload_has_its_highest_pod() -> None:
    """The highest usage of the pods of a workload counts, with the longest observed time, and its cold pods."""
    pods = [pod("a", workload=CART), pod("b", workload=CART), pod("c", workload=TILL), pod("d")]
    node = machine()
    node.rounds(130, {"a": 1.0, "b": 0.5, "d": 4.0}, pods)
    lines = [parse_usage(line) for line in workload_lines(node.trainer, pods, {"shop/b", "shop/c"})]
    cart, till = lines
    assert (cart.id, cart.cpu_milli, cart.memory_mib, cart.hours) == (workload_id(CART), 1000, 1024, 1)
    assert (cart.pods, cart.cold) == (2, 1)
    # not measured yet, and so without usage
    assert (till.id, till.cpu_milli, till.memory_mib, till.hours, till.cold) == (workload_id(TILL), 0, 0, 0, 1)


def test_workload_without_pods_is_reported() -> None:
    """Pods that ended still count for their workload, after those of the present pods."""
    pods = [pod("a", workload=TILL), pod("b", workload=CART)]
    node = machine()
    node.rounds(12, {"a": 1.0, "b": 2.0}, pods)
    lines = [parse_usage(line) for line in workload_lines(node.trainer, pods[1:], ())]
    assert [(line.id, line.pods) for line in lines] == [(workload_id(CART), 1), (workload_id(TILL), 0)]


def test_report_has_room_for_a_full_node() -> None:
    """110 workloads fit in 4 KiB of JSON. More do not, and those with cold pods come first."""
    pods = [pod(f"p{number}", workload=f"shop/Deployment/{number}") for number in range(300)]
    node = machine()
    node.rounds(2, {entry.uid: 16.0 + number for number, entry in enumerate(pods)}, pods)
    lines = workload_lines(node.trainer, pods[:110], ())
    assert len(json.dumps(lines, separators=(",", ":"))) <= LONGEST_REPORT
    assert {parse_usage(line).id for line in lines} >= {workload_id(str(entry.workload)) for entry in pods[:110]}
    first = parse_usage(workload_lines(node.trainer, pods, {"shop/p299"})[0])
    assert first.id == workload_id("shop/Deployment/299")


def test_spec_has_amounts_by_id() -> None:
    spec = {"workloadHistory": {workload_id(CART): {"cpu": "1250m", "memory": "2Gi"}}}
    result = specs.read(spec, specs.default())
    assert result.workloads == {workload_id(CART): {CPU: 1250, MEMORY: 2 * GIB}}
    assert specs.read({}, result).workloads == {}


@pytest.mark.parametrize("amount", ["NaN", "much", "1e"])
def test_absurd_amount_in_spec_is_refused(amount: str) -> None:
    """The fault is named, and the last good history stays in force."""
    result = specs.read({"workloadHistory": {"x": {"cpu": amount}}}, specs.default())
    assert "workloadHistory" in result.problem
    assert result.workloads == {}
