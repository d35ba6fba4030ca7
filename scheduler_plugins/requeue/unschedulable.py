"""Unschedulable pods: refused on every node of a filter request, in groups that are evaluated once."""

import heapq
import json
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from hashlib import blake2b
from itertools import takewhile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from crds import names
from headroom.runtime.backoff import Backoff
from scheduler_plugins.framework.cycle import Cycle, PluginError
from scheduler_plugins.snapshot.arrays import Nodes, Snapshot
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.in_flight import Tombstones
from scheduler_plugins.snapshot.pod import PodRequest

GroupKey = tuple[Any, ...]

SAMPLE: Final = 100
"""kube-scheduler stops looking for nodes once it has found enough, which is never fewer than these. [nodes]"""

_UNANSWERED_SECONDS: Final = 30.0
_FORGOTTEN_SECONDS: Final = 1800.0
"""kube-scheduler tries every unschedulable pod each five minutes, or as soon after as its queue is that long."""
_BACKOFF_SECONDS: Final = (1.0, 60.0)
_LARGEST_WINDOW: Final = 10_000
_MOST_PLACED: Final = 10_000
NEVER: Final = "8760h"  # Headroom's value of the annotation for Cluster Autoscaler: a year
_OWN: Final = frozenset(
    {"uid", "key", "node_name", "created", "scheduled_at", "refused_at", "refusal", "fingerprint", "amounts", "facts"}
)
_ALIKE: Final = tuple(part.name for part in fields(PodRequest) if part.name not in _OWN)
_CONSTRAINTS: Final = (
    *("schedulerName", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"),
    *("resourceClaims", "overhead", "resources"),
)
_OF_CONTAINERS: Final = ("resources", "ports", "restartPolicy")

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class NodeSet:
    """Some nodes, one bit each: 625 bytes of 5,000 nodes."""

    names: Sequence[str]  # the nodes that there were, shared by many sets
    bits: NDArray[np.uint8]  # which of them are in the set, packed

    def __len__(self) -> int:
        return int(np.bitwise_count(self.bits).sum())

    def of(self, snapshot: Snapshot) -> Nodes:
        rows = np.flatnonzero(np.unpackbits(self.bits, count=len(self.names)))
        return snapshot.select([self.names[row] for row in rows.tolist()])[0]


class Cause(StrEnum):
    """The cause that keeps the pods of a group from a node, by their last evaluation."""

    UNKNOWN = "unknown"  # not evaluated yet
    NONE = "none"  # a node passes
    POD = "quota"  # the pod as such: whatever the node
    LOAD = "load"  # the load of each node, and nothing else
    OTHER = "other"  # something else, such as Mid resources in deficit


@dataclass(slots=True, eq=False)
class UnschedulablePod:
    """A pod that was refused."""

    uid: str  # its uid
    key: str  # `namespace/name`
    created: float  # when it was created [unix s]
    since: float  # when it was first refused [s, monotonic]
    group: "Group"  # the pods that are evaluated together with it
    refused_at: float  # when it was last refused [s, monotonic]
    retried: str  # the last value of its annotation that this process knows
    scale_up_delay: str  # its annotation for Cluster Autoscaler; empty without one

    @property
    def request(self) -> PodRequest:
        return replace(self.group.pod, uid=self.uid, key=self.key, created=self.created)


@dataclass(slots=True, eq=False)
class Group:
    """Pods that differ in name and age alone. Requeued by slow start: one, and twice as many after all were placed."""

    key: GroupKey  # their common properties
    pod: PodRequest  # one of them
    nodes: NodeSet | None  # the nodes of kube-scheduler's last request; None: an earlier process knew
    pods: dict[str, UnschedulablePod] = field(default_factory=dict)  # the pods by uid
    requeued: dict[str, float] = field(default_factory=dict)
    """Since when another request of kube-scheduler for a pod has been due, by uid. [s, monotonic]"""
    window: int = 1  # how many may be requeued at once [pods]
    backoff: Backoff = field(default_factory=lambda: Backoff(*_BACKOFF_SECONDS))  # after rounds without a fitting pod
    not_before: float = float("-inf")  # none is requeued before [s, monotonic]
    in_vain: bool = False  # whether one of those that were requeued together was refused
    problem: str = ""  # the error of its last evaluation
    cause: Cause = Cause.UNKNOWN  # the cause of its refusal
    unsettled: set[str] = field(default_factory=set)  # pods to check for an outdated annotation

    def refused_by(self, cause: Cause) -> None:
        """Note the cause of the refusal; where it changed, the annotations of all its pods are outdated."""
        if cause is not self.cause:
            self.cause, self.unsettled = cause, set(self.pods)

    def answered(self, uid: str, now: float, *, placed: bool | None) -> None:
        """Note what became of a pod that was requeued: it was placed, refused, or nothing is known of it (None).

        After a round without a fitting pod the next one waits 1 s, 2 s, 4 s, up to a minute.
        """
        if self.requeued.pop(uid, None) is None:
            return
        self.in_vain = self.in_vain or placed is False
        if placed:
            self.backoff.succeeded()
        if self.requeued:
            return
        if self.in_vain:
            self.window, self.not_before = 1, now + self.backoff.failed()
        elif placed:
            self.window = min(2 * self.window, _LARGEST_WINDOW)
        self.in_vain = False

    def oldest(self, count: int) -> Sequence[UnschedulablePod]:
        return heapq.nsmallest(count, self.pods.values(), key=lambda pod: (pod.created, pod.key))

    def fitting(self, snapshot: Snapshot) -> Nodes:
        """The nodes that may fit its pods otherwise: all there are, where kube-scheduler may know further ones."""
        return snapshot if self.nodes is None or len(self.nodes) >= SAMPLE else self.nodes.of(snapshot)


class UnschedulablePods:
    """The pods that wait, until they are placed or gone. Fed by refusals and by the watch of pods; both are quick.

    A pod that another replica patches is forgotten: that replica's kube-scheduler is at work. So is one about which
    kube-scheduler sends no request: its own filters reject the pod now, and it retries by itself.

    Args:
        most: how many pods are remembered.
        cache: the cluster.
        cycle: recognises the reasons of an earlier process.
        monotonic: a clock that never jumps. [s]
        waited: called with the waiting time of a pod that has been placed. [s]
    """

    def __init__(
        self,
        most: int,
        cache: ClusterCache,
        cycle: Cycle,
        monotonic: Callable[[], float],
        waited: Callable[[float], object] = lambda _: None,
    ) -> None:
        self._most = most
        self._cache = cache
        self._cycle = cycle
        self._clock = monotonic
        self._waited = waited
        self._listed = False
        self._tombstones = Tombstones()
        self._rows: dict[str, int] = {}
        self._names: tuple[str, ...] = ()
        self.pods: dict[str, UnschedulablePod] = {}  # the pods by uid, those that were refused last at the end
        self.groups: dict[GroupKey, Group] = {}  # their groups
        self.placed: deque[UnschedulablePod] = deque(
            maxlen=_MOST_PLACED
        )  # placed or forgotten lately: they lose the annotation
        self.overflowed = 0  # how many refusals were not remembered, as there were too many pods

    def refused(self, pod: PodRequest, json_pod: Mapping[str, Any], nodes: Sequence[str]) -> None:
        """Note that a pod was refused on all these nodes, which are all that fit it otherwise, or a part of them."""
        if pod.uid in self._tombstones:
            return
        node_set = self._node_set(nodes)
        entry = self._put(pod, json_pod, node_set)
        if entry is None:
            return
        self.pods[entry.uid] = self.pods.pop(entry.uid)
        entry.refused_at, entry.group.nodes = self._clock(), node_set
        entry.group.answered(entry.uid, entry.refused_at, placed=False)

    def _node_set(self, nodes: Sequence[str]) -> NodeSet:
        if not all(name in self._rows for name in nodes):
            self._rows = {name: row for row, name in enumerate(dict.fromkeys([*self._cache.nodes, *nodes]))}
            self._names = tuple(self._rows)
        bits = np.zeros(len(self._names), np.bool_)
        bits[[self._rows[name] for name in nodes]] = True
        return NodeSet(self._names, np.packbits(bits))

    def put_pod(self, json_pod: Mapping[str, Any]) -> None:
        """Note a pod that changed: forget it when it is bound, or when another replica has requeued it.

        Raises:
            QuantityError: a request or limit is not a quantity.
            ValueError: a time cannot be read.
        """
        entry = self.pods.get(str(json_pod["metadata"].get("uid")))
        if entry is None:
            if not self._listed and not (json_pod.get("spec") or {}).get("nodeName"):
                self._recover(json_pod)
        elif (json_pod.get("spec") or {}).get("nodeName"):
            self.forget(entry, placed=True)
        elif _retried(json_pod) > entry.retried:  # an older one is there where a patch of ours has failed
            self.forget(entry)
        else:
            delay = _annotation(json_pod, names.ANNOTATION_SCALE_UP_DELAY)
            if delay != entry.scale_up_delay:
                entry.scale_up_delay = delay
                entry.group.unsettled.add(entry.uid)
            pod = self._cache.read(json_pod)
            if pod.alike != entry.group.pod.alike:  # plugins see something else in it
                self._put(pod, json_pod, entry.group.nodes)

    def _recover(self, json_pod: Mapping[str, Any]) -> None:
        """Take over a pod that an earlier process refused: kube-scheduler quotes its reason in the pod's condition."""
        pod = self._cache.read(json_pod)
        if _annotation(json_pod, names.ANNOTATION_SCALE_UP_DELAY) == NEVER:
            self._put(pod, json_pod, None)
        if pod.refusal is None:
            return
        text, no_nodes = pod.refusal.words, self._cache.select([], 0.0)[0]
        try:
            reasons = (refusal.reason for refusal in self._cycle.filter(pod, no_nodes).refusals)
            if self._cycle.recognises(text) or any(reason in text for reason in reasons):
                self._put(pod, json_pod, None)
        except PluginError as error:
            _LOG.debug("Pod %s cannot be recovered: %s", pod.key, error)

    def delete_pod(self, uid: str) -> None:
        """Forget a deleted pod: a request of kube-scheduler may still name it."""
        self._tombstones.add(uid)
        if entry := self.pods.get(uid):
            self.forget(entry)

    def pods_listed(self) -> None:
        """Note that all pods have been listed: later ones were not refused by an earlier process."""
        self._listed = True

    def settle(self) -> None:
        """Forget the pods that have been placed, and those that kube-scheduler no longer requests."""
        now = self._clock()
        for uid in self.pods.keys() & self._cache.in_flight.keys():
            self.forget(self.pods[uid], placed=True)
        requeued = (item for group in self.groups.values() for item in group.requeued.items())
        unanswered = [self.pods[uid] for uid, since in requeued if now - since >= _UNANSWERED_SECONDS]
        # Of 150,000 pods only the first ones are read: requests wait meanwhile.
        stale = takewhile(lambda entry: now - entry.refused_at >= _FORGOTTEN_SECONDS, self.pods.values())
        for entry in [*unanswered, *stale]:
            if entry.scale_up_delay == NEVER:  # it has to go when its quota admits it, whatever else rejects it
                if entry.group.cause is not Cause.NONE:
                    entry.refused_at, self.pods[entry.uid] = now, self.pods.pop(entry.uid)
                    continue
                self.placed.append(entry)
            self.forget(entry)

    def forget(self, entry: UnschedulablePod, *, placed: bool = False) -> None:
        """Forget a pod."""
        if self.pods.pop(entry.uid, None) is None:
            return
        if placed:
            self._waited(self._clock() - entry.since)
            self.placed.append(entry)
        self._leave(entry, placed=placed or None)

    def _put(self, pod: PodRequest, json_pod: Mapping[str, Any], nodes: NodeSet | None) -> UnschedulablePod | None:
        """The pod in the group where it belongs; None when it cannot be remembered."""
        key, entry = _group_key(pod, json_pod), self.pods.get(pod.uid)
        if entry is not None and entry.group.key == key:
            return entry
        if entry is None and len(self.pods) >= self._most:
            self.overflowed += 1
            return None
        group = self.groups.setdefault(key, Group(key, pod, nodes))
        if entry is None:
            now = self._clock()
            delay = _annotation(json_pod, names.ANNOTATION_SCALE_UP_DELAY)
            entry = UnschedulablePod(pod.uid, pod.key, pod.created, now, group, now, _retried(json_pod), delay)
            self.pods[pod.uid] = entry
        else:
            self._leave(entry)
            entry.group = group
        group.pods[pod.uid] = entry
        group.unsettled.add(pod.uid)
        return entry

    def _leave(self, entry: UnschedulablePod, *, placed: bool | None = None) -> None:
        group = entry.group
        del group.pods[entry.uid]
        group.unsettled.discard(entry.uid)
        group.answered(entry.uid, self._clock(), placed=placed)
        if not group.pods:
            del self.groups[group.key]


def _group_key(pod: PodRequest, json_pod: Mapping[str, Any]) -> GroupKey:
    """The properties of pods that fit the same nodes and that plugins evaluate alike."""
    spec = json_pod.get("spec") or {}
    claims = [volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or ()]
    containers = [
        [container.get(name) for name in _OF_CONTAINERS]
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
    ]
    constraints = [spec.get(name) for name in _CONSTRAINTS]
    text = json.dumps([constraints, [claim for claim in claims if claim], containers], sort_keys=True)
    digest = blake2b(text.encode(), digest_size=16).digest()
    namespace = pod.key.partition("/")[0]
    return (namespace, digest, *(_hashable(getattr(pod, name)) for name in _ALIKE), *sorted(pod.amounts.items()))


def _hashable(value: Any) -> Any:  # noqa: ANN401 - a field's value, and the same as part of a key
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value


def _retried(pod: Mapping[str, Any]) -> str:
    return _annotation(pod, names.ANNOTATION_SCHEDULING_RETRY)


def _annotation(pod: Mapping[str, Any], name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))
