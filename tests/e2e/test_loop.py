"""The whole loop on a real node: the demo's steps as assertions, then what a demo does not show."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from demo.steps import STEPS, Step
from demo.story import MID_CPU, Story

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

BUSY_MILLI_CORES = 200
TOLERANCE = 0.05


@pytest.fixture(scope="session")
def told(story: Story) -> Callable[[Step], None]:
    """Tells a step after all those before it, each once; a failed step fails all that follow."""
    done: list[str] = []
    failed: list[str] = []

    def tell(step: Step) -> None:
        for earlier in STEPS[: STEPS.index(step) + 1]:
            if failed:
                pytest.fail(f"not reached: the step {failed[0]!r} failed before")
            if earlier.title not in done:
                failed.append(earlier.title)
                earlier.run(story)
                failed.clear()
                done.append(earlier.title)

    return tell


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.run.__name__)
def test_demo_step_holds(step: Step, told: Callable[[Step], None]) -> None:
    """Every step of the demo shows what it promises."""
    told(step)


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).astimezone(UTC).timestamp()


def _wait(probe: Callable[[], object], *, seconds: float, what: str) -> object:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := probe():
            return found
        time.sleep(0.5)
    pytest.fail(f"not within {seconds} s: {what}")


def _reported_milli_cores(story: Story, name: str) -> float | None:
    status = (story.node_metric(story.real_node) or {}).get("status", {})
    for pod in status.get("podsMetric") or []:
        if pod["name"] == name:
            cpu = str(pod["podUsage"]["resources"]["cpu"])
            return float(cpu[:-1]) if cpu.endswith("m") else float(cpu) * 1000
    return None


def test_known_load_is_reported(story: Story, told: Callable[[Step], None]) -> None:
    """A pod that burns 200 milli-cores is reported with 200, within 5 %, once the window holds nothing else."""
    told(STEPS[-1])
    seen: list[float | None] = []

    def close() -> bool:
        seen.append(_reported_milli_cores(story, "busy"))
        return seen[-1] is not None and abs(seen[-1] / BUSY_MILLI_CORES - 1) <= TOLERANCE

    # The window is a minute and starts with the pod: its interpreter's start is in the first reports.
    _wait(close, seconds=150, what=f"busy within 5 % of {BUSY_MILLI_CORES}m, but {seen}")


def test_survives_an_apiserver_restart(story: Story, told: Callable[[Step], None]) -> None:
    """After the API server was away, reports go on, Mid stays published, and pods are still placed by load."""
    told(STEPS[-1])
    before = (story.node_metric(story.real_node) or {})["status"]["updateTime"]
    story.cluster.apiserver.restart()

    def newer() -> bool:
        status = (story.node_metric(story.real_node) or {}).get("status", {})
        return _seconds(status["updateTime"]) > _seconds(before)

    _wait(newer, seconds=120, what="a report after the restart")
    assert int(story.get("node", story.real_node)["status"]["allocatable"][MID_CPU]) > 0
    pod = story.pod("anywhere")
    clone = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "after-restart", "namespace": "shop"},
        "spec": {key: pod["spec"][key] for key in ("schedulerName", "nodeSelector", "tolerations")}
        | {"containers": [{"name": "app", "image": "localhost/headroom-agent:dev"}]},
    }
    story.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(clone))
    _wait(lambda: story.pod("after-restart")["spec"].get("nodeName"), seconds=60, what="a node for a new pod")


def test_services_write_no_errors(story: Story, told: Callable[[Step], None]) -> None:
    """No service prints a traceback, and none has restarted."""
    told(STEPS[-1])
    for pod in story.get("pods", "-n", "headroom-system")["items"]:
        for container in pod["status"]["containerStatuses"]:
            name, container_name = pod["metadata"]["name"], container["name"]
            log = story.ask("logs", "-n", "headroom-system", name, "-c", container_name)
            assert "Traceback" not in log, f"{name}/{container_name}: {log[-2000:]}"
            assert container["restartCount"] == 0, f"{name}/{container_name} restarted"
