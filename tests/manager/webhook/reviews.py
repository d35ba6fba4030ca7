"""Admission reviews as kube-apiserver sends them."""

import json
from typing import Any, Final

NAMESPACE: Final = "headroom-system"
NAME: Final = "slo-controller-config"
KEY: Final = "colocation-config"
_STORED: Final = '{"enable": false}'

Json = dict[str, Any]


def config_map(text: str | None, name: str = NAME, namespace: str = NAMESPACE) -> Json:
    """A ConfigMap as the API server has it; `None`: without the key."""
    applied = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {KEY: text}})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": "0b1ef3c2-7ad5-4f4d-8a3f-3b0f7d2f9a11",
            "resourceVersion": "4711",
            "creationTimestamp": "2026-11-21T10:00:00Z",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied},
            "managedFields": [{"manager": "kubectl-edit", "operation": "Update", "apiVersion": "v1"}],
        },
        "data": {} if text is None else {KEY: text},
    }


def review(
    text: str | None = "{}",
    before: str | None = _STORED,
    operation: str = "UPDATE",
    name: str = NAME,
    namespace: str = NAMESPACE,
    *,
    resource: str = "configmaps",
    user: str = "kubernetes-admin",
) -> Json:
    """A review of an edit from one text to another."""
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    what = {"group": "", "version": "v1", "resource": resource}
    options = f"{operation.capitalize()}Options"
    stored = operation in {"CREATE", "UPDATE"}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "f0d1ce9a-3f9d-4c66-9a43-0a7d4a3c1d55",
            "kind": kind,
            "resource": what,
            "requestKind": kind,
            "requestResource": what,
            "name": name,
            "namespace": namespace,
            "operation": operation,
            "userInfo": {"username": user, "groups": ["system:masters", "system:authenticated"]},
            "object": config_map(text, name, namespace) if stored else None,
            "oldObject": None if operation == "CREATE" else config_map(before, name, namespace),
            "dryRun": False,
            "options": {"kind": options, "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-edit"},
        },
    }
