"""The charge of a pod, and the stored part of the pod."""

from typing import Any, Final

import pytest

from crds.names import ANNOTATION_ESTIMATED_SECONDS_AFTER_SCHEDULED as SECONDS
from headroom.cluster.typed_pod import typed_pod
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.quota.charge import Charging, charge_of, reserved_requests
from scheduler_plugins.quota.pod import QuotaPod
from tests.scheduler_plugins.objects import Json
from tests.scheduler_plugins.quota.objects import GPU, pod


def _container(name: str, **requests: str) -> Json:
    return {"name": name, "resources": {"requests": requests}}


@pytest.mark.parametrize(
    ("spec", "charge"),
    [
        pytest.param({}, {"cpu": 1000}, id="one container"),
        pytest.param({"overhead": {"cpu": "250m", "memory": "1Ki"}}, {"cpu": 1250, "memory": 1024}, id="overhead"),
        pytest.param({"initContainers": [_container("i", cpu="3", memory="5")]}, {"cpu": 3000, "memory": 5}, id="init"),
        pytest.param(
            {"initContainers": [_container("i", cpu="2"), _container("j", cpu="2")]}, {"cpu": 2000}, id="two inits"
        ),
        pytest.param(
            {"initContainers": [_container("i", cpu="2")], "overhead": {"cpu": "1"}}, {"cpu": 3000}, id="init, overhead"
        ),
        pytest.param({"containers": [_container("a", cpu="100100u")]}, {"cpu": 101}, id="rounded up"),
        pytest.param({"containers": [_container("a", **{GPU: "0"})]}, {GPU: 0}, id="a scalar of 0 is named"),
        pytest.param({"containers": [_container("a", **{"requests.cpu": "1", "storage": "5"})]}, {}, id="no resources"),
        pytest.param({"containers": [{"name": "a"}, {"name": "b", "resources": None}]}, {}, id="nothing stated"),
    ],
)
def test_charge(spec: dict[str, Any], charge: dict[str, int]) -> None:
    """The charge is the larger of all containers and any init container, plus overhead; in integers, rounded up."""
    assert charge_of(pod("p", **spec)) == charge


def test_resize_of_a_sidecar() -> None:
    sidecar = {**_container("s", cpu="1"), "restartPolicy": "Always"}
    item = pod("p", requests={"cpu": "1"}, initContainers=[sidecar, _container("i", cpu="1")])
    item["status"]["initContainerStatuses"] = [
        {"name": "s", "resources": {"requests": {"cpu": "3"}}},
        {"name": "i", "resources": {"requests": {"cpu": "9"}}},
    ]
    assert charge_of(item) == {"cpu": 3000}
    assert reserved_requests(item) == {"cpu": 4000, "pods": 1}


def test_resize_of_the_whole_pod() -> None:
    item = pod("p", requests={"cpu": "100m"}, resources={"requests": {"cpu": "1"}})
    item["status"]["resources"] = {"requests": {"cpu": "3", "memory": "1Gi"}}
    item["status"]["allocatedResources"] = {"cpu": "2"}
    assert reserved_requests(item) == {"cpu": 3000, "pods": 1}


@pytest.mark.parametrize(
    ("spec", "by_containers", "by_scheduler"),
    [
        ({"containers": [_container("c", cpu="1")]}, {"cpu": 1000}, {"cpu": 1000}),
        (
            {"containers": [_container("c", cpu="1")], "resources": {"requests": {"cpu": "3"}}},
            {"cpu": 1000},
            {"cpu": 3000},
        ),
        (
            {
                "containers": [_container("c", cpu="1")],
                "initContainers": [{**_container("s", cpu="2"), "restartPolicy": "Always"}],
            },
            {"cpu": 2000},
            {"cpu": 3000},
        ),
    ],
)
def test_charge_of_sidecars_and_pod_requests(spec: Json, by_containers: Json, by_scheduler: Json) -> None:
    """By default pod-level requests and sidecars are not charged, as upstream; with `scheduler` they are."""
    item = {"metadata": {"uid": "u"}, "spec": {"containers": [_container("c", cpu="1")], **spec}}
    assert QuotaPod.from_json(item).charge == {**by_containers, "pods": 1}
    assert QuotaPod.from_json(item, Charging.SCHEDULER).charge == {**by_scheduler, "pods": 1}
    plugin = CapacityScheduling(charge=Charging.SCHEDULER)
    assert plugin.facts(item).charge == {**by_scheduler, "pods": 1}
    assert plugin.new_state().read(item).charge == {**by_scheduler, "pods": 1}


def test_ports_of_lasting_containers() -> None:
    def container(port: int, **more: str) -> Json:
        return {"ports": [{"containerPort": port, "hostPort": port}, {"containerPort": 1}], **more}

    spec = {"containers": [container(1)], "initContainers": [container(2), container(3, restartPolicy="Always")]}
    pod = QuotaPod.from_json({"metadata": {"uid": "u"}, "spec": spec})
    assert {port for _, _, port in pod.host_ports} == {1, 3}


BULK: Final[Json] = {
    "command": ["serve"],
    "args": ["--all"],
    "env": [{"name": "A", "value": "x" * 1000}],
    "envFrom": [{"configMapRef": {"name": "settings"}}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    "livenessProbe": {"httpGet": {"port": 80}},
    "readinessProbe": {"httpGet": {"port": 80}},
    "startupProbe": {"httpGet": {"port": 80}},
    "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
}


def waiting(bulk: Json, **metadata: Any) -> Json:  # noqa: ANN401 - JSON
    container = {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, "ports": [{"hostPort": 80}]}
    named: Json = {"name": "p", "namespace": "a", "uid": "u", "resourceVersion": "7", "annotations": {SECONDS: "60"}}
    named["ownerReferences"] = [{"kind": "Job", "name": "j", "controller": True}]
    image = {"image": "i"} if bulk else {}
    spec: Json = {
        "schedulerName": "ours",
        "nodeSelector": {"zone": "x"},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "initContainers": [{"name": "init", **container, "restartPolicy": "Always", **bulk}],
        "containers": [{"name": "main", **image, **container, **bulk}],
    }
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"metadata": {**named, **metadata}, "spec": spec, "status": {"conditions": [refused]}}


def test_waiting_pod_is_kept_without_bulk() -> None:
    pod = waiting(BULK, managedFields=[{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}])
    pod["metadata"]["annotations"]["example.com/notes"] = "x" * 1000

    assert QuotaPod.from_json(typed_pod(pod)).json == waiting({}, labels={})


def test_bound_pod_stores_no_bulk() -> None:
    pod = waiting({})
    pod["spec"]["nodeName"] = "n1"

    assert QuotaPod.from_json(pod).json is None
