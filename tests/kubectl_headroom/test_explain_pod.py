"""`kubectl headroom explain pod NAME`."""

import json
from datetime import datetime
from typing import Any

import pytest
import yaml

from crds.names import MID_CPU, MID_MEMORY
from headroom.kube import ApiError
from kubectl_headroom import live
from kubectl_headroom.errors import CommandError
from kubectl_headroom.pod.inputs import History, PodSnapshot, State
from kubectl_headroom.pod.text import _use
from tests.kubectl_headroom import recording
from tests.kubectl_headroom.quota_site import GPU, cluster, explain_pod, gpus, machine, put, quota, story
from tests.scheduler_plugins.objects import NOW, Json, at, pod
from tests.support.api import FakeApi

CONFIG = "/api/v1/namespaces/headroom-system/configmaps/slo-controller-config"


def _recorded() -> FakeApi:
    """The recorded nodes, their reports, pods and config."""
    api = cluster()
    recording.put_recorded(api)
    return api


async def test_pod_that_its_quota_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    """A pending pod: what kube-scheduler says, the quota's sentence, who would be evicted, and what to run next."""
    await explain_pod(cluster(*story()), "b", "b2")
    out = capsys.readouterr().out
    assert out.startswith("Pod b/b2 waits for a node")
    assert "- kube-scheduler: Unschedulable." in out
    assert "- ElasticQuota b/qb: nvidia.com/gpu used by all quotas 9 + requested 3 > sum of min 10" in out
    assert "- The rules would have 1 pod evicted for it" in out
    assert "let it go to 0 of 1 nodes; refused by CapacityScheduling: ElasticQuota b/qb" in out
    assert "kubectl headroom explain quota qb -n b" in out
    assert "Who would be evicted" in out


async def test_pod_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """A running pod: its usage and request, its charge, and the best node for it now."""
    await explain_pod(_recorded(), "shop", "search", now=recording.NOW)
    out = capsys.readouterr().out
    assert out.startswith("Pod shop/search runs on node web-1")
    assert "- It uses 2000m of 3000m CPU and 7.7Gi of 8Gi memory that it requests (reported 1m ago)." in out
    assert "kubectl headroom explain node web-1" in out
    assert "this pod is here; LoadAwareScheduling: cpu: an estimate of " in out
    assert "Its scheduler default-scheduler ignores load and quotas; headroom-scheduler" in out


NODES, ALL_PODS = "LIST /api/v1/nodes", "LIST /api/v1/pods"
REPORTS = "LIST /apis/slo.koordinator.sh/v1alpha1/nodemetrics"
ALL_QUOTAS = "LIST /apis/scheduling.x-k8s.io/v1alpha1/elasticquotas"


