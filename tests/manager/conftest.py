"""A manager with a node; every test that reconciles it also compares `explain`."""

import pytest

from manager.reconcile import node
from manager.reconcile.steps import POST_RECONCILE_STEPS
from tests.manager.explained import Explained
from tests.support.objects import node as a_node
from tests.support.world import World


@pytest.fixture(autouse=True)
def explained(monkeypatch: pytest.MonkeyPatch) -> Explained:
    """Compares explain with the manager after every look; says how often it did."""
    reaction = Explained()
    monkeypatch.setattr(node, "POST_RECONCILE_STEPS", (*POST_RECONCILE_STEPS, reaction))
    return reaction


@pytest.fixture
def world() -> World:
    world = World()
    world.has_node(a_node())
    return world
