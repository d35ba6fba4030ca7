"""What is kept of a pod."""

from typing import Any, Final

from crds.names import ANNOTATION_ESTIMATED_SECONDS_AFTER_SCHEDULED as SECONDS
from headroom.cluster.typed_pod import typed_pod
from scheduler_plugins.quota.pod import QuotaPod
from tests.scheduler_plugins.objects import Json

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
    asked = {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, "ports": [{"hostPort": 80}]}
    named: Json = {"name": "p", "namespace": "a", "uid": "u", "resourceVersion": "7", "annotations": {SECONDS: "60"}}
    named["ownerReferences"] = [{"kind": "Job", "name": "j", "controller": True}]
    image = {"image": "i"} if bulk else {}
    spec: Json = {
        "schedulerName": "ours",
        "nodeSelector": {"zone": "x"},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "initContainers": [{"name": "init", **asked, "restartPolicy": "Always", **bulk}],
        "containers": [{"name": "main", **image, **asked, **bulk}],
    }
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"metadata": {**named, **metadata}, "spec": spec, "status": {"conditions": [refused]}}


def test_waiting_pod_is_kept_without_bulk() -> None:
    """Of a pod that waits all is kept that may decide where it goes, and nothing that only takes memory."""
    pod = waiting(BULK, managedFields=[{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}])
    pod["metadata"]["annotations"]["example.com/notes"] = "x" * 1000

    assert QuotaPod.from_json(typed_pod(pod)).json == waiting({}, labels={})


def test_nothing_is_kept_of_a_bound_pod() -> None:
    pod = waiting({})
    pod["spec"]["nodeName"] = "n1"

    assert QuotaPod.from_json(pod).json is None
