"""Pods as large as the API server allows, one kind for each field that a tenant may fill; JSON as bytes."""

from dataclasses import dataclass
from typing import Any, Final

NODE: Final = "node-"  # a node's name begins so; two digits follow
NODES: Final[list[dict[str, Any]]] = [
    {
        "metadata": {"name": f"{NODE}{number:02}", "uid": f"node-{number}", "resourceVersion": "1"},
        "status": {"capacity": {"cpu": "64", "memory": "256Gi"}, "allocatable": {"cpu": "64", "memory": "256Gi"}},
    }
    for number in range(100)
]
QUOTA: Final[dict[str, Any]] = {
    "metadata": {"namespace": "quota", "name": "q", "uid": "q", "resourceVersion": "1"},
    "spec": {"min": {"cpu": "10"}, "max": {"cpu": "20"}},
}
PLACEMENTS: Final = {
    "quota": '"schedulerName":"headroom-scheduler"',
    "bound": '"schedulerName":"headroom-scheduler","nodeName":"node-~"',
}
"""Fields of `spec`: pending in the namespace of a quota, and bound to a node."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A field with many items. In `item`, `@` is the pod's number and `#` the item's."""

    part: str  # metadata, spec or status
    field: str  # the field, with %s for the items
    item: str
    count: int


_VERSION: Final = ',"resourceVersion":"2"'
_TIME: Final = '"2026-01-01T00:00:00Z"'
_CONTAINER: Final = (
    '{"name":"c-@-#","image":"registry.example/@:#","resources":{"requests":{"cpu":"1m"}},"imagePullPolicy":"Always",'
    '"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}'
)
_MANAGER: Final = (
    '{"manager":"m-@-#","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1",'
    f'"time":{_TIME},"fieldsV1":{{"f:metadata":{{"f:labels":{{"f:l-@-#":{{}}}}}}}}}}'
)
_STATUS: Final = (
    f'{{"name":"c-@-#","image":"@:#","imageID":"@","ready":true,"state":{{"running":{{"startedAt":{_TIME}}}}}}}'
)
_SPREAD: Final = '{"maxSkew":1,"topologyKey":"k-@/#","whenUnsatisfiable":"ScheduleAnyway"}'
_PREFERRED: Final = '{"weight":1,"preference":{"matchExpressions":[{"key":"k-@-#","operator":"Exists"}]}}'
_REQUIRED: Final = '{"topologyKey":"k-@-#","labelSelector":{"matchLabels":{"app":"@"}}}'
_IGNORED: Final = "DuringSchedulingIgnoredDuringExecution"
KINDS: Final = {
    "resourceClaims": Kind("spec", '"resourceClaims":[%s]', '{"name":"c-@-#","resourceClaimName":"c-@-#"}', 15_000),
    "hostAliases": Kind("spec", '"hostAliases":[%s]', '{"ip":"10.0.0.1","hostnames":["h-@-#"]}', 21_000),
    "topologySpreadConstraints": Kind("spec", '"topologySpreadConstraints":[%s]', _SPREAD, 13_000),
    "labels": Kind("metadata", '"labels":{%s}', '"l-@.example.org/@-@-@-@-#":"v-@-@-@-@-@-#"', 8_000),
    "tolerations": Kind("spec", '"tolerations":[%s]', '{"key":"@-#","operator":"Exists"}', 29_500),
    "annotations": Kind("metadata", '"annotations":{%s}', '"a-@/#":"@-@-@-@"', 4_200),
    "containers": Kind("spec", '"containers":[%s]', _CONTAINER, 4_500),
    "env": Kind("spec", '"containers":[{"name":"c","image":"x","env":[%s]}]', '{"name":"E_@_#","value":"@"}', 25_000),
    "volumes": Kind("spec", '"volumes":[%s]', '{"name":"v-@-#","emptyDir":{}}', 26_000),
    "initContainers": Kind("spec", '"initContainers":[%s]', _CONTAINER, 4_500),
    "preferredAffinity": Kind(
        "spec", f'"affinity":{{"nodeAffinity":{{"preferred{_IGNORED}":[%s]}}}}', _PREFERRED, 11_500
    ),
    "antiAffinity": Kind("spec", f'"affinity":{{"podAntiAffinity":{{"required{_IGNORED}":[%s]}}}}', _REQUIRED, 13_500),
    "managedFields": Kind("metadata", '"managedFields":[%s]', _MANAGER, 5_500),
    "containerStatuses": Kind("status", '"containerStatuses":[%s]', _STATUS, 7_500),
    "conditions": Kind(
        "status", '"conditions":[%s]', f'{{"type":"t-@/#","status":"True","lastProbeTime":{_TIME}}}', 12_000
    ),
    "nodeSelector": Kind("spec", '"nodeSelector":{%s}', '"l-@/#":"v-@"', 32_000),
    "ownerReferences": Kind(
        "metadata",
        '"ownerReferences":[%s]',
        '{"apiVersion":"v1","kind":"ConfigMap","name":"o-@-#","uid":"@-#"}',
        13_000,
    ),
    "finalizers": Kind("metadata", '"finalizers":[%s]', '"f-@.example/#"', 40_000),
    "schedulingGates": Kind("spec", '"schedulingGates":[%s]', '{"name":"g-@/#"}', 40_000),
}
"""About a mebibyte each; annotations as many as are allowed, 256 KiB."""


def template(kind: str, placement: str) -> bytes:
    """Return a pod with `@` for its number and `~` for that of its node; kind "plain" has nothing large."""
    parts = {
        "metadata": f'"namespace":"quota","name":"p-@","uid":"00000000-0000-4000-8000-0000@"{_VERSION}',
        "spec": PLACEMENTS[placement],
        "status": '"phase":"Running","startTime":' + _TIME if placement == "bound" else '"phase":"Pending"',
    }
    large = KINDS.get(kind)
    if large is not None:
        items = ",".join(large.item.replace("#", f"{number:x}") for number in range(large.count))
        parts[large.part] += "," + large.field % items
    if large is None or not large.field.startswith('"containers"'):
        parts["spec"] += ',"containers":[{"name":"c","image":"x","resources":{"requests":{"cpu":"1"}}}]'
    return ("{" + ",".join(f'"{name}":{{{fields}}}' for name, fields in parts.items()) + "}").encode()
