"""The short form of a pod in Koordinator's vectors -> a pod as Kubernetes writes it."""

from collections.abc import Mapping
from typing import Any

_RESOURCES = ("requests", "limits")


def kubernetes_pod(short: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if short is None:
        return None
    metadata = {key: short[key] for key in ("name", "namespace", "uid", "labels", "annotations") if key in short}
    if short.get("deletionTimestampSet"):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "metadata": metadata,
        "spec": {
            **({"priority": short["priority"]} if short.get("priority") is not None else {}),
            **({"overhead": short["overhead"]} if short.get("overhead") else {}),
            "containers": [_container(container) for container in short.get("containers") or ()],
            "initContainers": [_container(container) for container in short.get("initContainers") or ()],
        },
        "status": {
            **({"qosClass": short["kubeQOSClass"]} if "kubeQOSClass" in short else {}),
            **({"phase": short["phase"]} if "phase" in short else {}),
        },
    }


def _container(short: Mapping[str, Any]) -> dict[str, Any]:
    resources = {kind: short[kind] for kind in _RESOURCES if kind in short}
    return {"resources": resources, **{key: short[key] for key in ("restartPolicy",) if key in short}}


def kubernetes_node(short: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if short is None:
        return None
    return {
        "metadata": {key: short[key] for key in ("name", "labels", "annotations") if key in short},
        "status": {key: short[key] for key in ("allocatable", "capacity") if key in short},
    }
