"""The manager as a process with exactly the rights of the chart, a cluster for it, and its audit log.

Clusters are shared: each module works in a namespace of its own and publishes on nodes of its own only.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.agent.process import get
from tests.audited import audited
from tests.support.waiting import eventually
from tools.devcluster import Cluster
from tools.devcluster.api import ApiError
from tools.devcluster.component import free_port
from tools.devcluster.images import CHART_VALUES

ROOT = Path(__file__).parents[2]
NAMESPACE = "manager-test"
CONFIG_MAP = "slo-controller-config"
DEGRADE_MINUTES = 10
"""Longer than a test takes on a busy machine: a report that is not repeated must not expire by itself."""
DEGRADE_SECONDS = 60 * DEGRADE_MINUTES
PUBLISHED = {"enable": True, "degradeTimeMinutes": DEGRADE_MINUTES, "midIncreaseHoldSeconds": 0}
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
NODES = "/api/v1/nodes"
CPU = "kubernetes.io/mid-cpu"
_USAGE = (("node", "6", "24Gi"), ("sys", "1", "2Gi"), ("mid", "0", "0"))
"""The classes' usage in the agents' reports: cores and memory."""


class Manager:
    def __init__(self, kubeconfig: Path, log: Path, namespace: str = NAMESPACE, *flags: str, name: str = "") -> None:
        self.kubeconfig, self.log, self.namespace = kubeconfig, log, namespace
        self.flags, self.name = flags, name
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        """Start it, and by default wait until it has read everything."""
        self.port = free_port()
        flags = [f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", f"--listen=127.0.0.1:{self.port}"]
        command = [sys.executable, "-m", "manager", *flags, "--leader-elect", *self.flags]
        environment = {**os.environ, **({"POD_NAME": self.name} if self.name else {})}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment)
        if wait:
            eventually(self._ready, lambda: f"the manager is ready; {self.log}:\n{self.log_text()}")

    def _ready(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            pytest.fail(f"the manager ended with {self.process.poll()}; {self.log}:\n{self.log_text()}")
        return self.page("/readyz")[0] == 200

    def page(self, path: str) -> tuple[int, str]:
        """Its status and text; 0 while there is no answer."""
        try:
            return get(f"http://127.0.0.1:{self.port}{path}")
        except OSError:
            return 0, ""

    def healthy(self) -> bool:
        return self.page("/healthz")[0] == 200

    def is_leader(self) -> bool:
        return "leadership: leads" in self.page("/healthz?verbose")[1]

    def log_text(self) -> str:
        return self.log.read_text()

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.send(number)
        return self.process.wait(timeout=120)


@dataclass(frozen=True)
class Request:
    """A request that the API server answered, from its audit log."""

    at: datetime  # when it came in
    verb: str  # get, list, watch, create, patch …
    group: str  # empty for the core
    resource: str  # with its subresource behind a slash
    namespace: str
    name: str
    code: int  # HTTP status of the answer
    agent: str  # who it was, in its own words
    user: str  # who it was, as the API server knows

    @property
    def writes(self) -> bool:
        return self.verb not in {"get", "list", "watch"}

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> "Request":
        about = event.get("objectRef") or {}
        parts = (about.get("resource", ""), about.get("subresource", ""))
        return cls(
            at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
            verb=event["verb"],
            group=about.get("apiGroup", ""),
            resource="/".join(part for part in parts if part),
            namespace=about.get("namespace", ""),
            name=about.get("name", ""),
            code=int((event.get("responseStatus") or {}).get("code", 0)),
            agent=event.get("userAgent", ""),
            user=event["user"].get("username", ""),
        )


class Stage:
    def __init__(self, cluster: Cluster, namespace: str = NAMESPACE) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.pool = {"pool": namespace}
        selector = {"matchLabels": self.pool}
        # Other tests share the cluster: only nodes of our pool publish anything.
        self.config: dict[str, Any] = {"nodeConfigs": [{"name": "ours", "nodeSelector": selector, **PUBLISHED}]}
        self.user = f"system:serviceaccount:{namespace}:headroom-manager"

    def get(self, *what: str) -> dict[str, Any]:
        text = self.cluster.kubectl("get", *what, "--ignore-not-found", "-o", "json")
        return dict(json.loads(text)) if text.strip() else {}

    def found(self, path: str) -> dict[str, Any]:
        try:
            return self.cluster.api.get(path)
        except ApiError as error:
            if error.status == 404:
                return {}
            raise

    def add_node(self, name: str, **labels: str) -> None:
        """A Node that publishes Mid, with its NodeMetric, and with more labels if need be."""
        amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        status = {"capacity": amounts, "allocatable": amounts}
        node = {"metadata": {"name": name, "labels": {**self.pool, **labels}}, "status": status}
        self.cluster.api.create_all([(NODES, node)])
        eventually(lambda: bool(self.found(f"{METRICS}/{name}")), f"{name} has a NodeMetric")

    def report(self, node: str, reclaimable_cpu: str, age_seconds: float = 0.0) -> None:
        """An agent's report.

        Raises:
            ApiError: the API server refuses.
            OSError: it is away.
        """
        moment = (datetime.now(UTC) - timedelta(seconds=age_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        usage = {name: {"cpu": cpu, "memory": memory} for name, cpu, memory in _USAGE}
        status = {
            "updateTime": moment,
            "nodeMetric": {
                "nodeUsage": {"resources": usage["node"]},
                "systemUsage": {"resources": usage["sys"]},
            },
            "prodReclaimableMetric": {"resource": {"resources": {"cpu": reclaimable_cpu, "memory": "10Gi"}}},
            "prediction": {"time": moment, "classes": [{"name": name, "usage": usage[name]} for name in usage]},
        }
        self.cluster.api.merge(f"{METRICS}/{node}/status", {"status": status})

    def published(self, node: str) -> dict[str, str]:
        """Mid resources of a Node, when capacity and allocatable agree."""
        status = self.cluster.api.get(f"{NODES}/{node}")["status"]
        result = [
            {name: amount for name, amount in status.get(part, {}).items() if "mid-" in name}
            for part in ("capacity", "allocatable")
        ]
        return result[0] if result[0] == result[1] else {"disagree": "x"}

    def expect_cpu(self, node: str, amount: str | None) -> None:
        eventually(lambda: self.published(node).get(CPU) == amount, f"{node} publishes {CPU} {amount}")

    def configure(self, config: dict[str, Any] | str) -> None:
        text = config if isinstance(config, str) else json.dumps(config)
        metadata = {"name": CONFIG_MAP, "namespace": self.namespace}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"colocation-config": text}}
        self.cluster.apply(body)

    def expect_event(self, reason: str, about: str, namespace: str | None = None) -> str:
        def notes() -> list[str]:
            events = self.get("events.events.k8s.io", "-n", namespace or self.namespace).get("items", [])
            wanted = [event for event in events if event["reason"] == reason and event["regarding"]["name"] == about]
            return [name["note"] for name in wanted]

        eventually(lambda: bool(notes()), f"event {reason} about {about}")
        return notes()[-1]

    def login(self, path: Path) -> Path:
        return login(self.cluster, "headroom-manager", self.namespace, path)

    def requests(self) -> list[Request]:
        """Requests of the manager's service account so far, in order."""
        events = audited(self.cluster, f'"username":"{self.user}"')
        return sorted((Request.from_event(event) for event in events), key=lambda request: request.at)

    def wipe(self, *names: str) -> None:
        for name in names:
            try:
                self.cluster.api.request("DELETE", f"{NODES}/{name}")
            except ApiError as error:
                if error.status != 404:
                    raise


