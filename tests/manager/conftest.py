"""Every test that lets the manager look at a node asks `explain` about it too."""

import pytest

from manager.handlers import mid_resource
from manager.reactions import REACTIONS
from tests.manager.explained import Explained


@pytest.fixture(autouse=True)
def explained(monkeypatch: pytest.MonkeyPatch) -> Explained:
    """Compares explain with the manager after every look; says how often it did."""
    reaction = Explained()
    monkeypatch.setattr(mid_resource, "REACTIONS", (*REACTIONS, reaction))
    return reaction
