"""What a relist costs beside reading it."""

import copy
from typing import Any

import pytest

from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.snapshot.arrays import NodeState
from tests.scheduler_plugins.objects import World, node, node_metric, pod


def test_relist_of_the_same_changes_nothing() -> None:
    """Objects that a relist brings once more, as they were, cost no node's record: only what changed is made anew."""
    world = World()
    objects = [item for each in "abc" for item in (node(each), node_metric(each), pod(each, {"cpu": "1"}, node=each))]
    world.put(*objects)
    before = world.nodes("a", "b", "c")
    recorded: list[str] = []
    former = LoadAware.record

    def counting(plugin: LoadAware, state: NodeState) -> tuple[Any, ...]:
        recorded.append(state.name)
        return former(plugin, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoadAware, "record", counting)
        world.put(*copy.deepcopy(objects))
        again = world.nodes("a", "b", "c")
        assert recorded == []
        world.put(pod("b", {"cpu": "2"}, node="b"), node_metric("c", cpu="51"))
        world.nodes("a", "b", "c")
        assert sorted(recorded) == ["b", "c"]
    assert (before.tables[NAME] == again.tables[NAME]).all()
