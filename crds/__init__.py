"""THE API: kinds, quantities, names, priorities. No I/O, no client, no numpy; imports nothing else of ours."""

from crds.codec import CodecError, from_json, to_json
from crds.colocation import ColocationConfig, ColocationStrategy, NodeStrategy
from crds.elastic_quota import ElasticQuota
from crds.node_metric import GROUP, VERSION, NodeMetric
from crds.predict_policy import PredictPolicy
from crds.priority import PriorityBand, QoS
from crds.quantity import Bytes, MilliCores, QuantityError, parse_quantity

__all__ = [
    "GROUP",
    "VERSION",
    "Bytes",
    "CodecError",
    "ColocationConfig",
    "ColocationStrategy",
    "ElasticQuota",
    "MilliCores",
    "NodeMetric",
    "NodeStrategy",
    "PredictPolicy",
    "PriorityBand",
    "QoS",
    "QuantityError",
    "from_json",
    "parse_quantity",
    "to_json",
]
