from dataclasses import replace
from typing import Any

import pytest

from crds.priority import VALUES, PriorityBand
from headroom.kube import ApiError, paths
from manager.cleanup import PRIORITY_CLASSES, is_headrooms
from manager.handlers.config import ConfigReconciler
from tests.support.world import World

CLASSES = {paths.priority_class(name) for name in PRIORITY_CLASSES}


@pytest.fixture
def world() -> World:
    world = World()
    world.run.context.settings = replace(world.run.context.settings, create_priority_classes=True)
    return world


async def test_missing_classes_are_created(world: World) -> None:
    """A class has the lowest value of its band, only Prod preempts, and uninstalling finds each class."""
    await ConfigReconciler(world.run).reconcile()
    for band, (lowest, _) in VALUES.items():
        created = world.api.objects[paths.priority_class(band.value)]
        policy = "PreemptLowerPriority" if band == PriorityBand.PROD else "Never"
        assert (created["value"], created["preemptionPolicy"]) == (lowest, policy)
        assert is_headrooms(created)
    assert {value.value for value in VALUES} == set(PRIORITY_CLASSES)


async def test_existing_class_stays_and_deleted_one_is_not_created_again(world: World) -> None:
    other: dict[str, Any] = {"metadata": {"name": "koord-mid"}, "value": 7500}
    path = paths.priority_class("koord-mid")
    before = world.api.put(path, other)
    reconciler = ConfigReconciler(world.run)
    await reconciler.reconcile()
    assert world.api.objects[path] == before
    del world.api.objects[path]
    await reconciler.reconcile()
    assert path not in world.api.objects
    assert CLASSES - {path} <= world.api.objects.keys()


async def test_only_the_leader_with_the_flag_creates_classes(world: World) -> None:
    world.lead(leads=False)
    await ConfigReconciler(world.run).reconcile()
    plain = World()
    await ConfigReconciler(plain.run).reconcile()
    for entry in (world, plain):
        assert not CLASSES & entry.api.objects.keys()


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_missing_right_for_one_class(world: World, method: str, caplog: pytest.LogCaptureFixture) -> None:
    refused = paths.priority_class("koord-mid")
    world.api.fails[f"{method} {refused}"] = ApiError(403, "Forbidden", "no permission for priorityclasses")
    await ConfigReconciler(world.run).reconcile()
    assert CLASSES - world.api.objects.keys() == {refused}
    assert "PriorityClass koord-mid: not created: no permission" in caplog.text
