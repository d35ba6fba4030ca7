import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def pod(name: str, requests: Mapping[str, str] | None = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A pod of a Deployment."""
    namespace, short = name.split("/")
    amounts = {"cpu": "1", "memory": "1Gi"} if requests is None else requests
    resources = {"requests": dict(amounts), "limits": dict(more.get("limits", {}))}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": namespace,
            "name": short,
            "uid": short,
            "labels": {
                "pod-template-hash": "5d4f8c7b9",
                **({"koordinator.sh/priority-class": more["priority"]} if "priority" in more else {}),
            },
            "ownerReferences": [{"kind": "ReplicaSet", "name": f"{short}-5d4f8c7b9", "controller": True}],
        },
        "spec": {"nodeName": more.get("node", "n1"), "containers": [{"name": "main", "resources": resources}]},
    }


def pods_file(path: Path, *pods: Mapping[str, Any]) -> str:
    items = [{key: value for key, value in pod.items() if key not in ("kind", "apiVersion")} for pod in pods]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=4))
    return str(path)
