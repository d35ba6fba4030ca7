"""Which pods count as the same when they are read."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from crds.names import ANNOTATION_ESTIMATED_SCALING_FACTORS
from headroom.cluster.typed_pod import typed_pod
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.snapshot.pod_template import TemplateKeys
from tests.scheduler_plugins.objects import NOW, Json, World, at

TOKEN = "kube-api-access-"  # noqa: S105 - a volume's name


def _pod(name: str, **status: Any) -> Json:  # noqa: ANN401 - any field of a PodStatus
    mounts: list[Any] = [
        {"name": "data", "mountPath": "/d"},
        {"name": f"{TOKEN}{name}", "mountPath": "/var/run/secrets"},
    ]
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}, "volumeMounts": mounts}
    volumes: list[Any] = [{"name": "data", "emptyDir": {}}, {"name": f"{TOKEN}{name}", "projected": {"sources": []}}]
    metadata: Json = {"namespace": "a", "name": name, "uid": f"uid-{name}", "labels": {"app": "web"}, "annotations": {}}
    metadata |= {"creationTimestamp": at(len(name)), "resourceVersion": name, "ownerReferences": [{"uid": "rs"}]}
    return typed_pod({"metadata": metadata, "spec": {"containers": [container], "volumes": volumes}, "status": status})


def _set(*path: Any) -> Callable[[Json], None]:  # noqa: ANN401 - keys and indices, then the value
    def change(pod: Json) -> None:
        target: Any = pod
        for step in path[:-2]:
            target = target[step]
        target[path[-2]] = path[-1]

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("metadata", "namespace", "b"),
        _set("metadata", "labels", {"app": "db"}),
        _set("metadata", "annotations", {ANNOTATION_ESTIMATED_SCALING_FACTORS: "{}"}),
        _set("metadata", "ownerReferences", []),
        _set("spec", "priority", 7),
        _set("spec", "nodeName", "n"),
        _set("spec", "volumes", 0, "name", "cache"),
        _set("spec", "containers", 0, "resources", {"requests": {"cpu": "2"}}),
        _set("spec", "initContainers", [{"name": "i"}]),
        _set("status", "phase", "Failed"),
        _set("status", "qosClass", "BestEffort"),
        _set("status", "containerStatuses", [{"name": "main", "allocatedResources": {"cpu": "2"}}]),
        _set("status", "resources", {"requests": {"cpu": "2"}}),
        _set("status", "conditions", [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]),
    ],
)
def test_what_sets_pods_apart(change: Callable[[Json], None]) -> None:
    pod = _pod("x")
    changed = copy.deepcopy(pod)
    change(changed)
    assert TemplateKeys()(changed) != TemplateKeys()(pod)


def test_shared_readings_are_of_the_pod() -> None:
    world = World()
    first, second = _pod("first"), _pod("second")
    requests = [world.cache.read(each) for each in (first, second)]
    assert [each.uid for each in requests] == ["uid-first", "uid-second"]
    assert requests[0].estimate == requests[1].estimate == (1000, 209715200)
    second["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    assert world.cache.read(second).estimate == (3000, 209715200)
    world.cache.put_pod({**second, "spec": {**second["spec"], "nodeName": "n"}}, NOW)
    assert QuotaPod.from_json(copy.deepcopy(second)).charge["cpu"] == 3000
    assert QuotaPod.from_json(first).charge["cpu"] == 1000
