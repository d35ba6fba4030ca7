"""Decoded fields of a pod: known fields of known types, within bounds; of a bound pod beyond them its numbers."""

import json
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from agent.pods import pod_ref
from headroom.cluster.typed_pod import (
    MalformedPod,
    PodTooLarge,
    check_amounts,
    decode_pod,
    try_decode_pod,
    typed_pod,
    undecoded,
)
from manager.inputs import PodInputs
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.pod import PodRequest
from tests.fuzz.inputs import altered
from tests.fuzz.strength import fuzz

Json = dict[str, Any]
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM: Json = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
POD: Json = {
    "metadata": {
        "name": "p",
        "namespace": "a",
        "uid": "u",
        "labels": {"app": "x", "koordinator.sh/priority-class": "koord-mid"},
        "annotations": {"headroom.dev/scheduling-retry": "1"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True}],
    },
    "spec": {
        "priority": 5,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}],
        "affinity": {
            "nodeAffinity": {SOFT: [{"weight": 1, "preference": {"matchExpressions": [{"key": "a"}]}}]},
            "podAntiAffinity": {REQUIRED: [TERM], SOFT: [{"weight": 1, "podAffinityTerm": TERM}]},
        },
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    },
    "status": {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    },
}


def test_only_read_fields_become_objects() -> None:
    """A field that no part of Headroom reads is dropped; the others stay as they are."""
    idle: Json = {"metadata": {"finalizers": ["x"]}, "spec": {"hostAliases": [{"ip": "::1"}], "nodeSelector": None}}
    item: Json = {"kind": "Pod", **{part: {**POD[part], **idle.get(part, {})} for part in POD}}
    item["spec"] = {**item["spec"], "containers": [{**POD["spec"]["containers"][0], "env": [{"name": "A"}]}]}
    assert typed_pod(item) == {**POD, "spec": {**POD["spec"], "nodeSelector": None}}


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (None, "the pod: must be object, got null"),
        ({"metadata": []}, "metadata: must be object, got array"),
        ({"metadata": {"labels": {"a": 1}}}, "metadata.labels[...]: must be str, got int"),
        ({"spec": {"priority": "high"}}, "spec.priority: must be int, got str"),
        ({"spec": {"containers": [None]}}, "spec.containers[0]: must be object, got null"),
        ({"spec": {"volumes": 5}}, "spec.volumes: must be array, got int"),
        ({"spec": {"tolerations": [{"operator": {}}]}}, "spec.tolerations[0].operator: must be str, got object"),
        ({"status": {"phase": 1}}, "status.phase: must be str, got int"),
    ],
)
def test_wrong_type_is_named(pod: object, message: str) -> None:
    with pytest.raises(MalformedPod) as refusal:
        decode_pod(json.dumps(pod).encode())
    assert str(refusal.value) == message


def test_wrong_amount_is_named() -> None:
    with pytest.raises(MalformedPod, match=r"spec\.initContainers\[0\]\.resources\.limits\.cpu: 'x' is not a quantity"):
        check_amounts({"spec": {"initContainers": [{"resources": {"limits": {"cpu": "x"}}}]}})


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"spec":{"tolerations":' + b"[" * 100_000])
def test_other_text_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedPod):
        decode_pod(text)
    assert try_decode_pod(text) == undecoded(text) == {"metadata": {}, "raw": text}


def _many(item: Any, count: int) -> list[Any]:  # noqa: ANN401 - JSON
    return [item] * count


THREE_EXPRESSIONS: Json = {"matchExpressions": _many({"key": "a" * 50}, 3)}
LARGE: dict[str, tuple[Json, str]] = {
    "tolerations": ({"tolerations": _many({"key": "a"}, 251)}, "spec.tolerations: at most 250 items"),
    "claims": ({"resourceClaims": _many({"name": "a"}, 15_000)}, "spec.resourceClaims: at most 250 items"),
    "gates": ({"schedulingGates": _many({"name": "a"}, 251)}, "spec.schedulingGates: at most 250 items"),
    "spread": ({"topologySpreadConstraints": _many({}, 51)}, "spec.topologySpreadConstraints: at most 50 items"),
    "containers": ({"containers": _many({}, 251)}, "spec.containers: at most 250 items"),
    "all containers": (
        {"containers": _many({}, 125), "initContainers": _many({}, 126)},
        "spec.containers: 251 with the init containers, at most 250",
    ),
    "amounts": (
        {"containers": _many({"resources": {"requests": {f"a.b/{number}": "1" for number in range(501)}}}, 2)},
        "spec.containers: 1002 amounts of extended resources, at most 1000",
    ),
    "terms": (
        {"affinity": {"nodeAffinity": {SOFT: _many({}, 51)}}},
        f"spec.affinity.nodeAffinity.{SOFT}: at most 50 items",
    ),
    "expressions": (
        {"affinity": {"nodeAffinity": {SOFT: _many({"preference": THREE_EXPRESSIONS}, 34)}}},
        f"spec.affinity.nodeAffinity.{SOFT}: 102 expressions, at most 100",
    ),
    "expressions of a small pod": (
        {"affinity": {"nodeAffinity": {SOFT: [{"preference": {"matchExpressions": _many({"key": "a"}, 101)}}]}}},
        f"spec.affinity.nodeAffinity.{SOFT}: 101 expressions, at most 100",
    ),
    "bytes": (
        {"nodeSelector": {f"{index}": "x" * 1000 for index in range(70)}},
        "spec.nodeSelector: 70551 of 70606 bytes of JSON, at most 65536",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", LARGE)
def test_bounds(kind: str) -> None:
    """A pending pod beyond a bound is refused by the field; of a bound one the numbers are read."""
    spec, message = LARGE[kind]
    with pytest.raises(PodTooLarge) as refusal:
        typed_pod({"metadata": POD["metadata"], "spec": spec})
    assert str(refusal.value).startswith(message)
    numbers = {"containers": POD["spec"]["containers"], "nodeName": "n", "priority": 7}
    result = typed_pod({"metadata": POD["metadata"], "spec": {**numbers, **spec}})
    assert (result["spec"]["nodeName"], result["spec"]["priority"]) == ("n", 7)
    assert result["spec"]["containers"] == spec.get("containers", numbers["containers"])
    assert result["metadata"]["labels"] == {"koordinator.sh/priority-class": "koord-mid"}
    assert not {"tolerations", "affinity", "nodeSelector"} & result["spec"].keys()


@fuzz(pod=altered(POD))
def test_decoded_pod_can_be_read(pod: Any) -> None:  # noqa: ANN401 - JSON
    """Whatever is in a pod: it is refused by its field, or every reader takes it or refuses an amount or a time."""
    with suppress(ValueError):
        typed = typed_pod(pod)
        request = partial(PodRequest.from_json, rules=LoadRules())
        for read in (request, QuotaPod.from_json, PodInputs.from_object, pod_ref):
            with suppress(ValueError):
                read(typed)
