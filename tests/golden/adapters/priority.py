from collections.abc import Mapping
from typing import Any, Final

from crds import priority
from tests.golden.adapters import Adapter
from tests.golden.adapters.pods import kubernetes_pod


def _classes(vector: dict[str, Any]) -> dict[str, Any]:
    pod = kubernetes_pod(vector.get("pod"))
    return {
        "priorityClass": str(priority.priority_class(pod)),
        "rawPriorityClass": str(priority.priority_class_raw(pod)),
        "qosClass": str(priority.qos(pod)),
        "rawQosClass": str(priority.qos_raw(pod)),
        "priority": priority.priority_value(pod),
    }


def _raw(vector: dict[str, Any]) -> dict[str, Any]:
    pod = kubernetes_pod(vector.get("pod"))
    return {"priorityClass": str(priority.priority_class_raw(pod)), "qosClass": str(priority.qos_raw(pod))}


OPERATIONS: Final[Mapping[str, Adapter]] = {
    "priority_class_raw": _raw,
    "priority_class_with_default": _classes,
    "priority_value_with_default": _classes,
    "qos_class_raw": _raw,
    "qos_class_with_default": _classes,
    "qos_and_priority_with_default": _classes,
}