@pytest.mark.parametrize(
    ("denied", "says", "silent"),
    [
        ([NODES, REPORTS, ALL_PODS, ALL_QUOTAS], "Nodes", ["let it go to"]),
        ([ALL_PODS], "This login may not list Pods of all namespaces: ", []),
        ([NODES], "This login may not list Nodes: ", ["let it go to"]),
    ],
)
async def test_tenant_learns_why_its_pod_waits(
    denied: list[str], says: str, silent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """With a tenant's rights: kube-scheduler's message, the namespace's quota by its status, and the missing kinds."""
    api = cluster(*story())
    for path in denied:
        api.fails[path] = ApiError(403, "Forbidden", "no")
    await explain_pod(api, "b", "b2")
    out = capsys.readouterr().out
    assert "- kube-scheduler: Unschedulable." in out
    assert "- ElasticQuota b/qb by its status: nvidia.com/gpu 3 in use, min 6, max " in out
    assert says in out
    assert "headroom-tenant" in out
    assert not [text for text in [*silent, "is gone", "sum of min"] if text in out]


async def test_pod_of_another_scheduler(capsys: pytest.CaptureFixture[str]) -> None:
    """For a pod of another scheduler, the plugins' lines begin with the required schedulerName."""
    await explain_pod(_recorded(), "shop", "search", now=recording.NOW)
    out = capsys.readouterr().out
    assert "- If headroom-scheduler placed it, its plugins would let it go to " in out
    assert "- If headroom-scheduler placed it now, its node" in out
    assert "The scheduler's plugins let it" not in out
    await explain_pod(cluster(*story()), "b", "b2")
    out = capsys.readouterr().out
    assert "- The scheduler's plugins let it go to 0 of 1 nodes" in out
    assert "placed it" not in out


def _waiting_mid(**conditions: tuple[str, str]) -> FakeApi:
    """A Mid pod that waits; nodes without Mid resources of which the manager says (reason, message)."""
    api = cluster(*(machine(name, 4) for name in ("n1", "n2", "n3")))
    for name, (reason, message) in conditions.items():
        texts = {"type": "MidPublished", "status": "False", "reason": reason, "message": message}
        cold = {"type": "PredictionReady", "status": "False", "reason": "ColdStart"}
        metric = {"metadata": {"name": name}, "spec": {}, "status": {"conditions": [cold, texts]}}
        api.put(f"{live.NODE_METRICS}/{name}", metric)
    waits = pod(
        "m", {MID_CPU: "1000", MID_MEMORY: "1Gi", "cpu": "0", "memory": "0"}, schedulerName="headroom-scheduler"
    )
    message = "0/3 nodes are available: 3 Insufficient kubernetes.io/mid-cpu."
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    put(api, waits | {"status": {"phase": "Pending", "conditions": [refused]}})
    return api


DISABLED = "Colocation is disabled for this node: set enable to true to publish Mid resources."


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (
            {"n1": ("NoReport", ""), "n3": ("ColocationDisabled", DISABLED), "n2": ("ColocationDisabled", DISABLED)},
            (
                "No node of 3 has Mid resources. The commonest reason (2 of 3) is ColocationDisabled: Colocation is "
                "disabled for this node: set enable to true to publish Mid resources. `kubectl headroom explain "
                "node n2` has details."
            ),
        ),
        (
            {"n1": ("NoReport", "")},
            (
                "No node of 3 has Mid resources. The commonest reason (1 of 3) is NoReport. `kubectl headroom "
                "explain node n1` has details."
            ),
        ),
        (
            {},
            ("No node of 3 has Mid resources, and none has the condition MidPublished: run `kubectl headroom doctor`."),
        ),
    ],
)
async def test_mid_pod_that_fits_no_node(
    capsys: pytest.CaptureFixture[str], conditions: dict[str, tuple[str, str]], expected: str
) -> None:
    """A pending Mid pod without a node that publishes Mid says why, right after kube-scheduler's message."""
    await explain_pod(_waiting_mid(**conditions), "default", "m")
    out = capsys.readouterr().out.splitlines()
    assert out[1] == "- kube-scheduler: 0/3 nodes are available: 3 Insufficient kubernetes.io/mid-cpu."
    assert out[2] == f"- {expected}"


async def test_mid_pod_pending_for_resources(capsys: pytest.CaptureFixture[str]) -> None:
    """Where nodes publish Mid resources, a pending Mid pod shows their number, and where the amounts are."""
    api = _waiting_mid(n1=("ColocationDisabled", DISABLED))
    for name, published in (("n4", "500"), ("n5", "0")):
        made = machine(name, 4)
        made["status"]["allocatable"] |= {MID_CPU: published, MID_MEMORY: "0"}
        put(api, made)
    await explain_pod(api, "default", "m")
    out = capsys.readouterr().out
    assert "- 1 of 5 nodes have Mid resources: `kubectl headroom top nodes` shows how much" in out
    assert "ColocationDisabled" not in out


async def test_pod_whose_container_cannot_start(capsys: pytest.CaptureFixture[str]) -> None:
    """A pod that has a node and does not run: what kubelet says of the container that holds it up, and of no other."""
    api = _recorded()
    stuck = recording.named("pods", "search")
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image shop/search:2"}
    stuck["status"] |= {
        "phase": "Pending",
        "initContainerStatuses": [{"name": "first", "state": {"waiting": {"reason": "PodInitializing"}}}],
        "containerStatuses": [{"name": "app", "state": {"waiting": waiting}}],
    }
    put(api, stuck)
    await explain_pod(api, "shop", "search", now=recording.NOW)
    out = capsys.readouterr().out.splitlines()
    assert "and does not run yet" in out[0]
    assert out[1] == "- Container app does not start, ImagePullBackOff: Back-off pulling image shop/search:2."
    assert "Container first" not in "\n".join(out)


