"""The demo's state: the cluster, what was told so far, and the questions that the steps ask of the cluster."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.demo.narrate import Narrator, StepFailed
from tools.devcluster import Cluster

NAMESPACE = "headroom-system"
MANIFESTS = Path(__file__).with_name("manifests")
CHART = Path(__file__).parents[2] / "charts" / "headroom"
MID_CPU, MID_MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"


@dataclass
class Story:
    """What the steps share. A step asks through `show` (told) or `ask` (not told)."""

    cluster: Cluster
    narrator: Narrator = field(default_factory=Narrator)

    @property
    def on_real_node(self) -> bool:
        """Whether the shown node is a real one; else it is a kwok node whose load is replayed."""
        return self.cluster.spec.real_node

    @property
    def node(self) -> str:
        """Name of the node that the story is about."""
        return self.ask("get", "nodes", "-l", "headroom.dev/node=shown", "-o", "name").strip().removeprefix("node/")

    def ask(self, *words: str) -> str:
        """What kubectl answers, not told."""
        return self.cluster.kubectl(*words)

    def show(self, *words: str) -> str:
        """Tell a kubectl command and what it answers."""
        self.narrator.command("kubectl", *words)
        answer = self.cluster.kubectl(*words)
        self.narrator.output(answer)
        return answer

    def show_headroom(self, *words: str) -> str:
        """Tell a `kubectl headroom` command and what it answers."""
        self.narrator.command("kubectl", "headroom", *words)
        command = [sys.executable, "-m", "headroom.cli", *words]
        environment = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig), "COLUMNS": "150"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            raise StepFailed(f"kubectl headroom {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        self.narrator.output(done.stdout)
        return done.stdout

    def get(self, *words: str) -> dict[str, Any]:
        """An object or list as JSON, not told."""
        answer: dict[str, Any] = json.loads(self.ask("get", *words, "-o", "json"))
        return answer

    def node_metric(self, node: str) -> dict[str, Any] | None:
        """The NodeMetric of a node, or None before there is one."""
        found = self.get("nodemetrics", "--field-selector", f"metadata.name={node}")["items"]
        return found[0] if found else None

    def pod(self, name: str) -> dict[str, Any]:
        """A pod of the demo."""
        return self.get("pod", name, "-n", "shop")

    def phase(self, name: str, phase: str) -> str | None:
        """A sentence once the pod is in that phase."""
        status: Mapping[str, Any] = self.pod(name)["status"]
        return f"pod {name} is {phase}" if status.get("phase") == phase else None

    def events(self, name: str, reason: str) -> list[str]:
        """The messages of a pod's events with this reason."""
        selector = f"involvedObject.name={name},reason={reason}"
        return [event["message"] for event in self.get("events", "-n", "shop", "--field-selector", selector)["items"]]


def require(condition: object, instead: str) -> None:
    """End the step unless the condition holds."""
    if not condition:
        raise StepFailed(instead)
