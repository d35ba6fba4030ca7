"""The whole loop as processes beside a real API server: two agents on replayed machines, the manager, the extender."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import yaml

from crds.names import CONFIG_MAP_KEY, CONFIG_MAP_NAME, MID_CPU, MID_MEMORY
from crds.node_metric import GROUP, VERSION
from tools.devcluster import Cluster
from tools.devcluster.component import free_port
from tools.devcluster.process import Process, wait_until
from tools.soak.progress import ROOT

NAMESPACE, PODS = "headroom-system", "/api/v1/namespaces/default/pods"
NODES = ("first-0", "second-1")
METRICS = f"/apis/{GROUP}/{VERSION}/nodemetrics"
REPORT_SECONDS = 10
CONFIG = {
    "enable": True,
    "metricReportIntervalSeconds": REPORT_SECONDS,
    "metricAggregateDurationSeconds": 60,
    "midIncreaseHoldSeconds": 0,
    "updateTimeThresholdSeconds": 5,
    "nodePredictPolicy": {"coldStartPeriodSeconds": 0, "checkIntervalSeconds": 5},
}
"""Short intervals, so that the consequences of a restart follow within seconds."""
SCHEDULER = "headroom-scheduler"
START_SECONDS = 180.0
ASK_SECONDS = 60.0  # how long an answer may take before it counts as none

Json = dict[str, Any]


@dataclass(slots=True)
class Loop:
    """The running programs."""

    cluster: Cluster  # the cluster
    extender_port: int = field(default_factory=free_port)  # where the extender answers
    processes: dict[str, Process] = field(default_factory=dict)  # the services by name

    @classmethod
    @contextmanager
    def open(cls) -> Iterator["Loop"]:
        """Start everything; it ends with the block.

        Raises:
            DevClusterError: something did not start, or ended early; with the end of its log.
        """
        with Cluster(say=lambda _: None) as cluster:
            for kind in ("node_metric", "elastic_quota"):
                cluster.define(ROOT / "crds" / f"{kind}.yaml")
            cluster.create_namespace(NAMESPACE)
            metadata = {"name": CONFIG_MAP_NAME, "namespace": NAMESPACE}
            config = {"metadata": metadata, "data": {CONFIG_MAP_KEY: json.dumps(CONFIG)}}
            cluster.api.create_all([(f"/api/v1/namespaces/{NAMESPACE}/configmaps", config)])
            cluster.kwok.create(NODES)
            loop = cls(cluster)
            loop.start(cluster.start_replay())
            yield loop

    def start(self, hosts: Path) -> None:
        """Start the services; returns when each node has Mid resources and the extender knows the cluster."""
        login = f"--kubeconfig={self.cluster.kubeconfig}"
        for node in NODES:
            flags = [f"--node-name={node}", f"--host-root={hosts / node}", f"--data-dir={self.data(node)}"]
            quick = ["--training-interval=5s", "--report-after=1s", "--report-longest-backoff=2s"]
            self._launch(f"agent-{node}", "agent", login, *flags, *quick, "--listen=127.0.0.1:0", "--stop-within=30s")
        self._launch("manager", "manager", login, f"--namespace={NAMESPACE}", "--listen=127.0.0.1:0", "--leader-elect")
        self._launch("extender", "scheduler_plugins", login, f"--listen=127.0.0.1:{self.extender_port}")
        result = yaml.safe_load((ROOT / "scheduler_plugins/kube-scheduler-configuration.yaml").read_text("utf-8"))
        result["extenders"][0] |= {"urlPrefix": f"http://127.0.0.1:{self.extender_port}", "httpTimeout": "10s"}
        self.cluster.control_plane.add_scheduler(SCHEDULER, result)
        running = list(self.processes.values())
        for node in NODES:
            self.add_pod(f"always-{node}", node)
        wait_until(self.healthy, "the extender knowing the cluster", START_SECONDS, running, 0.5)
        wait_until(lambda: all(map(self.mid, NODES)), "publishing Mid resources", START_SECONDS, running, 0.5)

    def data(self, node: str) -> Path:
        """The folder of an agent."""
        return self.cluster.dir / "agents" / node

    def _launch(self, name: str, module: str, *flags: str) -> None:
        self.processes[name] = self.cluster.supervisor.start(name, [sys.executable, "-m", module, *flags], cwd=ROOT)

    def add_pod(self, name: str, node: str = "") -> None:
        """Make a Prod pod, on a node or for the scheduler to place."""
        resources = {"requests": {"cpu": "250m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
        placed = {"nodeName": node} if node else {"schedulerName": SCHEDULER}
        container = {"name": "main", "image": "none", "resources": resources}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **placed}
        labels = {"koordinator.sh/priority-class": "koord-prod"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
        self.cluster.api.create_all([(PODS, body)])

    def remove_pod(self, name: str) -> None:
        """Delete a pod."""
        self.cluster.api.request("DELETE", f"{PODS}/{name}")

    def pods(self) -> dict[str, set[str]]:
        """Names of the pods on each node, and under "" of those that have none."""
        result: dict[str, set[str]] = {node: set() for node in (*NODES, "")}
        for pod in self.cluster.api.get(PODS)["items"]:
            result[pod["spec"].get("nodeName", "")].add(pod["metadata"]["name"])
        return result

    def reported(self, node: str) -> tuple[float, set[str]]:
        """When a node's agent last reported, and the pods that it then knew. [seconds since 1970]"""
        status = self.cluster.api.get(f"{METRICS}/{node}").get("status") or {}
        moment = status.get("updateTime")
        names = {pod["name"] for pod in status.get("podsMetric") or () if pod["namespace"] == "default"}
        return (datetime.fromisoformat(moment).timestamp() if moment else 0.0), names

    def mid(self, node: str) -> Json:
        """The Mid resources of a node, if capacity and allocatable agree."""
        status = self.cluster.api.get(f"/api/v1/nodes/{node}")["status"]
        mids = [{key: status[part].get(key) for key in (MID_CPU, MID_MEMORY)} for part in ("capacity", "allocatable")]
        return mids[0] if mids[0] == mids[1] and all(mids[0].values()) else {}

    def explained(self, node: str) -> bool:
        """Return whether `kubectl headroom explain` finds nothing to change on the node."""
        command = [sys.executable, "-m", "kubectl_headroom", "explain", "node", node, "-n", NAMESPACE, "-o", "json"]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=self.cluster.environment,
                check=True,
                capture_output=True,
                text=True,
                timeout=ASK_SECONDS,
            )
        except subprocess.SubprocessError:
            return False
        said = json.loads(done.stdout)
        return bool(said["desired"]) and all(step["action"] == "nothing" for step in said["next"])

    def known(self, node: str) -> set[str]:
        """Names of the pods that the extender knows on a node."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.extender_port}/debug/nodes/{node}", timeout=10) as answer:
            page = json.load(answer)
        return {key.partition("/")[2] for key in page.get("pods") or {} if key.startswith("default/")}

    def healthy(self) -> bool:
        """Return whether the extender says that it is."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.extender_port}/healthz", timeout=10) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP

    def memory_mib(self, name: str) -> float:
        """Return the resident memory of a service. [MiB]"""
        return psutil.Process(self.processes[name].pid).memory_info().rss / (1 << 20)

    def log_text(self, name: str) -> str:
        """A service's log."""
        return self.processes[name].log.read_text(encoding="utf-8", errors="replace")
