"""What follows from one look at a node besides the numbers on the Node: events, conditions, accounts, evictions.

A reaction is one file here and one line in `REACTIONS`. Reactions come after the write, in this order, and know nothing
of one another.
"""

from typing import Final

from manager.reactions.conditions import NodeMetricConditions
from manager.reactions.events import NodeEvents
from manager.reactions.eviction import MidEvictions
from manager.reactions.reaction import Look, Reaction
from manager.reactions.shadow import ShadowAccounts

REACTIONS: Final[tuple[Reaction, ...]] = (NodeEvents(), NodeMetricConditions(), ShadowAccounts(), MidEvictions())
"""Every reaction, in the order in which they run."""

__all__ = ["REACTIONS", "Look", "Reaction"]
