"""Which taints a pod tolerates, as kube-scheduler 1.36 judges with its default feature gates."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

Json = Mapping[str, Any]

TAINTED: Final = "node(s) had untolerated taint(s)"
"""As kube-scheduler says it."""
CORDONED: Final = "node(s) were unschedulable"
"""As kube-scheduler says it."""
NUMERIC: Final = frozenset({"Lt", "Gt"})
"""Operators that tolerate nothing unless a feature gate is on that kube-scheduler 1.36 ships turned off."""
_REFUSING: Final = frozenset({"NoSchedule", "NoExecute"})
_CORDON: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def keeps_away(taints: Sequence[Json], tolerations: Sequence[Json]) -> bool:
    """Whether a node's taints refuse a pod with these tolerations."""
    return any(
        taint.get("effect") in _REFUSING and not any(_tolerates(each, taint) for each in tolerations)
        for taint in taints
    )


def tolerates_cordon(tolerations: Sequence[Json]) -> bool:
    """Whether a pod with these tolerations may go to a node that is cordoned."""
    return any(_tolerates(each, _CORDON) for each in tolerations)


def _tolerates(toleration: Json, taint: Json) -> bool:
    """Whether one toleration covers one taint; an empty effect or key covers all."""
    effect, key, operator = toleration.get("effect"), toleration.get("key"), toleration.get("operator") or "Equal"
    if (effect and effect != taint.get("effect")) or (key and key != taint.get("key")):
        return False
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")
