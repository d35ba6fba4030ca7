"""The demo's state: the cluster, the narrator that says what happens, and the questions that the steps ask."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from tools.devcluster import Cluster

NAMESPACE = "headroom-system"
MANIFESTS = Path(__file__).with_name("manifests")
ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "headroom"
MID_CPU, MID_MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"


class StepFailed(Exception):  # noqa: N818 -- it is the outcome of a step, said to a person
    """A step failed; the message has the observed state."""


@dataclass
class Narrator:
    """Prints the story and keeps the time of each chapter."""

    console: Console = field(default_factory=Console)
    began: float = field(default_factory=time.monotonic)
    chapter: int = 0

    def heading(self, title: str) -> None:
        """Begin a chapter."""
        self.chapter += 1
        self.console.print()
        seconds = time.monotonic() - self.began
        self.console.rule(Text(f"{self.chapter}. {title}  [{seconds:.0f} s]", style="bold cyan"), align="left")

    def say(self, words: str, style: str = "") -> None:
        """Say something in plain words, or show what a command printed."""
        self.console.print(Text(words.rstrip(), style=style), soft_wrap=True)

    def command(self, *words: str) -> None:
        """Show a command before its output, as a user would type it."""
        self.say(f"$ {shlex.join(words)}", "bold green")

    def seen(self, what: str) -> None:
        """Say that a promise was checked and holds."""
        self.say(f"✓ {what}", "green")

    def failed(self, what: str) -> None:
        """Say that something went wrong."""
        self.say(f"✗ {what}", "bold red")

    def skipped(self, what: str) -> None:
        """Print the skipped parts, and why."""
        self.say(f"- SKIPPED: {what}", "bold yellow")

    def wait_until(self, what: str, probe: Callable[[], str | None], *, seconds: float) -> str:
        """Wait until the probe returns a result; show progress meanwhile."""
        began = time.monotonic()
        with self.console.status(f"waiting until {what} ...") as status:
            while True:
                result = probe()
                waited = time.monotonic() - began
                if result is not None:
                    self.seen(f"{what} (after {waited:.0f} s)")
                    return result
                if waited > seconds:
                    raise StepFailed(f"after {seconds:.0f} s still not: {what}")
                status.update(f"waiting until {what} ... {waited:.0f} s")
                time.sleep(0.5)


@dataclass
class Story:
    """State that the steps share. `show` prints a command and its output; `ask` does not."""

    cluster: Cluster
    narrator: Narrator = field(default_factory=Narrator)

    @property
    def on_real_node(self) -> bool:
        """Return whether the shown node is a real one; else it is a kwok node whose load is replayed."""
        return self.cluster.spec.real_node

    @property
    def node(self) -> str:
        """Name of the node that the story is about."""
        return self.ask("get", "nodes", "-l", "headroom.dev/node=shown", "-o", "name").strip().removeprefix("node/")

    def ask(self, *words: str) -> str:
        """Return kubectl's output without printing it."""
        return self.cluster.kubectl(*words)

    def show(self, *words: str) -> str:
        """Print a kubectl command and its output."""
        self.narrator.command("kubectl", *words)
        answer = self.cluster.kubectl(*words)
        self.narrator.say(answer)
        return answer

    def show_headroom(self, *words: str) -> str:
        """Print a `kubectl headroom` command and its output."""
        self.narrator.command("kubectl", "headroom", *words)
        command = [sys.executable, "-m", "kubectl_headroom", *words]
        environment = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig), "COLUMNS": "150"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            raise StepFailed(f"kubectl headroom {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        self.narrator.say(done.stdout)
        return done.stdout

    def get(self, *words: str) -> dict[str, Any]:
        """Return an object or list as JSON, without printing it."""
        answer: dict[str, Any] = json.loads(self.ask("get", *words, "-o", "json"))
        return answer

    def node_metric(self, node: str) -> dict[str, Any] | None:
        """The NodeMetric of a node, or None before there is one."""
        result = self.get("nodemetrics", "--field-selector", f"metadata.name={node}")["items"]
        return result[0] if result else None

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
