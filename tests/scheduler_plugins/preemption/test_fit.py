"""The filters of the model of kube-scheduler, one by one; on_cluster compares with kube-scheduler itself."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling
from scheduler_plugins.preemption.constraints import CORDONED, OTHER_NODES, PORTS_TAKEN, TAINTED
from scheduler_plugins.preemption.fit import GONE, OTHER_NAME, TOO_MANY, FitModel
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.ignored import IgnoredResources
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.objects import NOW

Json = dict[str, Any]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE: Final = "zone"


def node(name: str = "n", labels: Mapping[str, str] | None = None, **spec: Any) -> Json:  # noqa: ANN401 - of a Node
    return {
        "metadata": {"name": name, "labels": {"host": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


def pod(
    name: str = "p",
    node: str = "",
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    *,
    namespace: str = "default",
    ports: Iterable[Mapping[str, Any]] = (),
    status: Mapping[str, Any] | None = None,
    **spec: Any,  # noqa: ANN401 - any field of a PodSpec
) -> Json:
    container = {"name": "main", "resources": {"requests": dict(requests or {})}, "ports": list(ports)}
    made: Json = {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": dict(labels or {})},
        "spec": {"containers": [container], **spec},
        "status": dict(status or {}),
    }
    if node:
        made["spec"]["nodeName"] = node
    return made


def cluster(*objects: Json) -> QuotaCluster:
    made = QuotaCluster("CapacityScheduling", MaxMissing.INFINITE)
    for item in objects:
        if "containers" in item.get("spec", {}):
            made.put_pod(item)
        elif "status" in item:
            made.put_node(item)
        else:
            made.namespaces.put(item)
    return made


def misfit(item: Json, found: QuotaCluster, name: str = "n", without: Iterable[str] = ()) -> str | None:
    return FitModel(QuotaPod.from_json(item), found, found.nominations(NOW)).misfit(name, frozenset(without))


def unresolvable(item: Json, found: QuotaCluster, name: str = "n") -> str | None:
    return FitModel(QuotaPod.from_json(item), found, found.nominations(NOW)).unresolvable(name)


CPU = "Insufficient cpu"


@pytest.mark.parametrize(
    ("taken", "requests", "reason"),
    [
        ("0", {}, None),
        ("3", {"cpu": "1"}, None),  # exactly the free amount
        ("3", {"cpu": "1001m"}, CPU),
        ("3", {"memory": "8Gi"}, None),  # nothing is used
        ("3", {"cpu": "2", "memory": "9Gi"}, f"{CPU}, Insufficient memory"),
        ("3", {"x.io/gpu": "1"}, None),  # the node states none: Dynamic Resource Allocation may provide it
        ("3", {"x.io/none": "1", "cpu": "2"}, CPU),  # the node states 0
        ("3", {"x.io/few": "2"}, "Insufficient x.io/few"),
        ("3", {"ignored.io/few": "2", "group.io/few": "2"}, None),
        ("3", {"kubernetes.io/mid-cpu": "1"}, "Insufficient kubernetes.io/mid-cpu"),  # ours: it counts everywhere
        ("3", {"hugepages-2Mi": "2Mi"}, "Insufficient hugepages-2Mi"),
        ("3", {"x.io/gpu": "0"}, None),  # requested, with an amount of zero
        ("5", {"memory": "1Gi"}, None),  # an overfull node admits pods without requests, as in kube-scheduler
        ("5", {"cpu": "1m"}, CPU),
    ],
)
def test_resources(taken: str, requests: dict[str, str], reason: str | None) -> None:
    few = dict.fromkeys(("x.io/few", "ignored.io/few", "group.io/few"), "1")
    made = QuotaCluster("q", MaxMissing.ZERO, ignored=IgnoredResources({"ignored.io/few"}, {"group.io"}))
    here = node()
    here["status"]["allocatable"] |= {"x.io/none": "0", **few}
    made.put_node(here)
    made.put_pod(pod("there", "n", {"cpu": taken}))
    assert misfit(pod(requests=requests), made) == reason


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient x.io/gpu. preemption: 0/2",
            "Insufficient x.io/gpu",
        ),
        ("0/2 nodes are available: 2 Insufficient x.io/gpu-large, 1 cannot allocate all claims.", None),
    ],
)
def test_kube_scheduler_counts_a_resource(message: str, reason: str | None) -> None:
    """Where kube-scheduler found too little of a device, no node gets it from Dynamic Resource Allocation."""
    item = pod(requests={"x.io/gpu": "1"})
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]
    item["status"] = {**item.get("status", {}), "conditions": conditions}
    assert misfit(item, cluster(node())) == unresolvable(item, cluster(node())) == reason


def test_unknown_node() -> None:
    assert misfit(pod(), cluster()) == unresolvable(pod(), cluster()) == GONE


def test_pods_are_counted() -> None:
    there = [pod(f"p{number}", "n") for number in range(10)]
    assert misfit(pod(), cluster(node(), *there)) == TOO_MANY
    assert misfit(pod(), cluster(node(), *there), without=["p3"]) is None
    assert misfit(pod(), cluster(node(), *there[1:], pod("p0", "n", status={"phase": "Failed"}))) is None


def test_excluded_pods_free_resources() -> None:
    there = cluster(node(), node("m"), pod("a", "n", {"cpu": "3"}), pod("b", "m", {"cpu": "3"}))
    assert misfit(pod(requests={"cpu": "2"}), there) == CPU
    assert misfit(pod(requests={"cpu": "2"}), there, without=["b"]) == CPU
    assert misfit(pod(requests={"cpu": "2"}), there, without=["a", "b", "absent"]) is None


def test_claims_reserve_resources() -> None:
    claimer = pod("claimer", requests={"cpu": "3"}, status={"nominatedNodeName": "n"}, priority=5)
    there = cluster(node(), node("m"), claimer)
    for priority, reason in ((4, CPU), (5, CPU), (6, None)):
        assert misfit(pod(requests={"cpu": "2"}, priority=priority), there) == reason
        assert misfit(pod(requests={"cpu": "2"}, priority=priority), there, "m") is None
    assert misfit(claimer, there) is None


def test_admitted_pods_reserve_resources() -> None:
    there = cluster(node(), node("m"), node("elsewhere"))
    pending = pod("way", requests={"cpu": "3"}, ports=[{"containerPort": 1, "hostPort": 80}])
    request = ClusterCache(LoadRules(), {NAME: CapacityScheduling()}).read(pending)
    there.reserve(request, ["n", "m"], 0)
    other = pod(requests={"cpu": "2"}, priority=100)
    assert [misfit(other, there, name) for name in ("n", "m", "elsewhere")] == [CPU, CPU, None]
    assert misfit(pod(ports=[{"containerPort": 1, "hostPort": 80}]), there) == PORTS_TAKEN
    there.unreserve("way")
    there.put_pod(pod("way", "m", {"cpu": "3"}))
    assert [misfit(other, there, name) for name in ("n", "m", "elsewhere")] == [None, CPU, None]


def test_larger_than_node_is_unresolvable() -> None:
    there = cluster(node(), pod("there", "n", {"cpu": "3"}))
    assert unresolvable(pod(requests={"cpu": "5"}), there) == CPU
    assert unresolvable(pod(requests={"cpu": "4"}), there) is None


@pytest.mark.parametrize(
    ("toleration", "effect", "fits"),
    [
        ({}, "NoSchedule", False),  # tolerates nothing: no key, and the taint has a value
        ({"operator": "Exists"}, "NoSchedule", True),  # everything
        ({"key": "k", "operator": "Exists"}, "NoExecute", True),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, "NoExecute", False),
        ({"key": "k", "value": "v"}, "NoSchedule", True),  # Equal is the default
        ({"key": "k", "value": "w"}, "NoSchedule", False),
        ({"key": "j", "operator": "Exists"}, "NoSchedule", False),
        ({"key": "j", "operator": "Exists"}, "PreferNoSchedule", True),  # only a wish
        ({"key": "k", "operator": "Gt", "value": "1"}, "NoSchedule", False),  # a gate that is off
    ],
)
def test_taints(toleration: Json, effect: str, *, fits: bool) -> None:
    there = cluster(node(taints=[{"key": "k", "value": "v", "effect": effect}]))
    reason = None if fits else TAINTED
    assert misfit(pod(tolerations=[toleration]), there) == unresolvable(pod(tolerations=[toleration]), there) == reason


def test_cordoned_node() -> None:
    there = cluster(node(unschedulable=True))
    assert unresolvable(pod(), there) == CORDONED
    assert misfit(pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]), there) is None


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "a", "operator": "In", "values": ["x", "5"]}, True),
        ({"key": "a", "operator": "In", "values": ["x"]}, False),
        ({"key": "b", "operator": "In", "values": ["x"]}, False),  # the label is missing
        ({"key": "b", "operator": "NotIn", "values": ["x"]}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "a", "operator": "DoesNotExist"}, False),
        ({"key": "a", "operator": "Gt", "values": ["4"]}, True),
        ({"key": "a", "operator": "Gt", "values": ["5"]}, False),
        ({"key": "a", "operator": "Lt", "values": ["6"]}, True),
        ({"key": "word", "operator": "Lt", "values": ["6"]}, False),  # no number
        ({"key": "large", "operator": "Gt", "values": ["6"]}, False),  # more than 64 bits
        ({"key": "b", "operator": "Lt", "values": ["6"]}, False),
        # Expressions that Go's selectors cannot parse match no node:
        ({"key": "a", "operator": "In", "values": ["5", "not a label"]}, False),
        ({"key": "a", "operator": "In"}, False),
        ({"key": "a", "operator": "Exists", "values": ["5"]}, False),
        ({"key": "a", "operator": "Gt", "values": ["1", "2"]}, False),
        ({"key": "a", "operator": "Near", "values": ["5"]}, False),
    ],
)
def test_label_expressions(expression: Json, *, fits: bool) -> None:
    there = cluster(node(labels={"a": "5", "word": "five", "large": "9" * 20}))
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
    assert unresolvable(pod(affinity=affinity), there) == (None if fits else OTHER_NODES)


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([], False),  # none of no terms holds
        ([{}], False),
        ([{}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["m"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}]}], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}], False),
        (
            [
                {
                    "matchExpressions": [{"key": "a", "operator": "Exists"}],
                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
                }
            ],
            False,  # all of a term must hold
        ),
    ],
)
def test_node_terms(terms: list[Json], *, fits: bool) -> None:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    assert unresolvable(pod(affinity=affinity), cluster(node())) == (None if fits else OTHER_NODES)


def test_selector_and_affinity() -> None:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [_exists("a")]}]}}}
    for labels, reason in (({"a": "", "b": "1"}, None), ({"a": ""}, OTHER_NODES), ({"b": "1"}, OTHER_NODES)):
        assert misfit(pod(nodeSelector={"b": "1"}, affinity=affinity), cluster(node(labels=labels))) == reason
    named = replace(QuotaPod.from_json(pod()), spec=json.dumps(pod(node="m")["spec"]).encode())
    assert FitModel(named, cluster(node()), []).unresolvable("n") == OTHER_NAME


def _exists(key: str) -> Json:
    return {"key": key, "operator": "Exists"}


@pytest.mark.parametrize(
    ("wanted", "used", "fits"),
    [
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),  # the other uses all addresses
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),
        ({"hostPort": 80, "hostIP": ""}, {"hostPort": 80, "hostIP": "0.0.0.0"}, False),  # noqa: S104 - compared
        ({}, {"hostPort": 80}, True),  # uses no port of the node
    ],
)
def test_host_ports(wanted: Json, used: Json, *, fits: bool) -> None:
    there = cluster(node(), pod("there", "n", ports=[{"containerPort": 1, **used}]))
    pending = pod(ports=[{"containerPort": 1, **wanted}])
    assert misfit(pending, there) == (None if fits else PORTS_TAKEN)
    assert misfit(pending, there, without=["there"]) is None
    assert unresolvable(pending, there) is None


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({}, []),
        ({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {}}]}, []),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            ["volume v (a PersistentVolumeClaim)"],
        ),
        ({"volumes": [{"name": "v", "ephemeral": {}}]}, ["volume v (an ephemeral volume)"]),
        ({"resourceClaims": [{"name": "gpu"}]}, ["resourceClaims"]),
        ({"schedulingGroup": {"podGroupName": "g"}}, ["schedulingGroup"]),
        ({"tolerations": [{"key": "k", "operator": "Lt", "value": "1"}]}, ["tolerations with Lt or Gt"]),
        ({"hostNetwork": True, "hostUsers": False}, ["features that nodes declare"]),
        ({"hostNetwork": True}, []),
        ({"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}, ["required podAffinity"]),
        ({"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}, ["required podAntiAffinity"]),
        ({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}, []),
        (
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
            ["topologySpreadConstraints with DoNotSchedule"],
        ),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, []),
        (
            {"initContainers": [{"restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            ["features that nodes declare"],
        ),
    ],
)
def test_unmodelled(spec: Json, what: list[str]) -> None:
    assert FitModel(QuotaPod.from_json(pod(**spec)), cluster(), []).unmodelled == what


@pytest.mark.parametrize(
    ("term", "rejected"),
    [
        ({"labelSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"labelSelector": {"matchLabels": {"app": "db"}}}, False),
        ({"labelSelector": None}, False),
        ({"labelSelector": {}, "namespaces": ["elsewhere"]}, False),
        ({"labelSelector": {}, "namespaceSelector": {}}, True),
    ],
)
def test_rejected_by_running_pods(term: Json, *, rejected: bool) -> None:
    affinity = {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}
    there = cluster(node(), pod("there", "n", affinity=affinity))
    beyond = FitModel(QuotaPod.from_json(pod(labels={"app": "web"})), there, []).unmodelled
    assert beyond == ["labels that required podAntiAffinity of running pods selects"] * rejected
