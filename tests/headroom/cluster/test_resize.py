"""Pods resized in place: their reserved and granted amounts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.pods import pod_ref
from headroom.cluster.pod import pod_limits, pod_requests
from headroom.cluster.resize import Resize, in_effect
from headroom.cluster.typed_pod import MalformedPod, typed_pod
from manager.inputs import PodInputs
from scheduler_plugins.quota.charge import charge_of
from scheduler_plugins.snapshot.estimate import LoadRules, estimate_pod, estimate_vector, pod_totals

Json = dict[str, Any]
INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


def _amounts(cpu: str | None) -> Json:
    return {} if cpu is None else {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}


def resized(requested: str | None, promised: str | None, has: str | None, **status: Any) -> Json:  # noqa: ANN401 - of a pod
    """A pod of one container; `has` None: its status has no amounts in effect."""
    state: Json = {"name": "main"}
    if has is not None:
        state["resources"] = _amounts(has)
    if promised is not None:
        state["allocatedResources"] = {"cpu": promised}
    return {
        "metadata": {"uid": "u", "namespace": "shop", "name": "cart"},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": _amounts(requested)}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [state], **status},
    }


@pytest.mark.parametrize(
    ("pod", "reserved_requests", "granted"),
    [
        (resized("1", None, None), 1000, 1000),  # not started, or an old kubelet
        (resized("1", "1", "1000m"), 1000, 1000),  # no resize
        (resized("64", "2", "2", **INFEASIBLE), 2000, 2000),
        (resized("64", "2", "2", **DEFERRED), 64000, 2000),
        (resized("64", "2", "2"), 64000, 2000),  # kubelet has not seen it yet
        (resized("64", "2", None), 64000, 2000),
        (resized("4", "4", "2"), 4000, 2000),  # promised, not in effect yet
        (resized("1", "4", "4"), 4000, 1000),  # shrinks
        (resized("1", "1", "4"), 4000, 1000),  # has been allowed to
        (resized("1", "2", "2", **INFEASIBLE), 2000, 1000),  # cannot shrink here
    ],
)
def test_resizes_count(pod: Json, reserved_requests: int, granted: int) -> None:
    """The largest amount is reserved, the smallest is granted; an infeasible amount is never reserved."""
    views = {view: pod_requests(pod, view)["cpu"] * 1000 for view in Resize}
    assert views == {Resize.SET_ASIDE: reserved_requests, Resize.GRANTED: granted}
    assert charge_of(pod)["cpu"] == reserved_requests


def test_everybody_counts_so() -> None:
    """64 cores requested on a node that can give 2: agent, manager, quotas and both load plugins count 2."""
    pod = resized("64", "2", "2", **INFEASIBLE)
    rules = LoadRules()
    assert (pod_ref(pod).requests, pod_ref(pod).limits) == ({"cpu": 2000}, {"cpu": 2000})
    assert PodInputs.from_object(pod).requests.cpu == 2000
    assert estimate_pod(pod, rules)["cpu"] == 1700
    assert estimate_vector(pod, rules)[rules.resources.index("cpu")] == 1700
    assert (pod_totals(pod, "requests")[0], pod_totals(pod, "limits")[0]) == (2000, 2000)
    pending = resized("64", "2", "2", **DEFERRED)
    assert pod_ref(pending).requests == {"cpu": 2000}  # the reclaimable part
    assert PodInputs.from_object(pending).requests.cpu == 64000  # reserved for it


def test_request_that_was_never_granted() -> None:
    """A request that the container did not have before is not granted before kubelet says so."""
    pod = resized("64", None, None)
    pod["status"]["containerStatuses"] = [{"name": "main", "allocatedResources": {"memory": "1Gi"}, "resources": {}}]
    pod["spec"]["containers"][0]["resources"]["requests"] |= {"example.com/gpu": "1", "memory": "1Gi"}
    assert pod_requests(pod, Resize.GRANTED) == {"memory": 1 << 30, "example.com/gpu": 1}
    assert pod_limits(pod, Resize.GRANTED) == {"cpu": 64}  # no limit in effect contradicts the requested one


def test_sidecars_and_init_containers() -> None:
    for more, cpu in (({"restartPolicy": "Always"}, 3), ({}, 5)):
        pod = resized("1", "1", "1")
        pod["spec"]["initContainers"] = [{"name": "first", "resources": _amounts("5"), **more}]
        pod["status"]["initContainerStatuses"] = [{"name": "first", "resources": _amounts("2")}]
        assert pod_requests(pod, Resize.GRANTED)["cpu"] == cpu


def test_pods_as_a_whole() -> None:
    """A pod-level request counts as granted to the pod, not to its containers."""
    pod = resized("1", "1", "1", resources=_amounts("2"), allocatedResources={"cpu": "2"}, **INFEASIBLE)
    pod["spec"]["resources"] = _amounts("64")
    for view in Resize:
        assert pod_requests(pod, view)["cpu"] == pod_limits(pod, view)["cpu"] == 2
    del pod["status"]["resources"], pod["status"]["allocatedResources"]
    assert pod_requests(pod, Resize.GRANTED)["cpu"] == 64


def test_no_resize_changes_nothing() -> None:
    """A pod that is not being resized is the very same object, so that 150,000 of them cost nothing."""
    for pod in (resized("1", "1", "1"), resized("1", None, None), resized(None, None, None), {}, {"status": None}):
        assert all(in_effect(pod, view) is pod for view in Resize)


_cpu = st.sampled_from([None, "0", "500m", "1", "2", "2000m", "64"])


@given(_cpu, _cpu, _cpu, st.sampled_from([{}, INFEASIBLE, DEFERRED]))
def test_granted_is_the_least(requested: str | None, promised: str | None, has: str | None, pending: Json) -> None:
    """The granted amount is never above the requested, promised, effective or reserved amount."""
    pod = resized(requested, promised, has, **pending)
    granted = pod_requests(pod, Resize.GRANTED).get("cpu", 0)
    for amount in (requested, promised, has):
        assert amount is None or granted <= pod_requests(resized(amount, None, None))["cpu"]
    assert granted <= pod_requests(pod).get("cpu", granted)


@pytest.mark.parametrize(
    ("status", "path"),
    [
        ({"containerStatuses": [{"name": "main", "resources": 7}]}, r"status\.containerStatuses\[0\]\.resources"),
        ({"containerStatuses": [{"allocatedResources": []}]}, r"status\.containerStatuses\[0\]\.allocatedResources"),
        ({"conditions": {"type": 1}}, r"status\.conditions"),
        ({"resources": {"requests": {"cpu": []}}}, r"status\.resources\.requests"),
    ],
)
def test_other_shapes_are_refused(status: Json, path: str) -> None:
    with pytest.raises(MalformedPod, match=path):
        typed_pod({"metadata": {"uid": "u"}, "status": status})
