"""The NodeMetric that the manager applies for each node: its fields, whether they are in force, and known fields. Pure.

It is written by server-side apply. So every field has owners: fields of others are left alone, and fields that we no
longer apply are removed, unless another manager applies them, too.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from crds.codec import to_json
from crds.colocation import DEFAULTS, ColocationStrategy
from crds.node_metric import GROUP, PLURAL, VERSION, MetricCollectPolicy, NodeAggregatePolicy, NodeMetricSpec
from crds.predict_policy import with_defaults
from headroom.runtime.bounded_cache import BoundedCache, of_json
from manager.inputs.reading import get_objects, get_path
from manager.workload_history import WorkloadHistories

Json = dict[str, Any]

COLLECTION: Final = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
FIELD_MANAGER: Final = "headroom-manager"  # the name under which we own fields; also the product of our user agent
APPLY_PARAMETERS: Final = {"fieldManager": FIELD_MANAGER, "force": "true"}
"""Query of every apply: force takes back an owned field that another writer has changed."""

_LONGEST_SHARED: Final = 16 * 1024
"""Specs of ours take a tenth of it; only such ones are kept for other nodes. [characters]"""
RETRY_SECONDS: Final = 600.0  # after this time the manager writes refused fields again [s]
_UNDECLARED: Final = re.compile(r"\.([A-Za-z0-9_.]+)[^:\s]*: field not declared in schema")
_OWNER: Final = re.compile(r'k:\{"uid":"([^"]*)"\}')


def path(name: str) -> str:
    return f"{COLLECTION}/{name}"


def identity(name: str) -> Json:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "NodeMetric", "metadata": {"name": name}}


def spec_for(strategy: ColocationStrategy) -> NodeMetricSpec:
    """The spec for the agent under a strategy; a node where colocation is off is measured as by default.

    The predict policy is complete, so that the agent needs the NodeMetric alone.
    """

    def get(name: str) -> Any:  # noqa: ANN401 - fields of several types
        value = getattr(strategy, name) if strategy.enable else None
        return getattr(DEFAULTS, name) if value is None else value

    return NodeMetricSpec(
        metric_collect_policy=MetricCollectPolicy(
            aggregate_duration_seconds=get("metric_aggregate_duration_seconds"),
            report_interval_seconds=get("metric_report_interval_seconds"),
            node_aggregate_policy=NodeAggregatePolicy(durations=get("metric_aggregate_policy").durations),
            node_memory_collect_policy=get("metric_memory_collect_policy"),
        ),
        predict_policy=with_defaults(strategy.node_predict_policy),
    )


def manifest(
    node_name: str,
    node_uid: str,
    strategy: ColocationStrategy,
    omitted: Iterable[str] = (),
    workloads: WorkloadHistories | None = None,
) -> Json:
    """Return the fields that the manager applies for a node."""
    spec = spec_for(strategy)
    body = {**identity(node_name), "spec": to_json(spec)}
    policy = spec.predict_policy
    if workloads is not None and policy is not None and (history := workloads.needed(node_name, policy)):
        body["spec"]["workloadHistory"] = history
    # The garbage collector takes the NodeMetric away with its Node.
    body["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid}]
    for path in omitted:
        body = without_field(body, path)
    return body


@dataclass(frozen=True, slots=True)
class ManagedFields:
    """The cached spec and owners of a NodeMetric; equal ones of many nodes are stored once."""

    spec: Json
    owners: tuple[tuple[str, str], ...]  # kind and uid of the objects that it goes with
    applied: Json | None
    """The fields of the spec that we have applied, as `managedFields` writes them; `None`: we never have."""
    applied_owners: frozenset[str]  # the uids of the owners that we have applied

    @classmethod
    def from_object(cls, node_metric: Mapping[str, Any]) -> Self:
        """Reduce a NodeMetric, `managedFields` included."""
        entries = [entry for entry in get_objects(node_metric, "metadata", "managedFields") if _is_ours(entry)]
        fields = next((entry["fieldsV1"] for entry in entries if entry.get("operation") == "Apply"), None)
        return cls(
            spec=_shared(get_path(node_metric, "spec"), "workloadHistory"),
            owners=tuple(
                (str(reference.get("kind", "")), str(reference.get("uid", "")))
                for reference in get_objects(node_metric, "metadata", "ownerReferences")
            ),
            applied=None if fields is None else _shared(get_path(fields, "f:spec"), "f:workloadHistory"),
            applied_owners=frozenset(_owner_uids(fields or {})),
        )

    @property
    def written_by_manager(self) -> bool:
        return self.applied is not None

    def belongs_to_other_node(self, node_uid: str) -> bool:
        """Return whether it belongs to a deleted Node of the same name: it does not report about the present one."""
        uids = [uid for kind, uid in self.owners if kind == "Node"]
        return bool(uids) and node_uid not in uids

    def matches(self, wanted: Mapping[str, Any]) -> bool:
        """Return whether applying `wanted` would change nothing."""
        owner = wanted["metadata"]["ownerReferences"][0]["uid"]
        return (
            self.applied is not None
            and _has_values(self.spec, wanted.get("spec") or {})
            and _all_wanted(self.applied, wanted.get("spec") or {})
            and any(uid == owner for _, uid in self.owners)
            and self.applied_owners <= {owner}
        )


def _is_ours(entry: Mapping[str, Any]) -> bool:
    fields = entry.get("fieldsV1")
    return (
        entry.get("manager") == FIELD_MANAGER
        and not entry.get("subresource")
        and isinstance(fields, Mapping)
        and ("f:spec" in fields or bool(_owner_uids(fields)))
    )


def _owner_uids(fields: Mapping[str, Any]) -> list[str]:
    listed = get_path(fields, "f:metadata", "f:ownerReferences")
    result = (_OWNER.fullmatch(key) for key in (listed if isinstance(listed, Mapping) else ()))
    return [match.group(1) for match in result if match]


def _has_values(current: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether every wanted field has its value; fields beside them are other people's."""
    if not (isinstance(wanted, Mapping) and isinstance(current, Mapping)):
        return bool(current == wanted)
    return all(name in current and _has_values(current[name], value) for name, value in wanted.items())


