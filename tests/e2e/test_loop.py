"""The whole loop on a real node: the demo's steps as assertions, then what a demo does not show."""

import json
from typing import Any

import pytest

from crds.quantity import value
from tests.e2e.agent_node import unix, wait
from tests.e2e.conftest import StoryRunner
from tools.demo.steps import STEPS, Step
from tools.demo.story import MID_CPU, NAMESPACE, Story

pytestmark = [pytest.mark.node, pytest.mark.quiet, pytest.mark.timeout(600)]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.run.__name__)
def test_demo_step_holds(step: Step, on_real_node: StoryRunner) -> None:
    on_real_node.up_to(step)


@pytest.fixture
def story(on_real_node: StoryRunner) -> Story:
    return on_real_node.whole()


def _status(story: Story) -> dict[str, Any]:
    status: dict[str, Any] = (story.node_metric(story.node) or {}).get("status", {})
    return status


def test_survives_apiserver_restart(story: Story) -> None:
    """After the API server was away, reports go on, Mid stays published, and pods are still placed by load."""
    before = _status(story)["updateTime"]
    story.cluster.apiserver.restart()
    wait(lambda: unix(_status(story)["updateTime"]) > unix(before), seconds=120, what="a report after it")
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
    wait(lambda: story.pod("after-restart")["spec"].get("nodeName"), seconds=120, what="a node for a new pod")


def test_services_write_no_errors(story: Story) -> None:
    for pod in story.get("pods", "-n", NAMESPACE)["items"]:
        for container in pod["status"]["containerStatuses"]:
            name, container_name = pod["metadata"]["name"], container["name"]
            log = story.ask("logs", "-n", NAMESPACE, name, "-c", container_name)
            assert "Traceback" not in log, f"{name}/{container_name}: {log[-2000:]}"
            assert container["restartCount"] == 0, f"{name}/{container_name} restarted"
