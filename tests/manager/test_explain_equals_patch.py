"""`kubectl headroom explain` and the manager's writes to a Node agree."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import names
from manager.inputs import PodInputs, Resource
from manager.mid.explanation import document as explain_json
from tests.manager.explained import Explained, explanation_of
from tests.support.objects import Json, mid_pod, node, pod, report, resources
from tests.support.world import NODE, World, put_pods


def optional(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=strategies)


AMOUNT = st.integers(0, 64)
PERCENT = st.integers(0, 100)
PAIR = st.tuples(AMOUNT.map(str), AMOUNT.map("{}Gi".format))
AGE = st.just(10) | st.integers(-100, 1500)
STRATEGIES = optional(
    enable=st.booleans(),
    mode=st.sampled_from(["active", "shadow"]),
    midPolicy=st.sampled_from(["reclaimable", "design", "designMixed"]),
    midReclaimMode=st.sampled_from(["", "static"]),
    midShrinkPolicy=st.sampled_from(["floor", "exact"]),
    midUnallocatedPercent=PERCENT,
    midCPUThresholdPercent=PERCENT,
    midMemoryThresholdPercent=PERCENT,
    midStaticCPUReservedPercent=PERCENT,
    degradeTimeMinutes=st.integers(1, 20),
    midEviction=st.fixed_dictionaries({"mode": st.sampled_from(["off", "dry-run"])}),
)
RESERVATIONS = [
    '{"resources": {"cpu": "2", "memory": "3Gi"}}',
    '{"reservedCPUs": "0-3"}',
    "not JSON",
    '{"reservedCPUs": "9-1"}',
]
ANNOTATIONS = optional(
    **{
        names.ANNOTATION_NODE_RESERVATION: st.sampled_from(RESERVATIONS),
        names.ANNOTATION_RAW_ALLOCATABLE: st.sampled_from(['{"cpu": "7"}', '{"memory": "9Gi"}', "[]"]),
        names.ANNOTATION_COLOCATION_STRATEGY: STRATEGIES.map(json.dumps) | st.just('{"enabled": true}'),
    }
)
LABELS = optional(
    **{
        "pool": st.sampled_from(["web", "db"]),
        "type": st.sampled_from(["virtual-kubelet", "real"]),
        names.LABEL_MID_STATIC_CPU_RATIO: st.sampled_from(["0.29", "2.5", "x"]),
    }
)
NODES = st.builds(
    lambda cores, more, mid, labels, annotations: node(
        cpu=str(cores),
        memory=f"{cores}Gi",
        capacity={"cpu": str(cores + more), "memory": f"{cores + more}Gi"},
        mid=mid,
        labels=labels,
        annotations=annotations,
    ),
    AMOUNT,
    AMOUNT,
    st.none() | st.tuples(AMOUNT.map("{}000".format), AMOUNT.map("{}Gi".format)),
    LABELS,
    ANNOTATIONS,
)
USAGE = PAIR | st.sampled_from([(None, "2Gi"), (None, None)])
RECLAIMABLE = st.none() | PAIR | st.just(("0", "0"))
OWN = st.builds(report, usage=USAGE, system=PAIR, reclaimable=RECLAIMABLE, mid=PAIR, age=AGE, prediction_age=AGE)
FOREIGN = st.builds(
    lambda usage, system, reclaimable, used, age: report(
        usage=usage,
        system=system,
        reclaimable=reclaimable,
        mid=None,
        age=age,
        podsMetric=[{"namespace": "shop", "name": "mid-0", "podUsage": resources(*used)}],
        hostApplicationMetric=[{"name": "h", "priority": "koord-prod", "usage": resources(*used)}],
    ),
    USAGE,
    PAIR,
    RECLAIMABLE,
    PAIR,
    AGE,
)
PROD = st.builds(
    lambda amounts, priority: pod("prod", {"cpu": amounts[0], "memory": amounts[1]}, priority=priority),
    PAIR,
    st.sampled_from([9000, 7000, 5000, 3000, 0, None]),
)
MID = st.builds(
    lambda cpu, memory, phase: mid_pod("mid-0", str(cpu * 100), f"{memory}Gi", phase=phase),
    AMOUNT,
    AMOUNT,
    st.sampled_from(["Running", "Failed"]),
)
PODS = st.tuples(PROD, MID).map(list) | st.lists(PROD | MID, max_size=1)


@given(NODES, st.none() | OWN | FOREIGN, PODS, STRATEGIES, STRATEGIES)
def test_explain_agrees_with_the_patch(
    the_node: Json, metric: Json | None, pods: list[Json], cluster_part: Json, entry: Json
) -> None:
    world = World()
    selected = {**entry, "name": "web", "nodeSelector": {"matchLabels": {"pool": "web"}}}
    # Nothing waits: without a hold, and with every difference worth a write.
    at_once = {"enable": True, "midIncreaseHoldSeconds": 0, "resourceDiffThreshold": 0.001}
    world.configure(json.dumps({**at_once, **cluster_part, "nodeConfigs": [selected]}))
    put_pods(world.run.context.cluster, map(PodInputs.from_object, pods))
    if metric is not None:
        world.reports(metric)
    world.has_node(the_node)
    before = explanation_of(world.run, "n1")
    assert before is not None
    asyncio.run(world.reconcile())
    wanted = {
        resource.mid_name: before.desired[resource] for resource in Resource if before.desired[resource] is not None
    }
    status = world.api.objects[NODE]["status"]
    for part in ("capacity", "allocatable"):
        amounts = {name: amount for name, amount in status[part].items() if name in {names.MID_CPU, names.MID_MEMORY}}
        assert {name: _number(amount) for name, amount in amounts.items()} == wanted
    said = explain_json.as_json(before)["desired"]
    assert said == (
        {"cpuMilli": wanted.get(names.MID_CPU), "memoryBytes": wanted.get(names.MID_MEMORY)} if wanted else None
    )


def _number(quantity: str) -> int:
    return int(quantity.removesuffix("Gi")) * 2**30 if quantity.endswith("Gi") else int(quantity)


async def test_disagreement_of_node_and_manager_is_noticed(explained: Explained) -> None:
    world = World()
    world.has_node(node())
    world.reports(report())
    await world.reconcile()
    status = world.run.context.cluster.nodes["n1"]["status"]
    world.api.objects[NODE]["status"]["allocatable"][names.MID_CPU] = "1"
    assert status["allocatable"][names.MID_CPU] == "4000"
    with pytest.raises(AssertionError):
        await world.reconcile()
    assert explained.compared == ["n1", "n1"]
