"""The state of the cluster, reduced to what formulas need. No I/O, no clock."""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from crds import names
from manager.hot_nodes.load import effects_on
from manager.inputs import NodeReport, ObservedAt, PodInputs
from manager.inputs.node_metric import PredictionSummary
from manager.inputs.reading import LONGEST_ANNOTATION, get_objects, get_path
from manager.node_metric import ManagedFields
from manager.workload_history import WorkloadHistories

Json = Mapping[str, Any]

_ANNOTATIONS: Final = frozenset(
    {names.ANNOTATION_RAW_ALLOCATABLE, names.ANNOTATION_NODE_RESERVATION, names.ANNOTATION_COLOCATION_STRATEGY}
)
_RESOURCES: Final = frozenset({"cpu", "memory", names.MID_CPU, names.MID_MEMORY})
_POD_KEY: Final = re.compile(r"[a-z0-9-]+/[a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class CachedCondition:
    """A condition, reduced."""

    status: str
    reason: str
    since: str  # when the status last changed, RFC 3339
    pods: frozenset[str] = frozenset()  # the pods that the message of MidPodsLimited names, namespace/name


@dataclass(frozen=True, slots=True)
class CachedNodeMetric:
    """A NodeMetric, reduced."""

    uid: str
    version: str
    managed_fields: ManagedFields  # its spec, and its owners
    conditions: Mapping[str, CachedCondition]  # those of its conditions that are the manager's, by type
    last_conditions: Mapping[str, CachedCondition]  # the same as they last were, also those that are gone
    report: NodeReport | None
    observed_at: ObservedAt  # when its times were observed to change, on the clock of `put_node_metric`
    prediction_summary: PredictionSummary


@dataclass(slots=True)
class ClusterState:
    """Nodes, NodeMetrics and pods."""

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Node name -> reduced Node: name, uid, labels, some annotations, capacity, allocatable, `ready` and `hot`."""
    hot: dict[str, str] = field(default_factory=dict)
    """Nodes with the taint of hot nodes -> its effect."""
    node_metrics: dict[str, CachedNodeMetric] = field(default_factory=dict)
    workloads: WorkloadHistories = field(default_factory=WorkloadHistories)
    pods_synced: bool = False
    label_changes: int = 0
    """Counts added and deleted Nodes and label changes: while it is equal, selectors match the same Nodes."""
    _pods: dict[str, dict[str, PodInputs]] = field(default_factory=dict)
    _node_of_pod: dict[str, str] = field(default_factory=dict)

    @property
    def pod_count(self) -> int:
        return len(self._node_of_pod)

    def reference(self, node: str) -> dict[str, str]:
        cached = self.nodes.get(node)
        return {"apiVersion": "v1", "kind": "Node", "name": node, "uid": cached["metadata"]["uid"] if cached else ""}

    def pods_on(self, node: str) -> Iterable[PodInputs]:
        return self._pods.get(node, {}).values()

    def put_node(self, node: Json, *, listed: bool = False) -> bool:
        """Cache a Node; whether a relevant field changed.

        A listed object (`listed`) may be older than what a watch has reported since.
        """
        reduced = _reduced_node(node)
        name = reduced["metadata"]["name"]
        before = self.nodes.get(name)
        if listed and before is not None and _older(node, before["metadata"]["resourceVersion"]):
            return False
        self.nodes[name] = reduced
        self.workloads.put_capacity(name, reduced["status"]["capacity"])
        self.hot.pop(name, None)
        if reduced["hot"]:
            self.hot[name] = reduced["hot"]
        if before is None or before["metadata"]["labels"] != reduced["metadata"]["labels"]:
            self.label_changes += 1
        return before is None or _without_version(before) != _without_version(reduced)

    def drop_node(self, name: str, uid: str) -> None:
        """Drop a Node; only that one, as its deletion may be reported after the next one of its name was added."""
        cached = self.nodes.get(name)
        if cached is not None and cached["metadata"]["uid"] == uid:
            del self.nodes[name]
            self.workloads.put_capacity(name, {})
            self.hot.pop(name, None)
            self.label_changes += 1

    def put_node_metric(self, node_metric: Json, now: float, *, listed: bool = False) -> bool:
        """Cache a NodeMetric; whether a relevant field changed.

        Args:
            node_metric: the object.
            now: when it was received, on a clock that never jumps, so that no report gets younger. [s]
            listed: as of `put_node`.
        """
        metadata = node_metric.get("metadata") or {}
        name, uid = str(metadata.get("name", "")), str(metadata.get("uid", ""))
        before = self.node_metrics.get(name)
        same = before if before is not None and before.uid == uid else None
        if listed and same is not None and _older(node_metric, same.version):
            return False
        report = NodeReport.from_object(node_metric, {pod.key for pod in self.pods_on(name) if pod.mid_requests})
        capacity = self.nodes[name]["status"]["capacity"] if name in self.nodes else {}
        self.workloads.put(name, get_path(node_metric, "status", "workloads"), capacity)
        conditions = _own_conditions(node_metric.get("status"))
        self.node_metrics[name] = kept = CachedNodeMetric(
            uid=uid,
            version=str(metadata.get("resourceVersion", "")),
            managed_fields=ManagedFields.from_object(node_metric),
            conditions=conditions,
            last_conditions={**(same.last_conditions if same else {}), **conditions},
            report=report,
            observed_at=_observed_at(before, report, now),
            prediction_summary=PredictionSummary.from_object(node_metric),
        )
        return same is None or (same.managed_fields, same.report) != (kept.managed_fields, kept.report)

    def put_written_node_metric(self, answer: Json, now: float) -> bool:
        """Cache the answer to a write; whether it contains a new report.

        The watch reports it, too, but nothing seems to have changed then.
        """
        name = str((answer.get("metadata") or {}).get("name", ""))
        before = self.node_metrics.get(name)
        self.put_node_metric(answer, now, listed=True)
        return self.node_metrics[name].report != (before.report if before else None)

    def put_written_node(self, answer: Json) -> bool:
        """Cache the answer to a write to a known Node; whether it contains more than the write."""
        name = str(answer["metadata"]["name"])
        before = self.nodes[name]
        self.put_node(answer, listed=True)
        return _apart_from_mid(before) != _apart_from_mid(self.nodes[name])

    def drop_node_metric(self, name: str, uid: str) -> None:
        """Drop a NodeMetric; only that one, as its deletion may be reported after the next one was added."""
        cached = self.node_metrics.get(name)
        if cached is not None and cached.uid == uid:
            del self.node_metrics[name]
            self.workloads.drop(name)

    def pod_uids(self) -> set[str]:
        return set(self._node_of_pod)

    def put_pod(self, pod: PodInputs) -> set[str]:
        """Cache a pod (or drop it if it ended); the nodes on which something changed."""
        if self.pod(pod.uid) == pod:
            return set()
        touched = self.drop_pod(pod.uid)
        return touched | {pod.node} if self._put(pod) else touched

    def pod(self, uid: str) -> PodInputs | None:
        node = self._node_of_pod.get(uid)
        return self._pods[node].get(uid) if node is not None else None

    def drop_pod(self, uid: str) -> set[str]:
        """Drop a pod; the node it was on."""
        node = self._node_of_pod.pop(uid, None)
        if node is None:
            return set()
        del self._pods[node][uid]
        if not self._pods[node]:
            del self._pods[node]
        return {node}

    def _put(self, pod: PodInputs) -> bool:
        if not pod.node or pod.terminal:
            return False
        self._pods.setdefault(pod.node, {})[pod.uid] = pod
        self._node_of_pod[pod.uid] = pod.node
        return True


def _own_conditions(status: object) -> dict[str, CachedCondition]:
    result = (
        condition
        for condition in get_objects(status, "conditions")
        if condition.get("type") in names.MANAGER_CONDITIONS
    )
    return {
        str(condition["type"]): CachedCondition(
            sys.intern(str(condition.get("status", ""))),
            sys.intern(str(condition.get("reason", ""))),
            str(condition.get("lastTransitionTime", "")),
            pod_keys(str(condition.get("message", "")))
            if condition["type"] == names.CONDITION_MID_PODS_LIMITED
            else frozenset(),
        )
        for condition in result
    }


def pod_keys(message: str) -> frozenset[str]:
    """Return the pods that the message of a condition names, namespace/name."""
    return frozenset(_POD_KEY.findall(message))


def _observed_at(before: CachedNodeMetric | None, report: NodeReport | None, now: float) -> ObservedAt:
    if report is None:
        return ObservedAt()
    if before is None or before.report is None:
        return ObservedAt(now, now)
    old, seen = before.report, before.observed_at
    return ObservedAt(
        report=seen.report if old.update_time == report.update_time else now,
        prediction=seen.prediction if old.prediction_time == report.prediction_time else now,
    )


def _reduced_node(node: Json) -> dict[str, Any]:
    metadata = node.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    return {
        "metadata": {
            **{name: str(metadata.get(name, "")) for name in ("name", "uid", "resourceVersion")},
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {
                name: str(annotations[name])[: LONGEST_ANNOTATION + 1] for name in _ANNOTATIONS if name in annotations
            },
        },
        "status": {which: _reduced_resources(get_path(node, "status", which)) for which in ("capacity", "allocatable")},
        "ready": _is_ready(node),
        "hot": effects_on(node),
    }


def _is_ready(node: Json) -> bool:
    """Return whether a Node is Ready; one without the condition counts as Ready."""
    conditions = get_objects(node, "status", "conditions")
    return all(condition.get("status") == "True" for condition in conditions if condition.get("type") == "Ready")


def _reduced_resources(amounts: object) -> dict[str, Any]:
    return {name: get_path(amounts, name) for name in _RESOURCES if get_path(amounts, name) is not None}


def _apart_from_mid(kept: Json) -> tuple[Any, ...]:
    mids = {names.MID_CPU, names.MID_MEMORY}
    status = {
        key: {each: amount for each, amount in part.items() if each not in mids} for key, part in kept["status"].items()
    }
    return *_without_version(kept)[:-1], status


def _without_version(kept: Json) -> tuple[Any, ...]:
    metadata = kept["metadata"]
    return metadata["uid"], metadata["labels"], metadata["annotations"], kept["hot"], kept["status"]


def _older(obj: Json, version: str) -> bool:
    """Return whether an object is older than a resourceVersion; versions of one kind grow within a cluster."""
    current = str((obj.get("metadata") or {}).get("resourceVersion", ""))
    return current.isdigit() and version.isdigit() and int(current) < int(version)
