"""The steps after a node's Mid resources are published: events, hot nodes, conditions, shadow accounts, evictions.

A step is one file here and one line in `POST_RECONCILE_STEPS`. Steps run in this order and know nothing of each other.
"""

from typing import Final

from manager.reconcile.steps.conditions import NodeMetricConditions
from manager.reconcile.steps.events import NodeEvents
from manager.reconcile.steps.eviction import MidEvictions
from manager.reconcile.steps.hot_nodes import HotNodeTaints
from manager.reconcile.steps.shadow import ShadowAccounts
from manager.reconcile.steps.step import PostReconcileStep, ReconcileResult

POST_RECONCILE_STEPS: Final[tuple[PostReconcileStep, ...]] = (
    NodeEvents(),
    HotNodeTaints(),
    NodeMetricConditions(),
    ShadowAccounts(),
    MidEvictions(),
)
"""Every reaction, in the order in which they run."""

__all__ = ["POST_RECONCILE_STEPS", "PostReconcileStep", "ReconcileResult"]
