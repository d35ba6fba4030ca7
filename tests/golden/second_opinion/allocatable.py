"""The scores that NodeResourcesAllocatable must give, node by node in exact fractions."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from crds.quantity import parse_quantity

Json = Mapping[str, Any]


def scores(vector: Json) -> list[dict[str, Any]]:
    """Name, raw and normalised score of each node of a vector of the operation `score`."""
    arguments = vector.get("args") or {}
    listed = arguments.get("resources") or [{"name": "cpu", "weight": 1 << 20}, {"name": "memory", "weight": 1}]
    weights = {each["name"]: each["weight"] for each in listed}
    sign = 1 if arguments.get("mode") == "Most" else -1
    raw = [sign * mean(node, weights) for node in vector["nodes"]]
    low, high = min(raw), max(raw)
    names = [node["metadata"]["name"] for node in vector["nodes"]]
    return [
        {
            "name": name,
            "raw": each,
            "score": 0 if low == high else math.floor(Fraction(each - low) * 100 / (high - low)),
        }
        for name, each in zip(names, raw, strict=True)
    ]


def mean(node: Json, weights: Mapping[str, int]) -> int:
    """The weighted mean of a node's amounts, truncated toward zero. No amount is negative."""
    total = sum(Fraction(weight) * _amount(node, name) for name, weight in weights.items())
    return math.trunc(total / sum(weights.values()))


def _amount(node: Json, name: str) -> int:
    quantity = ((node.get("status") or {}).get("allocatable") or {}).get(name, 0)
    if name == "cpu":
        return math.ceil(parse_quantity(quantity) * 1000)
    scalar = ("/" in name and not name.startswith("requests.")) or name.startswith(
        ("hugepages-", "attachable-volumes-")
    )
    known = name in ("memory", "ephemeral-storage") or scalar
    return math.ceil(parse_quantity(quantity)) if known else 0
