"""LoadAwareScheduling with a usage half a percent above a threshold, or a few units more or less."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler_plugins.plugins.load_aware import EXPIRED, usage_percent
from tests.scheduler_plugins.objects import World, load_aware, node, node_metric, pod, pod_metric, predicting

CPU = "node(s) cpu usage exceed threshold"
MEMORY = "node(s) memory usage exceed threshold"

_NEAR = st.tuples(
    st.sampled_from([1000, 4096, 28_000, 100_000]),  # milli-cores
    st.integers(-3, 3),  # milli-cores beside half a percent above the threshold
    st.sampled_from([2**30, 100 * 2**30, 2**43]),  # bytes
    st.integers(-3, 3),
    st.sampled_from([0, 179, 180, 1000]),  # age of the report [s]
)


@pytest.mark.timeout(60)
@given(
    near=st.lists(_NEAR, min_size=1, max_size=4),
    threshold=st.sampled_from([28, 50, 65]),
    schedules=st.booleans(),
    of=st.sampled_from(["usage", "prod usage", "peak"]),
)
@example(near=[(1000, -3, 2**43, 0, 0)], threshold=65, schedules=False, of="usage")  # beyond exact percentages
def test_nodes_near_threshold(
    near: list[tuple[int, int, int, int, int]], threshold: int, *, schedules: bool, of: str
) -> None:
    """The reason of each node is that of its percentages, whatever the other nodes are."""
    thresholds = {"cpu": threshold, "memory": 95}
    arguments = {"prod_usage_thresholds": thresholds} if of == "prod usage" else {"usage_thresholds": thresholds}
    plugin = load_aware(**arguments, use_prediction=of == "peak", enable_schedule_when_node_metrics_expired=schedules)
    world, reasons = World(plugin), []
    for number, (cpu, more_cpu, memory, more_memory, age) in enumerate(near):
        name = f"n{number}"
        used = cpu * (2 * threshold + 1) // 200 + more_cpu, memory * 191 // 200 + more_memory
        world.put(node(name, f"{cpu}m", f"{memory}"))
        amounts = f"{used[0] - 1}m", f"{used[1] - 1}"
        if of == "usage":
            metric = node_metric(name, *amounts, updated=-age)
        elif of == "peak":
            metric = predicting(node_metric(name, "1m", "1", updated=-age), dict(zip(thresholds, amounts, strict=True)))
        else:
            metric = node_metric(name, "1m", "1", updated=-age, pods=[pod_metric(f"p{number}", *amounts)])
            world.put(pod(f"p{number}", {"cpu": "1m", "memory": "1"}, node=name, priority=9500, scheduled=-3000))
        world.put(metric)
        percents = usage_percent(np.array(used), np.array([cpu, memory])).tolist()
        by_usage = CPU if percents[0] > threshold else MEMORY if percents[1] > 95 else None
        reasons.append(by_usage if age < 180 else None if schedules else EXPIRED)
    assert not world.cache.failures
    prod = pod("incoming", {"cpu": "1m", "memory": "1"}, priority=9500)
    refused = world.reasons(prod, *(f"n{number}" for number in range(len(near))))
    assert [reason and reason.replace("predicted ", "") for reason in refused] == reasons
