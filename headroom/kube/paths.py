"""Paths of the core kinds. The module of a custom kind has its path."""

from typing import Final

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def node(name: str) -> str:
    return f"{NODES}/{name}"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def pod(namespace: str, name: str) -> str:
    return f"{pods(namespace)}/{name}"


def config_map(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


def priority_class(name: str) -> str:
    return f"{PRIORITY_CLASSES}/{name}"


def lease(namespace: str, name: str) -> str:
    return f"{LEASES.format(namespace=namespace)}/{name}"


def events(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def status(path: str) -> str:
    return f"{path}/status"