async def test_mid_pod(capsys: pytest.CaptureFixture[str]) -> None:
    """A Mid pod's amounts are its Mid resources, and whether its node still publishes them."""
    await explain_pod(_recorded(), "shop", "nightly-report", now=recording.NOW)
    out = capsys.readouterr().out
    assert "- It is a Mid pod (it requests Mid resources)" in out
    assert "- Node web-1 has what its Mid pods requested." in out
    assert ["mid-cpu", "3000m", "3000m", "2000m", "67%"] in [line.split() for line in out.splitlines()]


async def test_mid_pod_in_a_deficit(capsys: pytest.CaptureFixture[str]) -> None:
    """Where its node has published too much, a Mid pod says whether it would go."""
    api = _recorded()
    metric = recording.named("nodeMetrics", "web-1")
    metric["status"]["prodReclaimableMetric"] = {"resource": {"resources": {"cpu": "0", "memory": "0"}}}
    api.put(f"{live.NODE_METRICS}/web-1", metric)
    config = recording.recorded("configMap")
    config["data"]["colocation-config"] = json.dumps(
        {"enable": True, "midUnallocatedPercent": 0, "midEviction": {"mode": "on"}}
    )
    api.put(CONFIG, config)
    await explain_pod(api, "shop", "nightly-report", now=recording.NOW)
    out = capsys.readouterr().out
    assert "more than may be published now: " in out
    await explain_pod(api, "shop", "nightly-report", "json", now=recording.NOW)
    assert json.loads(capsys.readouterr().out)["node"]["midDeficit"]["cpuMilli"] == 3000


async def test_gated_pod(capsys: pytest.CaptureFixture[str]) -> None:
    """A pod with scheduling gates says which."""
    gated = gpus("b", "b3", 1, schedulingGates=[{"name": "example.com/wait"}])
    await explain_pod(cluster(*story(), gated), "b", "b3")
    out = capsys.readouterr().out
    assert out.startswith("Pod b/b3 is held back by scheduling gates")
    assert "- Scheduling gates block the pod: example.com/wait (spec.schedulingGates)." in out


async def test_pod_without_scheduling_condition(capsys: pytest.CaptureFixture[str]) -> None:
    """A pending pod without a condition of its scheduler asks the reader to check that scheduler."""
    silent = gpus("b", "b3", 1)
    silent["status"] = {"phase": "Pending"}
    await explain_pod(cluster(*story(), silent), "b", "b3")
    assert "- Scheduler headroom-scheduler has not reported on it yet: check that it runs." in capsys.readouterr().out


async def test_pod_that_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """A pod that has ended says how, and nothing is read of a scheduler for it."""
    ended = gpus("b", "b3", 1, "n1")
    ended["status"] |= {"phase": "Failed", "reason": "Evicted", "message": "Mid resources ran short."}
    api = cluster(*story(), ended)
    await explain_pod(api, "b", "b3")
    out = capsys.readouterr().out
    assert out.startswith("Pod b/b3 has ended on node n1: Failed\n- Evicted: Mid resources ran short.\n")
    assert not any(path == live.NODE_METRICS for _, path, _ in api.calls)


async def test_without_quotas(capsys: pytest.CaptureFixture[str]) -> None:
    """In a namespace without a quota nothing limits a pod, and the text says so."""
    await explain_pod(cluster(machine("n1", 4), gpus("free", "p", 1, "n1")), "free", "p")
    assert "- Its namespace has no ElasticQuota: no quota is charged for it" in capsys.readouterr().out


