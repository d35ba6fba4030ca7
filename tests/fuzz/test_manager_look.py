"""One look at one node after another, whatever stands in the API server: the manager writes numbers or nothing."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import strategies as st

from crds import names
from manager.handlers import node_metric, nodes
from manager.inputs import PodInputs
from tests.fuzz.inputs import Json, any_json, damaged, objects
from tests.fuzz.originals import CONFIG, NODE, REPORT
from tests.fuzz.strength import fuzz
from tests.fuzz.test_manager_facts import ANNOTATIONS, LARGEST, PODS
from tests.support.objects import mid_pod
from tests.support.world import METRIC, World, put_pods
from tests.support.world import NODE as PATH

SOUND = {**NODE, "metadata": {"name": "n1", "uid": "u", "labels": {}, "annotations": {}}}
TEXTS = damaged(json.dumps(CONFIG)) | objects(CONFIG).map(json.dumps) | any_json().map(json.dumps)
STRATEGIES = st.dictionaries(st.just(names.ANNOTATION_COLOCATION_STRATEGY), TEXTS)
LISTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", names.MID_CPU, names.MID_MEMORY]),
    st.sampled_from(["7800m", "15Gi", "8", "500", "0"]) | any_json(),
)
STATUSES = st.fixed_dictionaries({}, optional={"capacity": LISTS | st.none(), "allocatable": LISTS | st.none()})


def _as_object(value: Json) -> Json:
    return value if isinstance(value, dict) else {}


def _with_sound_conditions(status: Json) -> Json:
    """Conditions are merged by their type: the API server lets no other ones in."""
    return {**_as_object(status), "conditions": REPORT["conditions"]}


STEP = st.fixed_dictionaries(
    {"seconds": st.integers(0, 1000)},
    optional={
        "config": TEXTS,
        "node": st.builds(
            lambda status, own, more: {
                **SOUND,
                "metadata": {**SOUND["metadata"], "annotations": {**own, **more}},
                "status": status,
            },
            STATUSES,
            ANNOTATIONS,
            STRATEGIES,
        ),
        "report": objects(REPORT).map(_with_sound_conditions),
        "spec": objects({"metricCollectPolicy": {"reportIntervalSeconds": 60}}).map(_as_object),
        "pods": st.lists(PODS, max_size=3),
    },
)


def _happens(world: World, step: Json) -> None:
    world.later(step["seconds"])
    if "config" in step:
        world.configure(step["config"])
    if "node" in step:
        nodes.observe(world.run, "MODIFIED", world.api.put(PATH, step["node"]))
    metric = world.api.objects.get(METRIC)
    if metric is not None and ("report" in step or "spec" in step):
        changed = {**metric, "status": step.get("report", metric.get("status"))}
        changed["spec"] = step.get("spec", metric.get("spec"))
        node_metric.observe(world.run, "MODIFIED", world.api.put(METRIC, changed))
    if "pods" in step:
        on_it = [{**pod, "spec": {**pod["spec"], "nodeName": "n1"}} for pod in step["pods"]]
        put_pods(world.run.context.cluster, [PodInputs.from_object(pod) for pod in (*on_it, mid_pod("own"))])


def _wrote_numbers(world: World) -> None:
    """Every patch of the Node is about our two resources, with the same numbers in both lists."""
    for patch in world.api.written("PATCH", PATH):
        assert patch.keys() <= {"status", "metadata"}
        lists = [patch["status"][part] for part in ("capacity", "allocatable")]
        assert lists[0] == lists[1]
        assert lists[0].keys() <= {names.MID_CPU, names.MID_MEMORY}
        assert all(number is None or 0 <= int(number) < LARGEST for number in lists[0].values())
    world.api.calls.clear()


async def _live(steps: list[Json]) -> None:
    world = World()
    world.has_node(SOUND)
    await world.reconcile()
    for step in steps:
        _happens(world, step)
        await world.reconcile()
        _wrote_numbers(world)
        due = world.due_in()
        assert due is None or due >= 0


@fuzz(steps=st.lists(STEP, max_size=4))
def test_looks(steps: list[Json]) -> None:
    """Nodes, reports, specs, pods and configurations of any kind, in any order, and time that passes: no look fails."""
    asyncio.run(_live(steps))


@pytest.mark.parametrize("status", [None, {}, {"capacity": None}, {"capacity": [], "allocatable": {}}])
def test_shapes_of_status(status: Any) -> None:  # noqa: ANN401
    """A Node without a status that can be read offers nothing."""
    asyncio.run(_live([{"seconds": 1, "node": {**SOUND, "status": status}, "report": REPORT}]))
