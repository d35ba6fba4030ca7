"""The inputs of a formula for one node, in milli-cores, bytes and seconds. No I/O, no clock.

`from_objects` turns Kubernetes JSON into `NodeInputs`. The manager and `kubectl headroom explain node` share it, so
both calculate from the same numbers. An unknown amount is `None`, never zero.
"""

from manager.inputs.amounts import Amounts, Measured, Resource, total
from manager.inputs.node import NodeInputs, from_objects
from manager.inputs.node_metric import NodeReport, ObservedAt
from manager.inputs.pod import MidPod, PodInputs
from manager.inputs.strategy import StrategyInputs

__all__ = [
    "Amounts",
    "Measured",
    "MidPod",
    "NodeInputs",
    "NodeReport",
    "ObservedAt",
    "PodInputs",
    "Resource",
    "StrategyInputs",
    "from_objects",
    "total",
]