def _all_wanted(applied: Mapping[str, Any], wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether every field that we have applied is still wanted."""
    for key, below in applied.items():
        name = key.removeprefix("f:")
        if name == key:  # "." is the map itself, and items of lists are not ours one by one
            continue
        if not isinstance(wanted, Mapping) or name not in wanted:
            return False
        if isinstance(below, Mapping) and not _all_wanted(below, wanted[name]):
            return False
    return True


def _shared(data: object, own: str) -> Json:
    """The same objects for equal JSON, except for a key of which each node has its own value.

    5,000 nodes have few different specs.
    """
    if not isinstance(data, Mapping):
        return {}
    text = json.dumps({key: value for key, value in data.items() if key != own}, sort_keys=True, separators=(",", ":"))
    shared = _parsed(text) if len(text) <= _LONGEST_SHARED else json.loads(text)
    return {**shared, own: data[own]} if own in data else shared


def _read(text: str) -> Json:
    parsed: Json = json.loads(text)
    return parsed


_parsed: Final[BoundedCache[str, Json]] = BoundedCache(_read, 8 * 2**20, of_json)


def undeclared_field(message: str) -> str | None:
    """The field that a server refuses to apply because the definition does not know it, such as `spec.predictPolicy`.

    The server reports it with status 500 and this sentence alone; `None` for another message.
    """
    result = _UNDECLARED.search(message)
    return result.group(1) if result else None


@dataclass(slots=True)
class UnknownFields:
    """The fields that the NodeMetric definition of the cluster does not have: writes leave them out.

    Koordinator's definition has no predictPolicy and no conditions. The manager tries all of them again after a while.
    """

    paths: set[str] = field(default_factory=set)
    logged: set[str] = field(default_factory=set)
    _retry_at: float = math.inf

    def below(self, part: str, now: float) -> frozenset[str]:
        """Return those below a path, such as `spec`, by a clock that never jumps. [s]"""
        if now >= self._retry_at:
            self.paths.clear()
            self._retry_at = math.inf
        return frozenset(path for path in self.paths if f"{path}.".startswith(f"{part}."))

    def add(self, path: str, now: float) -> None:
        """Record a field that the API server refused."""
        self.paths.add(path)
        self._retry_at = min(self._retry_at, now + RETRY_SECONDS)


def without_field(body: Mapping[str, Any], path: str) -> Json:
    """The body without a field; a parent that becomes empty is removed, too."""
    head, _, rest = path.partition(".")
    copy = dict(body)
    if not rest:
        copy.pop(head, None)
    elif isinstance(copy.get(head), Mapping):
        copy[head] = without_field(copy[head], rest)
        if not copy[head]:
            del copy[head]
    return copy
