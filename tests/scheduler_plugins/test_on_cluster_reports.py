"""How often NodeMetrics come, and what that means for estimates, on the real kube-scheduler."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.scheduler_plugins.extenders import profile
from tests.scheduler_plugins.stage import Stage, Usage, among
from tools.devcluster import Cluster

pytestmark = pytest.mark.cluster

SHIPPED = "reports-shipped"
HOT = "node(s) cpu usage exceed threshold"


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Two nodes of 32 cores, and the shipped profile."""
    with Stage.open(cluster, "reports", 2) as stage:
        stage.add(SHIPPED, profile())
        stage.wait()
        yield stage


def test_estimates_bridge_interval(stage: Stage) -> None:
    """Where NodeMetric.spec says 180 s, pods are estimated until a report covers 180 s of them.

    A node that reports each minute counts as measured after a minute: the same report there lets the next pod in,
    though the pods have only begun to work.
    """
    stage.clear()
    slow, quick = stage.nodes
    for node, interval in ((slow, 180), (quick, 60)):
        stage.report({node: Usage(2)}, interval=interval)
    stage.seen()
    names = {node: [f"first-{node}-{number}" for number in range(11)] for node in stage.nodes}
    for node in stage.nodes:  # 2 + 11 * 0.85 * 2 of 32 cores: 65 percent
        stage.place(*(begins(stage, name, node) for name in names[node]))
        stage.create(begins(stage, f"next-{node}", node))
        stage.refused(f"next-{node}", HOT)
    # After 61 s the pods use a tenth of what they will.
    hear(stage, names, seconds=61, each=0.2)
    assert stage.placed(f"next-{quick}") == [quick]
    stage.create(begins(stage, f"last-{slow}", slow))
    stage.refused(f"last-{slow}", HOT)
    assert not stage.where()[f"next-{slow}"]
    # After 181 s a whole interval is covered: what was measured counts, and that is less than feared.
    hear(stage, names, seconds=181, each=1.0)
    assert set(stage.placed(f"next-{slow}", f"last-{slow}")) == {slow}


def begins(stage: Stage, name: str, node: str) -> Any:  # noqa: ANN401 - JSON
    """A pod for a node that may use two cores."""
    return stage.pod(name, SHIPPED, cpu="500m", limits={"cpu": "2"}, affinity=among(node))


def hear(stage: Stage, names: Mapping[str, list[str]], *, seconds: float, each: float) -> None:
    """Write what the nodes will report in so many seconds, when each of the pods uses so many cores."""
    usage = Usage(2 + 11 * each)
    pods = {node: dict.fromkeys(of_node, Usage(each, 0.1)) for node, of_node in names.items()}
    stage.report(dict.fromkeys(stage.nodes, usage), since=-seconds, pods=pods)
    stage.seen()
