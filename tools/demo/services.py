"""Installation of Headroom in the demo's cluster: the chart's pods on a real node, or processes beside kwok."""

import sys
import urllib.error
import urllib.request
from functools import partial

import yaml

from tools.demo.story import CHART, NAMESPACE, ROOT, Story
from tools.devcluster.component import free_port
from tools.devcluster.images import CHART_VALUES

HELM = (
    *("install", "headroom", str(CHART), "--namespace", NAMESPACE, "--create-namespace", "--wait", "--timeout", "5m"),
    *("--set", CHART_VALUES),
)


def install_as_pods(story: Story) -> None:
    """Install the chart; agent, manager and scheduler run as pods on the real node."""
    settings = {
        "manager.replicas": "1",
        "scheduler.replicas": "1",
        "scheduler.image": f"localhost/kube-scheduler:{story.cluster.binaries.kubernetes_version}",
        "agent.nodeSelector.headroom\\.dev/node": "shown",
        "agent.extraArgs": "{--training-interval=5s}",
    }
    _helm(story, settings)
    story.show("get", "pods", "-n", NAMESPACE, "-o", "wide")


def install_as_processes(story: Story) -> None:
    """Install the chart without its pods, which kwok nodes cannot run, and start the same services as processes."""
    story.narrator.skipped("agent, manager and scheduler as pods: needs the real node (root on Linux)")
    story.narrator.say("The same three services run as processes of this machine instead.")
    nowhere = {"agent.nodeSelector.headroom\\.dev/node": "none", "manager.replicas": "0", "scheduler.replicas": "0"}
    _helm(story, nowhere)
    configured = story.get("configmap", "headroom-scheduler", "-n", NAMESPACE)["data"]
    configuration = yaml.safe_load(configured["kube-scheduler.yaml"])
    address = f"127.0.0.1:{free_port()}"
    # All programs of a cluster share this machine: an extender that is slow for that is not to be passed by.
    configuration["extenders"][0] |= {"urlPrefix": f"http://{address}", "httpTimeout": "30s"}
    login = f"--kubeconfig={story.cluster.kubeconfig}"
    led = ("--listen=127.0.0.1:0", "--leader-elect", "--create-priority-classes")
    _start(story, "manager", "manager", login, f"--namespace={NAMESPACE}", *led)
    _start(story, "extender", "scheduler_plugins", login, f"--listen={address}")
    story.narrator.wait_until(
        "the manager has created the PriorityClasses",
        lambda: "koord-prod" if "koord-prod" in story.ask("get", "priorityclasses", "-o", "name") else None,
        seconds=120,
    )
    story.narrator.wait_until("the extender knows the cluster", partial(_healthy, address), seconds=120)
    story.cluster.control_plane.add_scheduler("headroom-scheduler", configuration)


def _helm(story: Story, settings: dict[str, str]) -> None:
    words = [*HELM, *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]
    story.narrator.command("helm", *words)
    with story.narrator.console.status("helm installs, and waits until all is ready ..."):
        story.narrator.say(story.cluster.helm(*words))


def _start(story: Story, name: str, module: str, *flags: str) -> None:
    command = [sys.executable, "-m", module, *flags]
    story.narrator.command(*command)
    story.cluster.supervisor.start(name, command, cwd=ROOT)


def _healthy(address: str) -> str | None:
    try:
        urllib.request.urlopen(f"http://{address}/healthz", timeout=5).close()
    except (urllib.error.URLError, OSError):  # an answer other than 2xx is an error, too
        return None
    return "healthy"
