"""Providers in the running extender: the resource metrics API through the API server, and our own watcher."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
import yaml

from tests.scheduler_plugins.extenders import Extender, load_aware, profile, until
from tests.scheduler_plugins.stage import CORES, MEMORY, Stage
from tools.devcluster import Cluster
from tools.devcluster.component import free_port

pytestmark = pytest.mark.cluster

USED = (2.0, 16.0, 30.0)  # usage of the three nodes. [cores]
PLUGIN = "LowRiskOverCommitment"
METRICS_API = "/apis/metrics.k8s.io/v1beta1/nodes"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "nodes.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, replaces metrics-server in a test"},
    },
    "spec": {
        "group": "metrics.k8s.io",
        "scope": "Cluster",
        "names": {"plural": "nodes", "kind": "NodeMetrics"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""Has the API server respond like metrics-server: with a NodeMetricsList at the same path."""


def low_risk(**arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - any argument of the plugin
    return {"name": PLUGIN, "weight": 1, "args": arguments}


@dataclass
class Site:
    stage: Stage
    from_api: Extender
    from_watcher: Extender

    def reading(self, extender: Extender, node: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads(extender.ask(f"/debug/nodes/{node}"))["readings"].get(PLUGIN)

    def all_read(self, extender: Extender) -> bool:
        """Return True if the extender's provider has every node's usage, in percent of its allocatable."""
        readings = [self.reading(extender, node) for node in self.stage.nodes]
        return [result and (result["cpu"]["average"], result["memory"]["average"]) for result in readings] == [
            (100 * cores / CORES, 100 * 8 / MEMORY) for cores in USED
        ]

    def state(self, extender: Extender) -> str:
        lines = extender.ask("/healthz?verbose").decode().splitlines()
        return next(line for line in lines if f"provider of {PLUGIN}" in line)


@pytest.fixture(scope="module")
def site(cluster: Cluster) -> Iterator[Site]:
    path, port = cluster.dir / "metrics-api.yaml", free_port()
    path.write_text(yaml.safe_dump(DEFINITION), encoding="utf-8")
    with Stage.open(cluster, "providers", len(USED)) as stage:
        cluster.define(path)
        source = {"type": "KubernetesMetricsServer", "intervalSeconds": 1}
        from_api = stage.add_extender(
            "from-api",
            profile(plugins=[load_aware(), low_risk(metricProvider=source)]),
            flags=[f"--metrics-listen=127.0.0.1:{port}", "--watcher"],
        )
        watcher = low_risk(watcherAddress=f"http://127.0.0.1:{port}", metricProvider={"intervalSeconds": 1})
        from_watcher = stage.add_extender("from-watcher", profile(plugins=[load_aware(), watcher]))
        stage.wait()
        yield Site(stage, from_api, from_watcher)
        cluster.kubectl("delete", "-f", str(path))


def test_readings_arrive(site: Site) -> None:
    stage = site.stage
    used = dict(zip(stage.nodes, USED, strict=True))
    stage.settle(used)
    for node, cores in used.items():
        usage = {"cpu": f"{cores * 1000:.0f}m", "memory": "8Gi"}
        result = {"timestamp": datetime.now(UTC).isoformat(), "window": "30s", "usage": usage}
        kind = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": {"name": node}}
        stage.cluster.api.request("POST", METRICS_API, {**kind, **result})
    for extender in (site.from_api, site.from_watcher):
        until(partial(site.all_read, extender), f"{extender.name} reading the nodes' usage")


def test_state_is_reported(site: Site) -> None:
    assert "KubernetesMetricsServer at the API server's /apis/metrics.k8s.io" in site.state(site.from_api)
    until(lambda: "nodes matched" in site.state(site.from_api), "matching nodes")
    until(lambda: "LoadWatcher at http://127.0.0.1" in site.state(site.from_watcher), "naming the watcher")
    metrics = site.from_api.ask("/metrics").decode()
    assert (
        f'headroom_scheduler_provider_nodes{{plugin="{PLUGIN}",provider="KubernetesMetricsServer",state="matched"}}'
        in metrics
    )
