"""The fields that distinguish pods, and the node groups of their soft constraints."""

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.names import ANNOTATION_ESTIMATED_SCALING_FACTORS
from headroom.cluster.typed_pod import typed_pod
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.snapshot.pod_template import TemplateKeys
from scheduler_plugins.snapshot.preferences import NodeGroups, Preferences
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
def test_fields_that_distinguish_pods(change: Callable[[Json], None]) -> None:
    pod = _pod("x")
    changed = copy.deepcopy(pod)
    change(changed)
    assert TemplateKeys()(changed) != TemplateKeys()(pod)


def test_shared_readings_are_of_the_pod() -> None:
    world = World()
    first, second = _pod("first"), _pod("second")
    requests = [world.cache.read(entry) for entry in (first, second)]
    assert [request.uid for request in requests] == ["uid-first", "uid-second"]
    assert requests[0].estimate == requests[1].estimate == (1000, 209715200)
    second["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    assert world.cache.read(second).estimate == (3000, 209715200)
    world.cache.put_pod({**second, "spec": {**second["spec"], "nodeName": "n"}}, NOW)
    assert QuotaPod.from_json(copy.deepcopy(second)).charge["cpu"] == 3000
    assert QuotaPod.from_json(first).charge["cpu"] == 1000


SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
OWNED = {"ownerReferences": [{"kind": "ReplicaSet"}]}
LEAVING = {"key": "leaving", "value": "1", "effect": "PreferNoSchedule"}


def _spread(key: str, when: str = "ScheduleAnyway") -> dict[str, Any]:
    return {"topologySpreadConstraints": [{"topologyKey": key, "whenUnsatisfiable": when}]}


def _between_pods(kind: str, key: str) -> dict[str, Any]:
    return {"affinity": {kind: {SOFT: [{"weight": 1, "podAffinityTerm": {"topologyKey": key}}]}}}


def _prefers(**weights: int) -> dict[str, Any]:
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
        for key, weight in weights.items()
    ]
    return {"affinity": {"nodeAffinity": {SOFT: terms}}}


@pytest.mark.parametrize(
    ("metadata", "spec", "topology_keys", "per_node"),
    [
        ({}, {}, (), False),
        (OWNED, {}, (ZONE,), False),  # kube-scheduler spreads it by default
        ({}, _spread("rack"), ("rack", ZONE), False),
        ({}, _spread("rack", "DoNotSchedule"), (), False),
        ({}, _spread(HOST), (ZONE,), True),
        ({}, _between_pods("podAffinity", "rack"), ("rack", ZONE), False),
        ({}, _between_pods("podAntiAffinity", HOST), (ZONE,), True),
        ({}, _prefers(ssd=1), (ZONE,), False),
        (
            {"ownerReferences": None},
            {"affinity": None, "tolerations": None, "topologySpreadConstraints": None},
            (),
            False,
        ),
    ],
)
def test_reads_a_pod(metadata: Any, spec: Any, topology_keys: tuple[str, ...], per_node: bool) -> None:  # noqa: ANN401, FBT001
    result = Preferences.of({"metadata": metadata, "spec": spec})
    assert (result.topology_keys, result.per_node) == (topology_keys, per_node)


def _node(name: str, taints: list[Any] | None = None, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {ZONE if key == "zone" else key: each for key, each in labels.items()}},
        "spec": {"taints": taints},
    }


def _cluster(*nodes: dict[str, Any]) -> tuple[NodeGroups, np.ndarray[Any, Any]]:
    groups = NodeGroups()
    return groups, np.array([groups.put(node) for node in nodes])


def test_groups_by_zone_and_term() -> None:
    groups, ids = _cluster(
        _node("a", zone="1"),
        _node("b", zone="1", ssd=""),
        _node("c", zone="2"),
        _node("d", zone="1", gpu="", ssd=""),
        _node("e", zone="1"),
        _node("f"),
    )
    result = groups.of(Preferences.of({"spec": _prefers(ssd=10, gpu=5)}), ids)
    assert result.numbers.tolist() == [0, 1, 2, 3, 0, 4]
    assert result.weights.tolist() == [0, 10, 0, 15, 0, 0]


def test_without_preferences_all_are_alike() -> None:
    groups, ids = _cluster(_node("a", zone="1"), _node("b", zone="2"))
    assert groups.of(Preferences(), ids).numbers.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("toleration", "avoided"),
    [
        (None, [True, False, False]),
        ({"operator": "Exists"}, [False, False, False]),
        ({"key": "leaving", "value": "1", "effect": "PreferNoSchedule"}, [False, False, False]),
        ({"key": "leaving", "value": "2"}, [True, False, False]),
        ({"key": "leaving", "operator": "Exists", "effect": "NoSchedule"}, [True, False, False]),
    ],
)
def test_soft_taints(toleration: Any, avoided: list[bool]) -> None:  # noqa: ANN401 - JSON
    groups, ids = _cluster(_node("a", [LEAVING]), _node("b", [{**LEAVING, "effect": "NoSchedule"}]), _node("c"))
    pod = {"spec": {"tolerations": [toleration] if toleration else []}}
    assert groups.of(Preferences.of(pod), ids).avoided.tolist() == avoided


def test_follows_changes() -> None:
    groups, ids = _cluster(_node("a", zone="1"), _node("b", zone="1"))
    by_zone = Preferences.of({"metadata": OWNED})
    assert groups.of(by_zone, ids).numbers.tolist() == [0, 0]
    assert groups.put(_node("b", zone="2")) == ids[1]
    assert groups.of(by_zone, ids).numbers.tolist() == [0, 1]
    groups.delete("a")
    ids = np.array([groups.put(_node("c", zone="2")), ids[1], *(groups.put(_node(f"n{index}")) for index in range(9))])
    assert groups.of(by_zone, ids).numbers.tolist() == [1, 1, *[2] * 9]


@given(st.integers(0, 2**32))
def test_groups_follow_random_changes(seed: int) -> None:
    """NodeGroups returns the groups of a new NodeGroups with the present nodes."""
    lot, groups, nodes = random.Random(seed), NodeGroups(), dict[str, dict[str, Any]]()  # noqa: S311 - a repeatable test
    kinds = [Preferences.of({"metadata": OWNED, "spec": spec}) for spec in ({}, _prefers(ssd=10))]
    ids: dict[str, int] = {}
    for _ in range(30):
        name = lot.choice("abcdefgh")
        if lot.random() < 0.3 and name in nodes:
            groups.delete(name)
            del nodes[name], ids[name]
        else:
            labels = {"zone": lot.choice("12"), lot.choice(["ssd", "gpu"]): ""}
            nodes[name] = _node(name, [LEAVING] if lot.random() < 0.1 else None, **labels)
            ids[name] = groups.put(nodes[name])
        some = lot.sample(sorted(nodes), lot.randrange(len(nodes) + 1))
        kind = lot.choice(kinds)
        present = groups.of(kind, np.array([ids[name] for name in some], np.int64))
        rebuilt, new_ids = _cluster(*(nodes[name] for name in some))
        expected = rebuilt.of(kind, new_ids.astype(np.int64))
        assert present.weights.tolist() == expected.weights.tolist()
        assert present.avoided.tolist() == expected.avoided.tolist()
        assert present.even == expected.even
        pairs = set(zip(present.numbers.tolist(), expected.numbers.tolist(), strict=True))
        assert len({old for old, _ in pairs}) == len({new for _, new in pairs}) == len(pairs)
