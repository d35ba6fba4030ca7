"""The whole loop on a real node: the demo's steps as assertions, then what a demo does not show."""

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from crds.quantity import value
from tests.audited import audited
from tests.charts.rendered import render
from tests.e2e import rights
from tests.e2e.conftest import Telling
from tools.demo.steps import STEPS, Step
from tools.demo.story import MID_CPU, NAMESPACE, Story
from tools.devcluster.commands import CommandError

pytestmark = [pytest.mark.node, pytest.mark.quiet, pytest.mark.timeout(600)]

BUSY_MILLI_CORES = 200
TOLERANCE = 0.05
FORBIDDEN = 403


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.run.__name__)
def test_demo_step_holds(step: Step, on_real_node: Telling) -> None:
    """Every step of the demo shows what it promises."""
    on_real_node.up_to(step)


@pytest.fixture
def story(on_real_node: Telling) -> Story:
    """The story, told to its end."""
    return on_real_node.whole()


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).astimezone(UTC).timestamp()


def _wait(probe: Callable[[], object], *, seconds: float, what: str) -> object:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := probe():
            return found
        time.sleep(0.5)
    pytest.fail(f"not within {seconds} s: {what}")


def _status(story: Story) -> dict[str, Any]:
    status: dict[str, Any] = (story.node_metric(story.node) or {}).get("status", {})
    return status


def _reported_milli_cores(story: Story, name: str) -> float | None:
    for pod in _status(story).get("podsMetric") or []:
        if pod["name"] == name:
            cpu = str(pod["podUsage"]["resources"]["cpu"])
            return float(cpu[:-1]) if cpu.endswith("m") else float(cpu) * 1000
    return None


def test_known_load_is_reported(story: Story) -> None:
    """A pod that burns 200 milli-cores is reported with 200, within 5 %, once the window holds nothing else."""
    seen: list[float | None] = []

    def close() -> bool:
        seen.append(_reported_milli_cores(story, "busy"))
        return seen[-1] is not None and abs(seen[-1] / BUSY_MILLI_CORES - 1) <= TOLERANCE

    # The window is a minute and starts with the pod: its interpreter's start is in the first reports.
    _wait(close, seconds=150, what=f"busy within 5 % of {BUSY_MILLI_CORES}m, but {seen}")


@contextmanager
def _forwarded(story: Story, port: int) -> Iterator[int]:
    """A port of this machine that kubectl carries into the manager's pod."""
    what = ["deployment/headroom-manager", f":{port}"]
    command = [
        str(story.cluster.binaries.path("kubectl")),
        "-n",
        NAMESPACE,
        "port-forward",
        "--address=127.0.0.1",
        *what,
    ]
    with subprocess.Popen(command, env=story.cluster.environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()  # Forwarding from 127.0.0.1:41234 -> 8081
            yield int(line.partition("127.0.0.1:")[2].split()[0])
        finally:
            process.terminate()


def test_page_needs_forwarding(story: Story) -> None:
    """The manager's page knows the node, and is reached by port-forward alone, not over the pods' network."""
    with _forwarded(story, 8081) as port:
        address = f"http://127.0.0.1:{port}/ui/api/nodes/{story.node}"
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert json.loads(answer.read())["node"] == story.node
    manager = story.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=headroom-manager")["items"][0]
    proxied = f"/api/v1/namespaces/{NAMESPACE}/pods/{manager['metadata']['name']}"
    assert story.ask("get", "--raw", f"{proxied}:8080/proxy/healthz") == "ok\n"  # where it listens for everybody
    with pytest.raises(CommandError, match="connection refused"):
        story.ask("get", "--raw", f"{proxied}:8081/proxy/ui")


def test_survives_apiserver_restart(story: Story) -> None:
    """After the API server was away, reports go on, Mid stays published, and pods are still placed by load."""
    before = _status(story)["updateTime"]
    story.cluster.apiserver.restart()
    _wait(lambda: _seconds(_status(story)["updateTime"]) > _seconds(before), seconds=120, what="a report after it")
    assert value(story.get("node", story.node)["status"]["allocatable"][MID_CPU]) > 0
    pod = story.pod("anywhere")
    clone = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "after-restart", "namespace": "shop"},
        "spec": {key: pod["spec"][key] for key in ("schedulerName", "nodeSelector", "tolerations")}
        | {"containers": [{"name": "app", "image": "localhost/headroom-agent:dev"}]},
    }
    story.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(clone))
    _wait(lambda: story.pod("after-restart")["spec"].get("nodeName"), seconds=120, what="a node for a new pod")


def _requests(story: Story) -> Iterator[tuple[str, bool]]:
    """What each of our service accounts asked, and whether it was refused for want of rights."""
    ours = f"system:serviceaccount:{NAMESPACE}:"
    for event in audited(story.cluster, ours):
        user, code = event["user"]["username"], event.get("responseStatus", {}).get("code")
        if user.startswith(ours) and code is not None:
            path = event["requestURI"].partition("?")[0]
            yield f"{user.removeprefix(ours)}: {event['verb']} {path}", code == FORBIDDEN


def test_rights_suffice(story: Story) -> None:
    """No service asked for anything that the chart does not allow it."""
    requests = set(_requests(story))
    refused = {what for what, forbidden in requests if forbidden}
    # While an API server starts, it refuses for a moment what it allows when it has read its roles.
    allowed = {what for what, forbidden in requests if not forbidden}
    assert allowed
    assert not sorted(refused - allowed)
    asked = rights.requests(story.cluster, NAMESPACE)
    granted = rights.granted(render(story.cluster.helm))
    for account in ("headroom-agent", "headroom-manager", "headroom-scheduler"):
        assert asked[account], account
        assert rights.beyond(granted[account], asked[account]) == [], account


def test_services_write_no_errors(story: Story) -> None:
    """No service prints a traceback, and none has restarted."""
    for pod in story.get("pods", "-n", NAMESPACE)["items"]:
        for container in pod["status"]["containerStatuses"]:
            name, container_name = pod["metadata"]["name"], container["name"]
            log = story.ask("logs", "-n", NAMESPACE, name, "-c", container_name)
            assert "Traceback" not in log, f"{name}/{container_name}: {log[-2000:]}"
            assert container["restartCount"] == 0, f"{name}/{container_name} restarted"
