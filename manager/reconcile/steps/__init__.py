"""What follows from one look at a node besides the numbers on the Node: events, conditions, accounts, evictions.

A reaction is one file here and one line in `REACTIONS`. Reactions come after the write, in this order, and know nothing
of one another.
"""

from typing import Final

from manager.reconcile.steps.conditions import NodeMetricConditions
from manager.reconcile.steps.events import NodeEvents
from manager.reconcile.steps.eviction import MidEvictions
from manager.reconcile.steps.shadow import ShadowAccounts
from manager.reconcile.steps.step import Look, Reaction

REACTIONS: Final[tuple[Reaction, ...]] = (NodeEvents(), NodeMetricConditions(), ShadowAccounts(), MidEvictions())
"""Every reaction, in the order in which they run."""

__all__ = ["REACTIONS", "Look", "Reaction"]
