"""The steps of the demo, in order. Each step prints its purpose, acts, and checks the result."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from tools.demo.services import install_as_pods, install_as_processes
from tools.demo.stage import COOL, HOT
from tools.demo.story import MANIFESTS, MID_CPU, MID_MEMORY, NAMESPACE, StepFailed, Story, require

MID_MILLI_CORES = 50  # request of the Mid pod of manifests/mid.yaml


@dataclass(frozen=True)
class Step:
    """A chapter: its title and what happens in it. It raises StepFailed when its promise does not hold."""

    title: str
    run: Callable[[Story], None]


def nodes(story: Story) -> None:
    """The shown node is Ready, and so are two replayed ones."""
    if story.on_real_node:
        story.narrator.say(
            "One real node (kubelet, containerd, runc), and two kwok nodes with load replayed from traces."
        )
    else:
        story.narrator.skipped("a real node with pods that run: needs root on Linux")
        story.narrator.say("Three kwok nodes with load replayed from traces.")
    story.narrator.wait_until(
        "all three nodes are Ready",
        lambda: "Ready" if story.ask("get", "nodes").count(" Ready ") == len(("shown", HOT, COOL)) else None,
        seconds=120,
    )
    story.show("get", "nodes", "-L", "headroom.dev/node")


def install(story: Story) -> None:
    """The chart is installed, and agent, manager and scheduler run."""
    if story.on_real_node:
        install_as_pods(story)
    else:
        install_as_processes(story)


def prod_pods(story: Story) -> None:
    """Two Prod pods run: one uses a fifth of its request, one all of it."""
    story.show("create", "namespace", "shop")
    story.narrator.wait_until(
        "the namespace has its service account",
        lambda: story.ask("get", "serviceaccounts", "-n", "shop", "-o", "name").strip() or None,
        seconds=120,
    )
    story.show("apply", "-f", str(MANIFESTS / "prod.yaml"))
    for name in ("thrifty", "busy"):
        story.narrator.wait_until(f"{name} runs", lambda name=name: story.phase(name, "Running"), seconds=120)  # type: ignore[misc]


def enable(story: Story) -> None:
    """One ConfigMap turns colocation on; the manager hands the policy to the agent."""
    config = json.dumps(json.loads((MANIFESTS / "colocation-config.json").read_text()))
    patch = json.dumps({"data": {"colocation-config": config}})
    story.show("patch", "configmap", "slo-controller-config", "-n", NAMESPACE, "--type=merge", "-p", patch)

    def delivered() -> str | None:
        metric = story.node_metric(story.node)
        period = ((metric or {}).get("spec", {}).get("predictPolicy") or {}).get("coldStartPeriodSeconds")
        return "delivered" if period == json.loads(config)["nodePredictPolicy"]["coldStartPeriodSeconds"] else None

    story.narrator.wait_until("the policy is in NodeMetric.spec", delivered, seconds=120)


def node_metric(story: Story) -> None:
    """The agent's prediction becomes ready and is in the NodeMetric."""
    node = story.node

    def ready() -> str | None:
        metric = story.node_metric(node) or {}
        conditions = {c["type"]: c for c in metric.get("status", {}).get("conditions") or []}
        return "ready" if conditions.get("PredictionReady", {}).get("status") == "True" else None

    story.narrator.wait_until("the prediction is ready", ready, seconds=120)
    story.show("get", "nodemetrics")
    status = (story.node_metric(node) or {})["status"]
    reclaimable = status["prodReclaimableMetric"]["resource"]["resources"]
    require({"cpu", "memory"} <= set(reclaimable), f"prodReclaimableMetric says {reclaimable}")


def mid_resources(story: Story) -> None:
    """The Node has Mid resources, the same number in capacity and allocatable, and explain says why."""
    node = story.node

    def published() -> str | None:
        allocatable = story.get("node", node)["status"]["allocatable"]
        enough = int(allocatable.get(MID_CPU, 0)) >= MID_MILLI_CORES
        return f"{MID_CPU} {allocatable[MID_CPU]}" if enough and int(allocatable.get(MID_MEMORY, 0)) else None

    try:
        story.narrator.wait_until("the Node has Mid resources", published, seconds=150)
    except StepFailed:
        story.show_headroom("explain", "node", node)  # a machine that is busy with other work has nothing to publish
        raise
    columns = "NAME:.metadata.name,CPU:.status.allocatable.cpu,MEMORY:.status.allocatable.memory"
    mid = (
        "MID-CPU:.status.allocatable.kubernetes\\.io/mid-cpu,MID-MEMORY:.status.allocatable.kubernetes\\.io/mid-memory"
    )
    story.show("get", "node", node, "-o", f"custom-columns={columns},{mid}")
    explained = story.show_headroom("explain", "node", node)
    require("eclaimable" in explained, "explain does not name the reclaimable term")


def mid_pod(story: Story) -> None:
    """A Mid pod is scheduled against them and runs."""
    story.show("apply", "-f", str(MANIFESTS / "mid.yaml"))
    story.narrator.wait_until("the Mid pod runs", lambda: story.phase("batch-report", "Running"), seconds=120)
    story.show("get", "pods", "-n", "shop", "-o", "wide")


def load_aware(story: Story) -> None:
    """A pod goes to the cool node, and one that insists on the hot node is refused with the reason in its event."""

    def reported() -> str | None:
        metrics = [story.node_metric(name) or {} for name in (HOT, COOL)]
        usage = [m.get("status", {}).get("nodeMetric", {}).get("nodeUsage", {}).get("resources") for m in metrics]
        return "reported" if all(usage) else None

    story.narrator.wait_until("the replayed nodes report their load", reported, seconds=120)
    story.show("get", "nodemetrics", HOT, COOL)
    story.show("apply", "-f", str(MANIFESTS / "load-aware.yaml"))
    story.narrator.wait_until(
        "the free pod has a node", lambda: story.pod("anywhere")["spec"].get("nodeName"), seconds=120
    )
    story.narrator.wait_until(
        "the other pod is refused by load",
        lambda: next((m for m in story.events("insists-on-hot", "FailedScheduling") if "usage exceed" in m), None),
        seconds=120,
    )
    story.show("get", "pods", "-n", "shop", "-o", "wide")
    story.show("get", "events", "-n", "shop", "--field-selector", "involvedObject.name=insists-on-hot")
    placed = story.pod("anywhere")["spec"]["nodeName"]
    require(placed == COOL, f"the free pod went to {placed}")
    require(not story.pod("insists-on-hot")["spec"].get("nodeName"), "the pod was put on the hot node")


def top(story: Story) -> None:
    """The operator's view: usage, prediction and published amounts, per node and per pod."""
    observed = story.show_headroom("top", "nodes")
    if story.node not in observed:
        raise StepFailed(f"top nodes does not list {story.node}")
    observed = story.show_headroom("top", "pods", "-A")
    require("thrifty" in observed and "busy" in observed, "top pods does not list the Prod pods")


STEPS = (
    Step("A real Kubernetes", nodes),
    Step("Install Headroom", install),
    Step("Prod pods: one uses a fifth of its request, one all of it", prod_pods),
    Step("Turn colocation on: one ConfigMap", enable),
    Step("Measurements and predictions of the agent", node_metric),
    Step("Amounts that the manager publishes, and why", mid_resources),
    Step("A Mid pod requests some of it", mid_pod),
    Step("Placement by load, through the stock kube-scheduler", load_aware),
    Step("The operator's view", top),
)