def login(cluster: Cluster, account: str, namespace: str, path: Path) -> Path:
    """A kubeconfig of a service account, written to a path."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", account, "-n", namespace, "--duration=1h").strip()
    for user in config["users"]:
        user["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    return path


def refuses_privileges(cluster: Cluster, namespace: str) -> bool:
    """Return whether the API server applies a namespace's pod security level: it observes labels by a watch."""
    spec = {"hostNetwork": True, "containers": [{"name": "c", "image": "none"}]}
    pod = {"metadata": {"name": "probe"}, "spec": spec}
    try:
        cluster.api.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    except ApiError as error:
        return "violates PodSecurity" in str(error)
    return False


def rendered(cluster: Cluster, namespace: str, template: str, *settings: str) -> list[dict[str, Any]]:
    """The objects of one of the chart's templates, as `helm install` into a namespace would make them."""
    chart, shown = ROOT / "charts/headroom", f"templates/{template}"
    sets = [flag for setting in (CHART_VALUES, *settings) for flag in ("--set", setting)]
    text = cluster.helm("template", "headroom", chart, "-n", namespace, "--show-only", shown, *sets)
    objects: list[dict[str, Any]] = [entry for entry in yaml.safe_load_all(text) if entry]
    for item in objects:
        if not item["kind"].startswith(("Cluster", "Validating", "Mutating")):
            item["metadata"].setdefault("namespace", namespace)
    return objects


def called_at(configuration: dict[str, Any], port: int) -> dict[str, Any]:
    """Return a webhook configuration that calls a port on loopback in place of a Service, and waits for a busy one."""
    for hook in configuration["webhooks"]:
        path = hook["clientConfig"].pop("service")["path"]
        hook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
        hook["timeoutSeconds"] = 30  # on a busy machine nothing is to pass because it took too long
    return configuration


def rights(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """The manager's service account and roles, as `helm install` into a namespace would make them."""
    return rendered(cluster, namespace, "manager-rbac.yaml")


@contextmanager
def prepared(cluster: Cluster, namespace: str) -> Iterator[Stage]:
    """The CRD, a namespace, and the rights that the chart gives the manager there; nodes of the pool go at the end."""
    cluster.define(ROOT / "crds/node_metric.yaml")
    cluster.create_namespace(namespace)
    objects = yaml.safe_dump_all(rights(cluster, namespace))
    cluster.kubectl("apply", "-f", "-", stdin=objects)
    yield Stage(cluster, namespace)
    cluster.api.request("DELETE", f"{NODES}?labelSelector=pool={namespace}")
    cluster.kubectl("delete", "-f", "-", stdin=objects)
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")