async def test_document(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has every part, with units in the names; YAML the same; wide the same sentences as the table."""
    await explain_pod(cluster(*story()), "b", "b2", "json")
    result: Any = json.loads(capsys.readouterr().out)
    assert (result["kind"], result["version"]) == ("PodExplanation", 1)
    assert result["pod"]["state"] == "waits"
    assert result["pod"]["node"] is None
    assert result["quota"]["quota"] == "b/qb"
    assert result["placement"]["nodes"] == 1
    assert result["placement"]["passing"] == 0
    assert list(result["placement"]["refusals"]) == ["n1"]
    assert result["node"] is None
    await explain_pod(cluster(*story()), "b", "b2", "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == result
    await explain_pod(cluster(*story()), "b", "b2", "wide")
    texts = [line[2:] for line in capsys.readouterr().out.splitlines() if line.startswith("- ")]
    assert texts[: len(result["sentences"])] == result["sentences"]


async def test_best_nodes_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Of many nodes the best five are listed and the pod's own; -o wide lists all."""
    nodes = [machine(f"n{number}", 4) for number in range(9)]
    api = cluster(*nodes, quota("a", {GPU: 9}), gpus("a", "p", 1, "n8"))
    await explain_pod(api, "a", "p")
    assert "evaluate them now (3 more with -o wide)" in capsys.readouterr().out
    await explain_pod(api, "a", "p", "wide")
    shown = capsys.readouterr().out.partition("Nodes, as")[2]
    assert {line.split()[1] for line in shown.splitlines()[2:]} == {f"n{number}" for number in range(9)}


async def test_unknown_pod() -> None:
    """A pod that does not exist is answered with names that are close."""
    with pytest.raises(CommandError, match=r"There is no pod 'b22' in namespace b. Did you mean b2"):
        await explain_pod(cluster(*story()), "b", "b22")


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}, State.RUNS),
        ({"status": {"phase": "Pending"}, "spec": {"nodeName": "n"}}, State.STARTS),
        ({"status": {"phase": "Succeeded"}, "spec": {"nodeName": "n"}}, State.ENDED),
        ({"status": {"phase": "Pending"}, "spec": {}}, State.WAITS),
        ({"metadata": {"deletionTimestamp": at(0)}, "spec": {"nodeName": "n"}}, State.TERMINATING),
    ],
)
def test_states(changes: Json, state: State) -> None:
    """A pod's state follows from its node, its phase, and its deletion timestamp."""
    assert PodSnapshot(changes, NOW).state is state


def test_history_as_far_as_requested() -> None:
    """Ten cold pods are named at most: of a pod that is not among them nothing is known unless all are named."""
    search = recording.named("pods", "search")
    metric = recording.named("nodeMetrics", "web-1")

    def history(**pods: Any) -> History:  # noqa: ANN401 - `status.prediction.pods`
        metric["status"]["prediction"]["pods"] = pods
        node = recording.explained("web-1", node_metric=metric)
        return PodSnapshot(search, recording.NOW, node).history

    assert history(warm=1, cold=1, coldNames=["shop/search"]) is History.COLD
    assert history(warm=1, cold=1, coldNames=["shop/cart"]) is History.WARM
    assert history(warm=1, cold=11, coldNames=["shop/cart"]) is History.UNKNOWN


def test_held_back_pod_has_a_reason() -> None:
    """A pod with memory held back is not called cold: its history is long enough."""
    metric = recording.named("nodeMetrics", "web-1")
    metric["status"]["prediction"]["pods"] = {"warm": 1, "cold": 1, "coldNames": ["shop/search"]}
    metric["status"]["podsMetric"] = [{"namespace": "shop", "name": "search", "podUsage": {"resources": {"cpu": "1"}}}]

    def sentences() -> str:
        node = recording.explained("web-1", node_metric=metric)
        return " ".join(_use(PodSnapshot(recording.named("pods", "search"), recording.NOW, node)))

    assert "It is cold" in sentences()
    metric["status"]["prediction"]["pods"]["heldBackNames"] = ["shop/search"]
    assert "exceeds memory.high or is in swap" in sentences()
    assert "It is cold" not in sentences()


def test_mid_amounts() -> None:
    """A Mid pod's requests are its Mid resources."""
    made = pod("m", {MID_CPU: "3000", MID_MEMORY: "4Gi", "cpu": "0", "memory": "0"}, node="n")
    observed = PodSnapshot(made, datetime.now().astimezone().timestamp())
    assert (observed.is_mid, observed.requested.cpu_milli, observed.requested.memory_bytes) == (True, 3000, 4 * 2**30)
