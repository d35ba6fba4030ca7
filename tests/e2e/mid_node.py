"""A real node with Mid pods, the manager beside it, and reports as an agent would write them.

The reports are written by the test: a real agent needs minutes until it predicts what a test wants to see.
"""

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.e2e.agent_node import wait
from tests.manager.stage import Manager
from tools.devcluster import Cluster
from tools.devcluster.containerd import PAUSE_IMAGE

NAMESPACE = "shop"
PRIORITIES = {"mid-low": 7000, "mid-high": 7500, "prod": 9000}
MID_CPU, MID_MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"
REQUESTS = {MID_CPU: "300", MID_MEMORY: "64Mi"}  # what each Mid pod requests [milli-cores]

Json = dict[str, Any]


def pod(name: str, requests: Json, priority: str, **labels: str) -> Json:
    """A pod that does nothing, for the stock scheduler. What it uses is said by the written reports."""
    container = {
        "name": "work",
        "image": PAUSE_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/pause", "with an error"],  # Kubernetes calls a pod that ends without one Succeeded
        "resources": {"requests": requests, "limits": requests},
    }
    spec = {
        "priorityClassName": priority,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@dataclass
class MidNode:
    cluster: Cluster
    manager: Manager  # the manager, a process beside it with the rights that the chart gives it

    @property
    def name(self) -> str:
        return self.cluster.spec.node_name

    def get(self, *words: str) -> Json:
        found: Json = json.loads(self.cluster.kubectl("get", *words, "-o", "json"))
        return found

    def report(self, reclaimable: str, usage: str = "300m") -> None:
        """A full report: what can be reclaimed of Prod, and what the whole node uses. Mid pods use nothing."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        used = {
            "node": {"cpu": usage, "memory": "1Gi"},
            "sys": {"cpu": "100m", "memory": "512Mi"},
            "mid": {"cpu": "0", "memory": "0"},
        }
        status = {
            "updateTime": now,
            "nodeMetric": {"nodeUsage": {"resources": used["node"]}, "systemUsage": {"resources": used["sys"]}},
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": reclaimable, "memory": "1Gi"}}},
            "prediction": {"time": now, "classes": [{"name": name, "usage": used[name]} for name in used]},
        }
        patch = json.dumps({"status": status})
        self.cluster.kubectl("patch", "nodemetric", self.name, "--subresource=status", "--type=merge", "-p", patch)

    def published(self) -> int | None:
        """Mid CPU in allocatable. [milli-cores]"""
        amount = self.get("node", self.name)["status"]["allocatable"].get(MID_CPU)
        return None if amount is None else int(amount.replace("k", "000"))

    def expect_published(self, milli_cores: int) -> None:
        wait(lambda: self.published() == milli_cores, seconds=120, what=f"{milli_cores}m {MID_CPU}")

    def create(self, *pods: Json) -> None:
        """Create pods, a second apart: Kubernetes tells their ages in seconds."""
        for index, each in enumerate(pods):
            if index:
                time.sleep(1.1)
            self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(each))

    def phase(self, name: str) -> str:
        """A pod's phase, "Terminating", or "" when it is gone."""
        found = self.get("pods", "-n", NAMESPACE, "--field-selector", f"metadata.name={name}")["items"]
        if not found:
            return ""
        return "Terminating" if "deletionTimestamp" in found[0]["metadata"] else str(found[0]["status"]["phase"])

    def expect_phase(self, phase: str, *names: str) -> None:
        for name in names:
            wait(lambda name=name: self.phase(name) == phase, seconds=120, what=f"pod {name} {phase or 'gone'}")  # type: ignore[misc]

    def restart_kubelet(self) -> None:
        """Restart the kubelet alone; returns when it has taken the pods that it found, for it takes a new one then."""
        if self.cluster.node is None:
            raise RuntimeError("this cluster has no real node")
        self.cluster.node.stop_kubelet()
        self.cluster.node.start_kubelet()
        name = f"after-restart-{time.monotonic_ns()}"
        self.create(pod(name, {"cpu": "10m"}, "prod"))
        self.expect_phase("Running", name)

    def events(self, reason: str, about: str) -> list[str]:
        events = self.get("events", "-A", "--field-selector", f"reason={reason},involvedObject.name={about}")
        return [event["message"] for event in events["items"]]

    def metric(self, line: str) -> float:
        """A metric of the manager's; 0 where it is not there."""
        found = (text.rpartition(" ") for text in self.manager.page("/metrics")[1].splitlines())
        return next((float(value) for name, _, value in found if name == line), 0.0)
