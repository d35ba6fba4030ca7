"""Everything a formula may read about one node, already in milli-cores, bytes and seconds. No I/O, no clock.

`from_objects` turns Kubernetes JSON into `NodeFacts`; the manager and `kubectl headroom explain node` share it, so that
both calculate from the same numbers. An amount that is not known is `None`, never a zero.
"""

from manager.inputs.amounts import Amounts, Measured, Resource, total
from manager.inputs.node import NodeFacts, from_objects
from manager.inputs.node_metric import Received, ReportFacts
from manager.inputs.pod import MidPod, PodFacts
from manager.inputs.strategy import StrategyFacts

__all__ = [
    "Amounts",
    "Measured",
    "MidPod",
    "NodeFacts",
    "PodFacts",
    "Received",
    "ReportFacts",
    "Resource",
    "StrategyFacts",
    "from_objects",
    "total",
]
