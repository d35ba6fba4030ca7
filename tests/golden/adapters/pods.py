"""The short form of a pod in Koordinator's vectors -> a pod as Kubernetes writes it."""

from collections.abc import Mapping
from typing import Any

_RESOURCES = ("requests", "limits")


def kubernetes_pod(short: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The pod; None stays None."""
    if short is None:
        return None
    return {
        "metadata": {key: short[key] for key in ("name", "namespace", "uid", "labels", "annotations") if key in short},
        "spec": {
            **({"priority": short["priority"]} if short.get("priority") is not None else {}),
            "containers": [
                {"resources": {kind: container[kind] for kind in _RESOURCES if kind in container}}
                for container in short.get("containers") or ()
            ],
        },
        "status": {"qosClass": short["kubeQOSClass"]} if "kubeQOSClass" in short else {},
    }
