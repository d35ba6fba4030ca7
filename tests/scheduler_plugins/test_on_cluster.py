"""The extender beside the real kube-scheduler, on kwok nodes whose NodeMetrics are written by hand."""

import json
import re
import socket
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import Cluster, NodeTemplate
from devcluster.process import Process

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "scheduler_plugins" / "kube-scheduler-configuration.yaml"
NAMESPACE = "load-aware"
POOL = {"pool": "load-aware"}
TAINT = {"key": "pool", "value": "load-aware", "effect": "NoSchedule"}
"""Keeps the pods of other tests away."""
PATIENCE_SECONDS = 60.0
HOT = "node(s) cpu usage exceed threshold"
SHORTLIST, WEIGHTED = "headroom-shortlist", "headroom-weighted"

Json = dict[str, Any]


def _until(condition: Callable[[], Any], what: str) -> Any:  # noqa: ANN401 - whatever the condition gives
    """Wait until the condition holds, and return what it gave."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {PATIENCE_SECONDS:.0f} s")


def _configuration(mode: str, name: str, url: str) -> Json:
    """The reference configuration of kube-scheduler for a mode; its comments hold what `weighted` adds."""
    text = REFERENCE.read_text()
    if mode == "weighted":
        keys = r"(?:plugins|prioritizeVerb|weight|  multiPoint|    enabled):.*|      - \{name.*"
        text = re.sub(rf"^( *)# ({keys})$", r"\1\2", text, flags=re.MULTILINE)
    configuration: Json = yaml.safe_load(text)
    (profile,), (extender,) = configuration["profiles"], configuration["extenders"]
    profile["schedulerName"], extender["urlPrefix"] = name, url
    extender["httpTimeout"] = "5s"  # a busy machine must not look like an extender that is away
    return configuration


@dataclass
class Extender:
    """A running extender."""

    cluster: Cluster
    mode: str
    port: int
    process: Process

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @classmethod
    def start(cls, cluster: Cluster, mode: str, port: int = 0) -> "Extender":
        """Start it and wait until it knows the cluster."""
        if not port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
        command = [sys.executable, "-m", "scheduler_plugins", f"--kubeconfig={cluster.kubeconfig}"]
        flags = [f"--listen=127.0.0.1:{port}", f"--mode={mode}"]
        process = cluster.supervisor.start(f"extender-{mode}", [*command, *flags], cwd=ROOT)
        extender = cls(cluster, mode, port, process)
        _until(extender.healthy, f"extender {mode} being healthy")
        return extender

    def restart(self) -> None:
        """Start it again on its port."""
        self.process = self.start(self.cluster, self.mode, self.port).process

    def healthy(self) -> bool:
        """Whether /healthz says so."""
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5) as response:  # noqa: S310 - http
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def passing(self, *names: str) -> list[str]:
        """Which of these nodes pass, asked one by one, for a pod that uses nothing and so is not charged."""
        pod = _pod("probe", "nobody")
        pod["spec"]["priority"] = 3500
        bodies = {name: json.dumps({"Pod": pod, "Nodes": None, "NodeNames": [name]}).encode() for name in names}
        return [name for name, body in bodies.items() if self._filter(body)["NodeNames"]]

    def _filter(self, body: bytes) -> Json:
        with urllib.request.urlopen(f"{self.url}/filter", data=body, timeout=10) as response:  # noqa: S310 - http
            reply: Json = json.load(response)
            return reply

    def refuses_just(self, hot: set[str], nodes: list[str]) -> bool:
        """Whether it refuses these of the nodes and no other."""
        return set(self.passing(*nodes)) == set(nodes) - hot


@dataclass
class Site:
    """A pool of kwok nodes, and two kube-schedulers with an extender each."""

    cluster: Cluster
    nodes: list[str]
    extenders: dict[str, Extender]

    def report(self, used: dict[str, float]) -> None:
        """Write NodeMetrics that say how many cores of its 32 each node uses."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name, cores in used.items():
            usage = {"resources": {"cpu": f"{cores * 1000:.0f}m", "memory": "8Gi"}}
            status = {"updateTime": now, "nodeMetric": {"nodeUsage": usage}, "podsMetric": []}
            self.cluster.api.merge(f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{name}/status", {"status": status})

    def settle(self, used: dict[str, float], otherwise: float = 2.0) -> None:
        """Report for all nodes, and wait until both extenders see the hot ones as hot and the others not."""
        used = dict.fromkeys(self.nodes, otherwise) | used
        self.report(used)
        hot = {name for name, cores in used.items() if cores > 0.8 * 32}
        for extender in self.extenders.values():
            _until(partial(extender.refuses_just, hot, self.nodes), f"{extender.mode} refusing just {sorted(hot)}")

    def create(self, *pods: Json) -> None:
        """Create pods."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        self.cluster.api.create_all((path, pod) for pod in pods)

    def pod(self, name: str) -> Json:
        """A pod as it is now."""
        return self.cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")

    def placed(self, *names: str) -> list[str]:
        """Where pods were bound, once all of them are."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"

        def bound() -> list[str]:
            nodes = {
                item["metadata"]["name"]: item["spec"].get("nodeName") for item in self.cluster.api.get(path)["items"]
            }
            found = [nodes.get(name) for name in names]
            return [node for node in found if node] if all(found) else []

        result: list[str] = _until(bound, f"{len(names)} pods being bound")
        return result

    def failures(self, name: str) -> str:
        """What the FailedScheduling events of a pod say."""
        path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
        return "\n".join(
            event["note"]
            for event in self.cluster.api.get(path)["items"]
            if event["reason"] == "FailedScheduling" and event["regarding"]["name"] == name
        )


def _pod(name: str, scheduler: str, cpu: str = "1", **selector: str) -> Json:
    container = {
        "name": "main",
        "image": "localhost/pause:dev",
        "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}},
    }
    spec = {
        "schedulerName": scheduler,
        "nodeSelector": {**POOL, **selector},
        "tolerations": [TAINT],
        "containers": [container],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": ""},
        "spec": spec,
    }


@pytest.fixture(scope="module")
def site(cluster: Cluster) -> Iterator[Site]:
    """Twelve nodes of 32 cores, both modes."""
    cluster.define(ROOT / "crds" / "node_metric.yaml")
    metrics = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
    cluster.create_namespace(NAMESPACE)
    nodes = cluster.kwok.add(
        12, NodeTemplate(cpu="32", memory="128Gi", labels=POOL, taints=[TAINT]), prefix="load-aware"
    )
    cluster.api.create_all(
        (metrics, {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": name}})
        for name in nodes
    )
    extenders, schedulers = {}, []
    for mode, name in (("shortlist", SHORTLIST), ("weighted", WEIGHTED)):
        extenders[mode] = Extender.start(cluster, mode)
        configuration = _configuration(mode, name, extenders[mode].url)
        if mode == "weighted":  # only our scores decide, so that a test sees them
            configuration["profiles"][0]["plugins"]["score"] = {"disabled": [{"name": "*"}]}
        schedulers.append(cluster.control_plane.add_scheduler(name, configuration))
    yield Site(cluster, nodes, extenders)
    for component in schedulers:
        component.stop()
    for extender in extenders.values():
        extender.process.stop()
    cluster.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
    for name in nodes:
        cluster.api.request("DELETE", f"{metrics}/{name}")


@pytest.mark.parametrize("scheduler", [SHORTLIST, WEIGHTED])
def test_hot_node_is_refused(site: Site, scheduler: str) -> None:
    """A pod that fits only a hot node stays pending with the reason in its event, and goes there once it is cool."""
    hot, name = site.nodes[0], f"hot-{scheduler}"
    site.settle({hot: 30})
    site.create(_pod(name, scheduler, **{"kubernetes.io/hostname": hot}))
    _until(lambda: HOT in site.failures(name), f"the reason in the event of {name}")
    assert "nodeName" not in site.pod(name)["spec"]
    site.settle({})
    # kube-scheduler does not watch NodeMetrics: any change of the pod makes it look again.
    site.cluster.api.merge(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", {"metadata": {"labels": {"look": "again"}}})
    assert site.placed(name) == [hot]


def test_cool_nodes_are_preferred(site: Site) -> None:
    """Of twelve nodes that all pass, pods go to the eight coolest, the shortlist."""
    warm = dict.fromkeys(site.nodes[:4], 18.0)
    site.settle(warm)
    names = [f"cool-{index}" for index in range(12)]
    for name in names:  # one after another, so that no pod is in flight when the next is placed
        site.create(_pod(name, SHORTLIST, cpu="100m"))
        site.placed(name)
    assert not set(site.placed(*names)) & set(warm)


def test_scores_reach_scheduler(site: Site) -> None:
    """In weighted mode, where nothing else scores, a pod goes to the coolest node."""
    coolest = site.nodes[7]
    site.settle({coolest: 1}, otherwise=12)
    site.create(_pod("coolest", WEIGHTED, cpu="100m"))
    assert site.placed("coolest") == [coolest]


def test_burst_does_not_pile_up(site: Site) -> None:
    """Sixty pods at once do not all go to the coldest node, though reports stay the same and nothing else scores."""
    coldest = site.nodes[5]
    site.settle({coldest: 1}, otherwise=6)
    names = [f"burst-{index}" for index in range(60)]
    site.create(*(_pod(name, WEIGHTED) for name in names))
    where = Counter(site.placed(*names))
    assert len(where) >= 8
    assert max(where.values()) <= 20


def test_killed_extender_is_ignored(site: Site) -> None:
    """While the extender is away pods are placed without it; when it is back it refuses again."""
    hot = site.nodes[1]
    site.settle({hot: 30})
    extender = site.extenders["shortlist"]
    extender.process.kill()
    _until(lambda: not extender.process.running, "the extender being gone")
    site.create(_pod("ignored", SHORTLIST, **{"kubernetes.io/hostname": hot}))
    assert site.placed("ignored") == [hot]
    extender.restart()
    site.settle({hot: 30})
    site.create(_pod("heeded", SHORTLIST, **{"kubernetes.io/hostname": hot}))
    _until(lambda: HOT in site.failures("heeded"), "the reason in the event")


def test_outage_is_survived(site: Site) -> None:
    """While the API server is away the extender answers from what it knows; afterwards it follows the cluster again."""
    hot, other = site.nodes[2], site.nodes[3]
    site.settle({hot: 30})
    extender = site.extenders["shortlist"]
    site.cluster.apiserver.stop()
    try:
        assert extender.passing(hot, other) == [other]
    finally:
        site.cluster.apiserver.start()
    site.settle({other: 30})
    assert extender.passing(hot, other) == [hot]
