"""A real node with Headroom and pods of known load, and the requests of its tests."""

import itertools
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from tests.e2e import loads
from tools.devcluster import Cluster, CommandError
from tools.devcluster.images import CHART_VALUES

CHART = Path(__file__).parents[2] / "charts/headroom"
NAMESPACE = "headroom-system"
CONFIG_MAP = "slo-controller-config"
CONFIG: dict[str, Any] = {
    "enable": True,
    "metricAggregateDurationSeconds": 60,
    "metricReportIntervalSeconds": 30,
    "nodePredictPolicy": {"checkIntervalSeconds": 5},
}
"""Short intervals; the policy itself is as it ships: a pod is cold for a day."""

_COUNTER = re.compile(
    r'pod_cpu_usage_seconds_total\{namespace="(?P<namespace>.*?)",pod="(?P<pod>.*?)"\} (?P<value>\S+) (?P<at>\d+)'
)
_NANO_SECOND = 1e-9

Json = dict[str, Any]
T = TypeVar("T")


def wait(probe: Callable[[], T | None], *, seconds: float, what: str) -> T:
    deadline = time.monotonic() + seconds
    while not (result := probe()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.5)
    return result


def unix(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def average(samples: list[tuple[float, float]], start: float, end: float) -> float:
    """The mean of a rate between two moments; each sample speaks for the time since the one before it."""
    total = covered = 0.0
    for (begin, _), (until, value) in itertools.pairwise(samples):
        share = min(until, end) - max(begin, start)
        if share > 0:
            total, covered = total + share * value, covered + share
    assert covered >= 0.9 * (end - start), f"only {covered:.0f} s of {end - start:.0f} s were measured"
    return total / covered


def spent(account: list[tuple[float, float]], start: float, end: float) -> float:
    """CPU time that a load used between two moments, by its own account, interpolated linearly. [core-seconds]"""
    times, used = zip(*account, strict=True)
    return float(np.interp(end, times, used) - np.interp(start, times, used))


def usages(status: Json) -> dict[str, Json]:
    pods = status.get("podsMetric") or []
    return {f"{pod['namespace']}/{pod['name']}": pod["podUsage"]["resources"] for pod in pods}


@dataclass(frozen=True)
class AgentNode:
    cluster: Cluster

    @property
    def name(self) -> str:
        return self.cluster.spec.node_name

    def install(self) -> None:
        """Install the chart: agent and manager; nothing is scheduled here, so no scheduler."""
        settings = (
            CHART_VALUES,
            "manager.replicas=1",
            "scheduler.enabled=false",
            "agent.extraArgs={--training-interval=5s,--report-after=3s}",
        )
        self._helm("install", "--create-namespace", *settings)
        self.configure(CONFIG)

    def _helm(self, verb: str, *words: str) -> None:
        flags = [flag for word in words for flag in ((word,) if word.startswith("--") else ("--set", word))]
        self.cluster.helm(verb, "headroom", str(CHART), "-n", NAMESPACE, "--wait", "--timeout", "4m", *flags)

    def configure(self, config: Json) -> None:
        patch = json.dumps({"data": {"colocation-config": json.dumps(config)}})
        self.cluster.kubectl("-n", NAMESPACE, "patch", "configmap", CONFIG_MAP, "--type=merge", "-p", patch)

    def start_loads(self) -> None:
        """Start every pod of `loads`; returns when they hold their memory and burn at their rate."""
        if self.cluster.node is None:
            raise RuntimeError("this cluster has no real node")
        self.cluster.create_namespace(loads.NAMESPACE)
        (self.cluster.node.static_pods / "static.json").write_text(loads.static_manifest())
        self.cluster.apply(loads.manifests())
        for load in loads.ALL:
            wait(lambda load=load: self.at_work(load), seconds=120, what=f"{load.name} at work")  # type: ignore[misc]

    def get(self, *words: str) -> Json:
        result: Json = json.loads(self.cluster.kubectl("get", *words, "-o", "json"))
        return result

    def at_work(self, load: loads.Load) -> bool:
        """Return whether a load has reported its CPU time twice: then it holds its memory."""
        try:
            return len(self.account(load)) > 1
        except CommandError:  # it has not begun
            return False

    def account(self, load: loads.Load) -> list[tuple[float, float]]:
        """A load's own report: time [seconds since 1970], and the CPU used until then [core-seconds]."""
        namespace, _, name = self.key(load).partition("/")
        lines = [line.split() for line in self.cluster.kubectl("-n", namespace, "logs", name).splitlines()]
        return [(float(words[0]), float(words[1])) for words in lines if len(words) == 2]

    def set_load(self, load: loads.Load, file: str, number: float) -> None:
        program = f"from pathlib import Path; Path('/load/{file}').write_text('{number}')"
        self.cluster.kubectl("-n", loads.NAMESPACE, "exec", load.name, "--", "python3", "-S", "-c", program)

    def node_metric(self) -> Json:
        return self.get("nodemetric", self.name)

    def status(self) -> Json:
        result: Json = self.node_metric().get("status") or {}
        return result

    def condition(self, name: str) -> Json:
        return next((entry for entry in self.status().get("conditions") or [] if entry["type"] == name), {})

    def agent(self) -> Json:
        pods = self.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=headroom-agent")["items"]
        alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        assert len(alive) == 1
        result: Json = alive[0]
        return result

    def restarts(self) -> tuple[str, int]:
        pod = self.agent()
        return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]

    def in_agent(self, *command: str) -> str:
        name = self.agent()["metadata"]["name"]
        return self.cluster.kubectl("-n", NAMESPACE, "exec", name, "-c", "agent", "--", *command)

    def summary(self) -> dict[str, Json]:
        """Kubelet's /stats/summary of each pod, by "namespace/name"."""
        pods = json.loads(self._kubelet("stats/summary"))["pods"]
        return {f"{pod['podRef']['namespace']}/{pod['podRef']['name']}": pod for pod in pods}

    def counters(self) -> dict[str, tuple[float, float]]:
        """The CPU counters of /stats/summary: time [seconds since 1970] and value [core-seconds], by pod.

        The summary gives times in whole seconds. /metrics/resource has the same counters with their exact times; a pod
        whose counter kubelet has read again between the two responses is omitted.
        """
        summary, exact = self.summary(), {}
        for line in self._kubelet("metrics/resource").splitlines():
            if result := _COUNTER.fullmatch(line):
                exact[f"{result['namespace']}/{result['pod']}"] = float(result["at"]) / 1000, float(result["value"])
        return {
            name: exact[name]
            for name, pod in summary.items()
            if name in exact and abs(pod["cpu"]["usageCoreNanoSeconds"] / 1e9 - exact[name][1]) < _NANO_SECOND
        }

    def _kubelet(self, path: str) -> str:
        return self.cluster.kubectl("get", "--raw", f"/api/v1/nodes/{self.name}/proxy/{path}")

    def key(self, load: loads.Load) -> str:
        name = f"{load.name}-{self.name}" if load is loads.STATIC else load.name
        return f"{loads.NAMESPACE}/{name}"

    def samples(self, *metrics: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
        """Stored samples of each load: metric -> "namespace/name" -> time [seconds since 1970] and value."""
        pods = self.get("pods", "-n", loads.NAMESPACE)["items"]
        names = {pod["metadata"]["uid"]: f"{loads.NAMESPACE}/{pod['metadata']['name']}" for pod in pods}
        result: dict[str, dict[str, list[tuple[float, float]]]] = {metric: defaultdict(list) for metric in metrics}
        for metric, points in result.items():
            command = ("headroom-agent", "db", "query", metric, "--points", "--window=30m", "--output=json")
            for row in json.loads(self.in_agent(*command)):
                if row["entity"] in names:
                    points[names[row["entity"]]].append((unix(row["time"]), row["value"]))
        return result
