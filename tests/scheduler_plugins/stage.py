"""A stage for tests on the dev cluster: kwok nodes with NodeMetrics written by hand, extenders, kube-schedulers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from tests.scheduler_plugins.extenders import PLAIN, ROOT, Extender, Json, configuration, until
from tools.devcluster import Cluster, NodeTemplate
from tools.devcluster.component import Component

CORES: Final = 32  # allocatable of a node. [cores]
MEMORY: Final = 128  # allocatable of a node. [GiB]
METRICS: Final = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"


@dataclass(frozen=True)
class Usage:
    cpu: float = 2.0  # [cores]
    memory: float = 8.0  # [GiB]

    def resources(self) -> Json:
        return {"resources": {"cpu": f"{self.cpu * 1000:.0f}m", "memory": f"{self.memory * 1024:.0f}Mi"}}


def among(*nodes: str) -> Json:
    names = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    terms = [{"matchExpressions": [names]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@dataclass
class Stage:
    """A pool of kwok nodes with a namespace of its own, and the kube-schedulers and extenders that work on it."""

    cluster: Cluster
    name: str
    nodes: list[str] = field(default_factory=list)
    extenders: list[Extender] = field(default_factory=list)
    schedulers: dict[str, Component] = field(default_factory=dict)
    sentinels: list[str] = field(default_factory=list)
    """Two nodes beside the pool. Their NodeMetric and pod change last: an extender that has both is up to date."""
    _reported: int = 0

    @classmethod
    @contextmanager
    def open(cls, cluster: Cluster, name: str, count: int) -> Iterator["Stage"]:
        """Create nodes of 32 cores and 128 GiB, which only pods of this stage tolerate, and delete them at the end."""
        for kind in ("node_metric", "elastic_quota"):
            cluster.define(ROOT / "crds" / f"{kind}.yaml")
        cluster.create_namespace(name)
        stage = cls(cluster, name)
        try:
            stage.nodes = stage.add_nodes(count)
            stage.sentinels = stage.add_nodes(2, pool=f"{name}-sentinel")
            yield stage
        finally:
            for component in stage.schedulers.values():
                component.stop()
            for extender in stage.extenders:
                extender.process.stop()
            # The end of a pod requeues the pods of every kube-scheduler, and the next test may count requeued pods.
            stage.clear()
            cluster.api.request("DELETE", f"/api/v1/namespaces/{name}")
            for node in (*stage.nodes, *stage.sentinels):
                cluster.api.request("DELETE", f"{METRICS}/{node}")

    def add_nodes(
        self,
        count: int,
        cpu: str = f"{CORES}",
        memory: str = f"{MEMORY}Gi",
        *,
        pool: str = "",
        prefix: str = "",
    ) -> list[str]:
        """Create nodes with empty NodeMetrics, and wait until every running extender has them."""
        taint = {"key": "pool", "value": self.name, "effect": "NoSchedule"}  # repels the pods of other tests
        template = NodeTemplate(cpu=cpu, memory=memory, labels={"pool": pool or self.name}, taints=[taint])
        names = self.cluster.kwok.add(count, template, prefix=prefix or self.name)
        metric = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
        self.cluster.api.create_all((METRICS, {**metric, "metadata": {"name": node}}) for node in names)
        # A node that the extender does not know yet is last in a shortlist.
        for extender in self.running():
            for node in names:
                until(partial(self._has, extender, node), f"{extender.name} knowing node {node}")
        return names

    @staticmethod
    def _has(extender: Extender, node: str) -> bool:
        return bool(extender.known(node).get("known"))

    def running(self) -> list[Extender]:
        return [extender for extender in self.extenders if extender.process.running]

    # Schedulers

    def add_extender(self, name: str, content: Mapping[str, Any], **settings: Any) -> Extender:  # noqa: ANN401
        """Start an extender with a profile, without waiting; see `Extender.start` for the settings."""
        extender = Extender.start(self.cluster, name, content, **settings)
        self.extenders.append(extender)
        return extender

    def add_scheduler(self, name: str, found: Mapping[str, Any], **settings: Any) -> Component:  # noqa: ANN401
        """Start a kube-scheduler with a configuration; see `ControlPlane.add_scheduler` for the settings."""
        component = self.cluster.control_plane.add_scheduler(name, found, **settings)
        self.schedulers[name] = component
        return component

    def add(self, name: str, content: Mapping[str, Any], plugins: Mapping[str, Any] | None = None) -> Extender:
        """Start an extender and its kube-scheduler with the shipped files for the profile's mode."""
        extender = self.add_extender(f"extender-{name}", content)
        result = configuration(content["mode"], name, extender.url)
        if plugins is not None:
            result["profiles"][0]["plugins"] = dict(plugins)
        self.add_scheduler(name, result)
        return extender

    def wait(self) -> None:
        for extender in self.extenders:
            extender.wait()

    # NodeMetrics

    def report(
        self,
        used: Mapping[str, Usage],
        *,
        since: float = 0,
        pods: Mapping[str, Mapping[str, Usage]] | None = None,
    ) -> None:
        """Write NodeMetrics by node, measured so long ago [s], and the usage of this namespace's pods by node."""
        when = (datetime.now(UTC) - timedelta(seconds=since)).strftime("%Y-%m-%dT%H:%M:%SZ")
        for node, usage in used.items():
            of_pods = [
                {"namespace": self.name, "name": name, "podUsage": part.resources()}
                for name, part in ((pods or {}).get(node) or {}).items()
            ]
            content = {"updateTime": when, "nodeMetric": {"nodeUsage": usage.resources()}, "podsMetric": of_pods}
            self.cluster.api.merge(f"{METRICS}/{node}/status", {"status": content})

    def settle(
        self,
        used: Mapping[str, float | Usage] | None = None,
        otherwise: float = 2.0,
        **more: Any,  # noqa: ANN401 - arguments of `report`
    ) -> None:
        """Report for all nodes, in cores, and wait until every extender has observed the reports and all pods."""
        named = {name: usage if isinstance(usage, Usage) else Usage(usage) for name, usage in (used or {}).items()}
        self.report({**dict.fromkeys(self.nodes, Usage(otherwise)), **named}, **more)
        self.seen()

    def seen(self) -> None:
        """Wait until every running extender has observed all NodeMetrics and pods that are written."""
        # Each kind of object arrives in the order of the writes: after the last change, all others are observed.
        by_metric, by_pod = self.sentinels
        self._reported += 1
        self.report({by_metric: Usage(self._reported)})
        name = f"sentinel-{self._reported}"
        self.create(self.pod(name, node=by_pod))
        for extender in self.running():
            until(partial(self._knows, extender, name), f"{extender.name} seeing the last NodeMetric and pod")

    def _knows(self, extender: Extender, name: str) -> bool:
        by_metric, by_pod = self.sentinels
        texts = extender.known(by_metric).get("load", {}).get("cpu") == self._reported * 1000
        return texts and self._has_pod(extender, by_pod, name)

    # Pods

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    def pod(
        self,
        name: str,
        scheduler: str = PLAIN,
        cpu: str = "1",
        memory: str = "128Mi",
        *,
        node: str = "",
        selector: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Mapping[str, str] | None = None,
        requests: Mapping[str, str] | None = None,
        **spec: Any,  # noqa: ANN401 - any field of a PodSpec
    ) -> Json:
        resources = {"requests": dict(requests or {"cpu": cpu, "memory": memory}), "limits": dict(limits or {})}
        made: Json = {
            "schedulerName": scheduler,
            "nodeSelector": {"pool": self.name, **(selector or {})},
            "tolerations": [{"key": "pool", "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [{"name": "main", "image": "localhost/pause:dev", "resources": resources}],
            "terminationGracePeriodSeconds": 0,
            **spec,
        }
        if node:
            made["nodeName"] = node
            del made["nodeSelector"]
        metadata = {"name": name, "namespace": self.name, "labels": dict(labels or {})}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made}

    def create(self, *pods: Json) -> None:
        self.cluster.api.create_all((self.path, pod) for pod in pods)

    def read(self, name: str) -> Json:
        return self.cluster.api.get(f"{self.path}/{name}")

    def clear(self) -> None:
        self.cluster.api.request("DELETE", f"{self.path}?gracePeriodSeconds=0")
        until(lambda: not self.where(), "pods being gone")

    def where(self) -> dict[str, str]:
        """Return the node of each pod by name, without the sentinels' pods; empty if it has none."""
        items = self.cluster.api.get(self.path)["items"]
        nodes = {item["metadata"]["name"]: item["spec"].get("nodeName", "") for item in items}
        return {name: node for name, node in nodes.items() if node not in self.sentinels}

    def placed(self, *names: str) -> list[str]:
        def bound() -> list[str]:
            nodes = self.where()
            result = [nodes.get(name, "") for name in names]
            return result if all(result) else []

        result: list[str] = until(bound, f"{len(names)} pods being bound")
        return result

    def place(self, *pods: Json) -> list[str]:
        """Create pods one after another, so that none is in flight when the next is placed; return their nodes."""
        result = []
        for pod in pods:
            name = pod["metadata"]["name"]
            self.create(pod)
            (node,) = self.placed(name)
            # Until an extender has observed a pod's node, the pod is in flight, and the next list may be shorter.
            for extender in self.running():
                until(partial(self._has_pod, extender, node, name), f"{extender.name} seeing {name} on {node}")
            result.append(node)
        return result

    def _has_pod(self, extender: Extender, node: str, name: str) -> bool:
        return f"{self.name}/{name}" in extender.known(node).get("pods", ())

    def ballast(self, node: str, cpu: float, memory: float = 0) -> None:
        """Bind a pod with large requests to a node, so that kube-scheduler by itself prefers another node."""
        self.create(self.pod(f"ballast-{node}", cpu=f"{cpu}", memory=f"{memory}Gi", node=node))

    def publish_batch(self, cpu: float = CORES / 2, memory: float = MEMORY / 2) -> None:
        """Give all nodes Batch resources, in cores and GiB, as the manager does."""
        amounts = {"kubernetes.io/batch-cpu": f"{cpu * 1000:.0f}", "kubernetes.io/batch-memory": f"{memory:.0f}Gi"}
        for node in self.nodes:
            status = {"capacity": amounts, "allocatable": amounts}
            self.cluster.api.merge(f"/api/v1/nodes/{node}/status", {"status": status})

    def failures(self, name: str) -> str:
        items = self.cluster.api.get(f"/apis/events.k8s.io/v1/namespaces/{self.name}/events")["items"]
        return "\n".join(
            event["note"]
            for event in items
            if event["reason"] == "FailedScheduling" and event["regarding"]["name"] == name
        )

    def refused(self, name: str, reason: str) -> None:
        """Wait until the events of a pod give a reason, and check that it is pending."""
        until(lambda: reason in self.failures(name), lambda: f"{reason} in the event of {name}: {self.failures(name)}")
        assert not self.where()[name]
