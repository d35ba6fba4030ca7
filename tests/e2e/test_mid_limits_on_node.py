"""Native limits of Mid pods on a real kubelet, beside Prod pods."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from crds.names import MID_CPU, MID_MEMORY
from tests.e2e import loads
from tests.e2e.agent_node import AgentNode, Json, wait
from tools.devcluster import Cluster

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

QUOTA_CORES = 0.1
PERIOD_SECONDS = 0.1  # of a CPU quota
MID = {MID_CPU: "100", MID_MEMORY: "64Mi"}
GREEDY = loads.Load(
    "greedy", 1000, 8, {**MID, "cpu": "0", "memory": "0"}, {**MID, "cpu": f"{QUOTA_CORES}", "memory": "64Mi"}
)
"""A Mid pod that burns a core, of which it may use a tenth."""
LEAKING = replace(GREEDY, name="leaking", milli_cores=0, mebibytes=256)
"""A Mid pod that allocates four times its limit."""
PROD = (replace(loads.KNOWN, milli_cores=100), loads.LOADS[1])


@pytest.fixture(scope="module")
def node(real_node_cluster: Cluster) -> Iterator[AgentNode]:
    """A node that publishes Mid resources, with a Guaranteed and a Burstable Prod pod."""
    cluster = real_node_cluster
    node = AgentNode(cluster)
    cluster.create_namespace(loads.NAMESPACE)
    amounts = {MID_CPU: "1000", MID_MEMORY: "1Gi"}
    cluster.api.merge(f"/api/v1/nodes/{node.name}/status", {"status": {"capacity": amounts, "allocatable": amounts}})
    pods = (GREEDY, LEAKING, *PROD)
    cluster.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": [load.manifest() for load in pods]}))
    for load in (GREEDY, *PROD):
        wait(lambda load=load: node.at_work(load), seconds=120, what=f"{load.name} at work")  # type: ignore[misc]
    yield node
    cluster.kubectl("delete", "namespace", loads.NAMESPACE, "--wait=true")


def _pod(node: AgentNode, load: loads.Load) -> Json:
    return node.get("pod", load.name, "-n", loads.NAMESPACE)


def test_memory_beyond_the_limit_ends_the_mid_pod_alone(node: AgentNode) -> None:
    """A Mid pod that allocates beyond its limit is OOM-killed; Prod pods go on."""

    def killed() -> bool:
        states: list[Json] = _pod(node, LEAKING)["status"].get("containerStatuses") or []
        parts = [state.get(when) or {} for state in states for when in ("state", "lastState")]
        return "OOMKilled" in [(part.get("terminated") or {}).get("reason") for part in parts]

    wait(killed, seconds=120, what="the OOM kill")
    for load in (*PROD, GREEDY):
        (state,) = _pod(node, load)["status"]["containerStatuses"]
        assert (load.name, state["restartCount"], "running" in state["state"]) == (load.name, 0, True)


def test_cpu_is_held_at_the_quota(node: AgentNode) -> None:
    """A Mid pod that burns CPU uses at most its quota, whatever is idle."""
    began = len(node.account(GREEDY))

    def account() -> list[tuple[float, float]]:
        lines = node.account(GREEDY)[began:]
        return lines if len(lines) > 1 and lines[-1][0] - lines[0][0] > 5 else []

    (start, before), *_, (end, after) = wait(account, seconds=120, what="five seconds of its account")
    assert after - before <= QUOTA_CORES * (end - start + 2 * PERIOD_SECONDS)


def test_limits_reserve_nothing(node: AgentNode) -> None:
    """A Mid pod with native limits is Burstable, requests no native resource, and precedes Prod pods in an OOM."""
    pod = _pod(node, GREEDY)
    native = {name: pod["spec"]["containers"][0]["resources"]["requests"][name] for name in ("cpu", "memory")}
    assert (pod["status"]["qosClass"], native) == ("Burstable", {"cpu": "0", "memory": "0"})
    program = "print(open('/proc/1/oom_score_adj').read())"
    scores = [
        int(node.cluster.kubectl("-n", loads.NAMESPACE, "exec", load.name, "--", "python3", "-S", "-c", program))
        for load in (GREEDY, *PROD)
    ]
    assert scores[0] == 999
    assert max(scores[1:]) < 999
