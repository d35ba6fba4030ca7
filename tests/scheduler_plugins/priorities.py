"""PriorityClasses that pods may name as soon as they are created."""

from typing import Any, Final

from tests.scheduler_plugins.extenders import until
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError

CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_FORBIDDEN: Final = 403


def make(cluster: Cluster, name: str, value: int, **more: Any) -> None:  # noqa: ANN401 - any field of a PriorityClass
    """Create a PriorityClass, and wait until the API server admits pods that name it: it watches classes."""
    cluster.api.create_all([(CLASSES, {"metadata": {"name": name}, "value": value, **more})])
    until(lambda: _admits(cluster, name), f"pods being admitted with PriorityClass {name}")


def _admits(cluster: Cluster, name: str) -> bool:
    spec = {"priorityClassName": name, "containers": [{"name": "main", "image": "none"}]}
    try:
        cluster.api.request(
            "POST", "/api/v1/namespaces/default/pods?dryRun=All", {"metadata": {"name": f"uses-{name}"}, "spec": spec}
        )
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        return False
    return True


def remove(cluster: Cluster, name: str) -> None:
    cluster.api.request("DELETE", f"{CLASSES}/{name}")
