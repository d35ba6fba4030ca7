"""A cluster of its own in which Headroom is installed, used, upgraded and removed, and a record of how that went."""

import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from crds.names import MID_CPU, MID_MEMORY
from crds.quantity import value
from tests.charts.rendered import CHART, ROOT
from tests.e2e.agent_node import wait
from tools.demo.stage import SHARED_MACHINE
from tools.demo.story import MANIFESTS
from tools.devcluster import Cluster, CommandError
from tools.devcluster.images import CHART_VALUES

NAMESPACE: Final = "headroom-system"
SHOP: Final = "shop"
PREVIOUS: Final = ROOT / "tests/charts/previous/headroom-0.1.0.tgz"
"""The chart as it was before this one; tests/charts/test_lifecycle.py compares it with the history."""
_OWN_DATA_DIR: Final = "command: [chown,"
"""In the previous chart. Images of today have no such program; those of its own time had."""
_OWN_DATA_DIR_TODAY: Final = (
    'command: [python3, -S, -E, -c, "import os, sys; os.chown(sys.argv[1], 65532, 65532)", {{ $dataDir | quote }}]'
)
CONFIG_MAP: Final = "slo-controller-config"
PATIENCE_SECONDS: Final = 180.0
REQUESTED_MILLI_CORES: Final = 50  # request of the demo's Mid pod
_PARTS: Final = ("capacity", "allocatable")
PASSING: Final = ("Event/", "Lease/kube-node-lease/", "Lease/kube-system/")  # objects that come and go by themselves

Json = dict[str, Any]
T = TypeVar("T")


def previous_chart(folder: Path) -> Path:
    """Unpack the chart before this one so that it runs today's images, which are the only ones that are built here."""
    with tarfile.open(PREVIOUS) as package:
        package.extractall(folder, filter="data")
    name = "templates/agent-daemonset.yaml"
    lines = (folder / "headroom" / name).read_text().splitlines()
    assert sum(_OWN_DATA_DIR in line for line in lines) == 1
    adapted = [" " * 10 + _OWN_DATA_DIR_TODAY if _OWN_DATA_DIR in line else line for line in lines]
    (folder / "headroom" / name).write_text("\n".join(adapted) + "\n")
    return folder / "headroom"


@dataclass
class Life:
    cluster: Cluster
    record: list[str] = field(default_factory=list)
    """The actions and observations, each line with the seconds since the beginning."""
    began: float = field(default_factory=time.monotonic)  # when the record begins [s]

    @property
    def node(self) -> str:
        return self.cluster.spec.node_name

    @property
    def settings(self) -> list[str]:
        """Values for a small node: one replica of each, and the scheduler that is built here."""
        values = {
            "manager.replicas": "1",
            "scheduler.replicas": "1",
            "scheduler.image": f"localhost/kube-scheduler:{self.cluster.binaries.kubernetes_version}",
        }
        return ["--set", ",".join([CHART_VALUES, *(f"{key}={value}" for key, value in values.items())])]

    def log(self, line: str) -> None:
        self.record.append(f"{time.monotonic() - self.began:6.1f} s  {line}")
        print(self.record[-1])

    def prepare(self) -> None:
        """Objects from before Headroom: the namespaces, and a note on a node that this machine has other uses for."""
        for namespace in (NAMESPACE, SHOP):
            self.cluster.create_namespace(namespace)
        notes = [f"{key}={value}" for key, value in SHARED_MACHINE.items()]
        self.cluster.kubectl("label", "node", self.node, "headroom.dev/node=shown")
        self.cluster.kubectl("annotate", "node", self.node, *notes)

    def helm(self, *words: str) -> str:
        said = self.cluster.helm(words[0], "headroom", *words[1:], "-n", NAMESPACE)
        self.log(f"helm {words[0]}")
        return said

    def refused_by_helm(self, *words: str) -> str:
        try:
            self.helm(*words)
        except CommandError as error:
            self.log(f"helm {words[0]} is refused")
            return str(error)
        raise AssertionError(f"helm {' '.join(words)} went through")

    def install(self, chart: str = str(CHART), *more: str) -> None:
        self.helm("install", chart, "--wait", "--timeout", "4m", *self.settings, *more)

    def headroom(self, *words: str, code: int = 0) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig), "COLUMNS": "150"}
        command = [sys.executable, "-m", "kubectl_headroom", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=180
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def get(self, *words: str) -> Json:
        text = self.cluster.kubectl("get", *words, "--ignore-not-found", "-o", "json")
        return dict(json.loads(text)) if text.strip() else {}

    def until(self, probe: Callable[[], T | None], what: str, seconds: float = PATIENCE_SECONDS) -> T:
        result = wait(probe, seconds=seconds, what=what)
        self.log(what)
        return result

    def report(self) -> Json:
        status = self.get("nodemetric", self.node).get("status") or {}
        return status if (status.get("nodeMetric") or {}).get("nodeUsage") else {}

    def configure(self, config: Json) -> None:
        patch = json.dumps({"data": {"colocation-config": json.dumps(config)}})
        self.cluster.kubectl("-n", NAMESPACE, "patch", "configmap", CONFIG_MAP, "--type=merge", "-p", patch)
        self.log(f"ConfigMap edited: {json.dumps(config)}")

    def publish(self) -> None:
        """The edit that publishes Mid resources, with a cold start of seconds in place of a day.

        Published amounts depend on requests alone here: each upgrade starts pods, whose usage would lower them.
        """
        config = json.loads((MANIFESTS / "colocation-config.json").read_text())
        self.configure({**config, "midPolicy": "designMixed"})

    def mid(self) -> Json:
        """The Mid resources of the Node by capacity and allocatable; empty where neither has any."""
        status = self.get("node", self.node)["status"]
        parts = {part: {name: status[part].get(name) for name in (MID_CPU, MID_MEMORY)} for part in _PARTS}
        return parts if any(any(amounts.values()) for amounts in parts.values()) else {}

    def published(self) -> bool:
        parts = self.mid()
        return bool(parts) and all(value(amounts[MID_CPU] or 0) >= REQUESTED_MILLI_CORES for amounts in parts.values())

    def start(self, manifest: str, *names: str) -> None:
        self.cluster.kubectl("apply", "-f", str(MANIFESTS / manifest))
        for name in names:
            self.until(lambda name=name: self.running(name), f"pod {name} runs")  # type: ignore[misc]

    def running(self, name: str) -> str | None:
        pod = self.get("pod", name, "-n", SHOP)
        if pod.get("status", {}).get("phase") != "Running":
            return None
        return f"{pod['metadata']['uid']} {[status['restartCount'] for status in pod['status']['containerStatuses']]}"

    def objects(self) -> set[str]:
        """Every object of the cluster but those that come and go by themselves."""
        kinds = self.cluster.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        wanted = ",".join(sorted(kind for kind in kinds if not kind.startswith(("events", "componentstatuses"))))
        columns = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"
        text = self.cluster.kubectl("get", wanted, "-A", "--no-headers", "-o", columns)
        result = {"/".join(line.split()) for line in text.splitlines()}
        return {entry for entry in result if not entry.startswith(PASSING)}
