"""A Mid namespace on a real API server, with the classes that the cases of the translation name."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crds.names import LABEL_TIER
from crds.priority import VALUES
from manager.handlers.priority_classes import priority_class
from tests.support.waiting import eventually
from tools.devcluster import Cluster

Json = dict[str, Any]


@contextmanager
def mid_namespace(cluster: Cluster, name: str) -> Iterator[None]:
    """Create the namespace and the classes, and delete them at the end."""
    classes = [priority_class(band) for band in VALUES]
    for other, value in (("reports", 7100), ("important", 100)):
        classes.append({**classes[-1], "metadata": {"name": other}, "value": value})
    overhead = {"podFixed": {"cpu": "100m", "memory": "64Mi"}}
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "with-overhead"}}
    metadata = {"name": name, "labels": {LABEL_TIER: "mid"}}
    for body in (*classes, {**runtime, "handler": "h", "overhead": overhead}):
        cluster.apply(body)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    eventually(lambda: bool(cluster.api.get(accounts)["items"]), "the namespace has its account")
    yield
    cluster.kubectl("delete", "namespace", name, "--wait=false")
    cluster.kubectl("delete", "priorityclass", *(body["metadata"]["name"] for body in classes))
    cluster.kubectl("delete", "runtimeclass", "with-overhead")


def created(cluster: Cluster, pod: Json, namespace: str) -> tuple[Json, str]:
    """Return a pod as the API server would store it, and the warnings or the error of kubectl."""
    words = [str(cluster.binaries.path("kubectl")), "-n", namespace, "create", "--dry-run=server", "-o", "json"]
    ended = subprocess.run(
        [*words, "-f", "-"],
        input=json.dumps(pod),
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return (json.loads(ended.stdout) if ended.stdout else {"metadata": {}, "spec": {}}), ended.stderr
