from typing import Any

import pytest

from agent.host.cgroup import PodCgroup
from agent.pods import PodRef, pod_of_cgroup, pod_ref
from crds.priority import PriorityBand, QoS

CART = PodRef(
    "u-1", "shop", "cart-5d4f-x", PriorityBand.PROD, QoS.LS, {"cpu": 250, "memory": 64 << 20}, {}, "koord-prod",
    workload="shop/ReplicaSet/cart", created=1768464000.0, cgroup_uid="u-1",
)  # fmt: skip
MIRROR = {"kubernetes.io/config.hash": "f0e1", "kubernetes.io/config.mirror": "f0e1"}
NODE = {"apiVersion": "v1", "kind": "Node", "name": "worker", "controller": True}


def read(metadata: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, phase: str = "Running") -> PodRef:
    meta = {
        "uid": "u-1",
        "namespace": "shop",
        "name": "cart-5d4f-x",
        "creationTimestamp": "2026-01-15T08:00:00Z",
        "labels": {"pod-template-hash": "5d4f"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "cart-5d4f", "controller": True}],
    }
    containers = {"containers": [{"resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}]}
    pod = {"metadata": {**meta, **(metadata or {})}, "spec": {**containers, **(spec or {})}, "status": {"phase": phase}}
    return pod_ref(pod)


def test_pod_is_reduced_for_the_agent() -> None:
    assert read() == CART


def test_containers_are_known_by_the_ids_in_the_status() -> None:
    started = {"containerStatuses": [{"containerID": "containerd://0a1b"}, {"name": "waiting"}]}
    status = {**started, "initContainerStatuses": [{"containerID": "cri-o://2c3d"}]}
    pod = {"metadata": {"uid": "u-1"}, "spec": {"containers": []}, "status": status}
    assert pod_ref(pod).containers == {"0a1b", "2c3d"}
    assert read().containers == frozenset()


def test_mirror_pod_has_the_cgroup_of_its_static_pod() -> None:
    """Annotations that a user writes on a pod do not move it."""
    on_worker = {"nodeName": "worker"}
    mirror = read({"annotations": MIRROR, "ownerReferences": [NODE]}, on_worker)
    forged = read({"annotations": MIRROR}, on_worker)
    assert [(entry.uid, entry.cgroup_uid) for entry in (forged, mirror)] == [("u-1", "u-1"), ("u-1", "f0e1")]


@pytest.mark.parametrize(
    ("phase", "running", "terminal"), [("Pending", False, False), ("Succeeded", False, True), ("Failed", False, True)]
)
def test_only_a_running_pod_must_have_a_cgroup(phase: str, *, running: bool, terminal: bool) -> None:
    result = read(phase=phase)
    assert (result.running, result.terminal) == (running, terminal)


def test_mid_request_makes_mid() -> None:
    """Whatever the label says."""
    amounts = {"kubernetes.io/mid-cpu": "100"}
    spec = {"containers": [{"resources": {"requests": amounts, "limits": amounts}}]}
    assert read({"labels": {"koordinator.sh/priority-class": "koord-prod"}}, spec).band is PriorityBand.MID


@pytest.mark.parametrize(
    ("metadata", "spec", "named"),
    [
        ({"uid": ""}, {}, "metadata.uid is missing"),
        ({}, {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}, "lots"),
    ],
)
def test_errors_of_a_pod_are_named(metadata: dict[str, Any], spec: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        read(metadata, spec)


@pytest.mark.parametrize(
    ("folder", "band", "qos"),
    [
        ("Guaranteed", PriorityBand.PROD, QoS.LSR),
        ("Burstable", PriorityBand.PROD, QoS.LS),
        ("BestEffort", PriorityBand.BATCH, QoS.BE),
    ],
)
def test_pod_of_a_cgroup_has_the_tier_of_its_folder(folder: str, band: PriorityBand, qos: QoS) -> None:
    result = pod_of_cgroup(PodCgroup("u", f"kubepods/{folder}/podu", folder))
    assert (result.uid, result.band, result.qos, result.requests) == ("u", band, qos, {})
