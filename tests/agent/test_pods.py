"""Pods as the other stages see them."""

from typing import Any

import pytest

from agent.host.cgroup import PodCgroup
from agent.pods import pod_of_cgroup, pod_ref
from crds.priority import PriorityBand, QoS


def _pod(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    pod: dict[str, Any] = {
        "metadata": {
            "uid": "u-1",
            "namespace": "shop",
            "name": "cart-5d4f-x",
            "creationTimestamp": "2026-01-15T08:00:00Z",
            "labels": {"pod-template-hash": "5d4f"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "cart-5d4f", "controller": True}],
        },
        "spec": {"containers": [{"resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}]},
        "status": {"phase": "Running"},
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        part = pod
        for parent in parents:
            part = part.setdefault(parent, {})
        part[last] = value
    return pod


def test_pod_is_reduced() -> None:
    """A pod of the API becomes who it is, what it asked for, and where its cgroup is."""
    ref = pod_ref(_pod())
    assert (ref.uid, ref.namespace, ref.name, ref.cgroup_uid) == ("u-1", "shop", "cart-5d4f-x", "u-1")
    assert ref.requests == {"cpu": 250, "memory": 64 << 20}
    assert ref.limits == {}
    assert (ref.band, ref.qos, ref.priority_label) == (PriorityBand.PROD, QoS.LS, "koord-prod")
    assert ref.created == 1768464000.0
    assert ref.workload is not None
    assert ref.running
    assert not ref.terminal


def test_static_pod_runs_elsewhere() -> None:
    """A mirror pod's cgroup bears the config hash; what anybody writes on a pod of his own does not move it."""
    annotations = {"kubernetes.io/config.hash": "f0e1", "kubernetes.io/config.mirror": "f0e1"}
    owner = {"apiVersion": "v1", "kind": "Node", "name": "worker", "controller": True}
    forged = _pod(metadata__annotations=annotations, spec__nodeName="worker")
    mirror = _pod(metadata__annotations=annotations, spec__nodeName="worker", metadata__ownerReferences=[owner])
    assert [(ref.uid, ref.cgroup_uid) for ref in map(pod_ref, (forged, mirror))] == [("u-1", "u-1"), ("u-1", "f0e1")]


@pytest.mark.parametrize(
    ("phase", "running", "terminal"), [("Pending", False, False), ("Succeeded", False, True), ("Failed", False, True)]
)
def test_phases(phase: str, running: bool, terminal: bool) -> None:  # noqa: FBT001 - columns of a table
    """Only a running pod must have a cgroup; an ended one is not measured."""
    ref = pod_ref(_pod(status__phase=phase))
    assert (ref.running, ref.terminal) == (running, terminal)


def test_mid_request_makes_mid() -> None:
    """A pod that requests Mid resources counts as Mid whatever its label says."""
    container = {
        "resources": {"requests": {"kubernetes.io/mid-cpu": "100"}, "limits": {"kubernetes.io/mid-cpu": "100"}}
    }
    ref = pod_ref(_pod(spec__containers=[container], metadata__labels={"koordinator.sh/priority-class": "koord-prod"}))
    assert ref.band is PriorityBand.MID


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"metadata__uid": ""}, "shop/cart-5d4f-x has no metadata.uid"),
        ({"spec__containers": [{"resources": {"requests": {"cpu": "lots"}}}]}, "lots"),
    ],
)
def test_bad_pods_are_named(changes: dict[str, Any], named: str) -> None:
    """What is wrong with a pod is in the message."""
    with pytest.raises(ValueError, match=named):
        pod_ref(_pod(**changes))


@pytest.mark.parametrize(
    ("folder", "band", "qos"),
    [
        ("Guaranteed", PriorityBand.PROD, QoS.LSR),
        ("Burstable", PriorityBand.PROD, QoS.LS),
        ("BestEffort", PriorityBand.BATCH, QoS.BE),
    ],
)
def test_cgroup_tells_tier(folder: str, band: PriorityBand, qos: QoS) -> None:
    """Without the API a pod's tier is that of its QoS folder, and it requests nothing."""
    ref = pod_of_cgroup(PodCgroup("u", f"kubepods/{folder}/podu", folder))
    assert (ref.uid, ref.band, ref.qos, ref.requests) == ("u", band, qos, {})
