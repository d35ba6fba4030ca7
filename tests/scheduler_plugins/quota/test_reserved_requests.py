"""What kube-scheduler sets aside for pods, in words of its own tests (component-helpers, PodRequests)."""

from typing import Any

import pytest

from scheduler_plugins.quota.charge import reserved_requests
from scheduler_plugins.quota.pod import QuotaPod

Json = dict[str, Any]


def _resources(cpu: str) -> Json:
    return {"requests": {"cpu": cpu}}


def _pod(asked: str, has: str | None, promised: str | None = None, **more: Any) -> Json:  # noqa: ANN401 - of a pod
    """A pod with one container; `has` None: its status says nothing of resources."""
    status: Json = {"name": "main"}
    if has is not None:
        status["resources"] = _resources(has)
    if promised is not None:
        status["allocatedResources"] = {"cpu": promised}
    container = {"name": "main", "resources": _resources(asked)}
    return {"spec": {"containers": [container]}, "status": {"containerStatuses": [status], **more}}


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "reason": "Deferred"}]}


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        (_pod("1", None), 1000),  # not started, or an old kubelet
        (_pod("1", "1000m", "1"), 1000),  # no resize: the same in other words
        (_pod("500m", "1", "1"), 1000),  # shrinks: counts until it has shrunk
        (_pod("500m", "1", "500m"), 1000),  # promised, not in effect yet
        (_pod("2", "1", "1"), 2000),  # grows: counts from when it is asked for
        (_pod("2", "1", "1", **DEFERRED), 2000),  # waits for room
        (_pod("2", "1", "1500m", **INFEASIBLE), 1500),  # will not be
        (_pod("2", None, "1"), 2000),  # kube-scheduler looks at what is promised beside what is in effect alone
    ],
)
def test_resizes_count(pod: Json, cpu: int) -> None:
    """The largest of asked for, in effect and promised counts, but for what is infeasible."""
    assert reserved_requests(pod) == {"cpu": cpu, "pods": 1}


def test_sidecars_are_resized() -> None:
    """A sidecar counts as it is in effect; an init container that ends as it is asked for."""
    sidecar = {"name": "side", "restartPolicy": "Always", "resources": _resources("100m")}
    ending = {"name": "init", "resources": _resources("100m")}
    for container, cpu in ((sidecar, 1700), (ending, 1000)):
        pod = _pod("1", "1", "1")
        pod["spec"]["initContainers"] = [container]
        pod["status"]["initContainerStatuses"] = [{"name": container["name"], "resources": _resources("700m")}]
        assert reserved_requests(pod)["cpu"] == cpu


def test_pods_are_resized_as_a_whole() -> None:
    """Requests of the pod itself count as in effect, for the resources that it names."""
    pod = _pod("100m", "100m", "100m")
    pod["spec"]["resources"] = _resources("1")
    pod["status"]["resources"] = {"requests": {"cpu": "3", "memory": "1Gi"}}
    pod["status"]["allocatedResources"] = {"cpu": "2"}
    assert reserved_requests(pod) == {"cpu": 3000, "pods": 1}


def test_ports_of_what_lasts() -> None:
    """Containers and sidecars take ports of the node, init containers that end do not."""

    def container(port: int, **more: str) -> Json:
        return {"ports": [{"containerPort": port, "hostPort": port}, {"containerPort": 1}], **more}

    spec = {"containers": [container(1)], "initContainers": [container(2), container(3, restartPolicy="Always")]}
    pod = QuotaPod.from_json({"metadata": {"uid": "u"}, "spec": spec})
    assert {port for _, _, port in pod.host_ports} == {1, 3}
