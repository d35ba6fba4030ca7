"""Every test that lets the manager look at a node asks `explain` about it too."""

import pytest

from manager.reconcile import node
from manager.reconcile.steps import POST_RECONCILE_STEPS
from tests.manager.explained import Explained


@pytest.fixture(autouse=True)
def explained(monkeypatch: pytest.MonkeyPatch) -> Explained:
    """Compares explain with the manager after every look; says how often it did."""
    reaction = Explained()
    monkeypatch.setattr(node, "POST_RECONCILE_STEPS", (*POST_RECONCILE_STEPS, reaction))
    return reaction
