"""The parts of the quotas' benchmark: the cluster that it makes, the times that it takes, and that it runs."""

from collections import Counter
from typing import Any, cast

import pytest

from tools.bench import quota_objects as made
from tools.bench.quota_reclaim import main
from tools.bench.quota_waits import Waits
from tools.devcluster.api import ApiClient
from tools.devcluster.errors import DevClusterError

NODES = 40
NOW = 1_800_000_000.0


def _gpus(pod: dict[str, Any]) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["requests"].get(made.GPU, 0))


def test_all_gpus_are_in_use() -> None:
    """Every node's GPUs are in use, by quotas of which each second one borrows what the other is guaranteed."""
    pods = list(made.pods(NODES, NOW))
    nodes: Counter[str] = Counter()
    teams: Counter[str] = Counter()
    for pod in pods:
        nodes[pod["spec"]["nodeName"]] += _gpus(pod)
        teams[pod["metadata"]["namespace"]] += _gpus(pod)
    assert len(pods) == NODES * made.PODS_PER_NODE
    assert set(nodes.values()) == {made.GPUS}
    assert len(nodes) == NODES
    numbers = range(NODES // made.NODES_PER_QUOTA)
    assert teams == {made.namespace(each): 32 if each % 2 else 48 for each in numbers}
    assert len(numbers) * made.MIN_GPUS == NODES * made.GPUS


class _Changes:
    """An API server that tells of two pods: one is refused and bound, one is bound at once."""

    def watch(self, _: str) -> Any:  # noqa: ANN401 - an iterator of changes
        yield "LISTED", {"items": []}
        for name, node, reason in (
            ("a", "", "Unschedulable"),
            ("b", "n-1", ""),
            ("a", "", "Unschedulable"),
            ("a", "n", ""),
        ):
            condition = {"type": "PodScheduled", "reason": reason}
            status = {"conditions": [condition]}
            yield "MODIFIED", {"metadata": {"name": name}, "spec": {"nodeName": node}, "status": status}


def test_waits_are_taken() -> None:
    """What counts is the time from the first refusal to the binding, of pods that were refused."""
    waits = Waits(cast("ApiClient", _Changes()), "team")
    waits.wait(["a", "b"])
    (taken,) = waits.taken(["a", "b"])
    assert taken == waits.bound["a"] - waits.refused["a"] >= 0


def test_late_pods_are_named() -> None:
    """Pods that are not bound in time are an error that names some of them."""
    with pytest.raises(DevClusterError, match=r"1 of 2 pods were not bound in 0 s: \['c'\]"):
        Waits(cast("ApiClient", _Changes()), "team").wait(["b", "c"], 0.02)


@pytest.mark.parametrize("flags", [["--nodes=0"], ["--pods=0"], ["--nodes=10", "--pods=20", "--at-once=1"]])
def test_wrong_plan_is_refused(flags: list[str]) -> None:
    """What cannot be measured is refused before a cluster is started."""
    with pytest.raises(SystemExit):
        main(flags)
