"""Waiting pods, grouped by everything that decides where they fit: a group is judged once for all its pods."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from typing import Any, Final

from scheduler_plugins.snapshot.pod import PodRequest

GroupKey = tuple[Any, ...]

TRUNCATED_FROM: Final = 100
"""kube-scheduler stops looking for nodes once it has found enough, which is never fewer than these. [nodes]"""

_OWN: Final = frozenset(
    {"uid", "key", "node_name", "created", "scheduled_at", "refused_at", "refusal", "fingerprint", "amounts", "facts"}
)
_ALIKE: Final = tuple(part.name for part in fields(PodRequest) if part.name not in _OWN)
_CONSTRAINTS: Final = (
    "schedulerName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "resourceClaims",
    "overhead",
    "resources",
)
_CONTAINERS: Final = ("initContainers", "containers")
_ASKED: Final = ("resources", "ports", "restartPolicy")
_OLD_ATTEMPTS: Final = 3
_FIRST_BACKOFF_SECONDS: Final = 1.0
_LONGEST_BACKOFF_SECONDS: Final = 60.0
_CALM_SECONDS: Final = 300.0


@dataclass(slots=True, eq=False)
class Entry:
    """One pod that was refused."""

    uid: str
    """Its uid."""
    key: str
    """`namespace/name`."""
    created: float
    """When it was created. [unix s]"""
    since: float
    """When it was first refused. [s, monotonic]"""
    group: "Group"
    """The pods that are like it."""
    retried: str = ""
    """The last value of its annotation that we know of."""
    wakes: int = 0
    """How often it was woken and refused again, lately."""
    woken_at: float | None = None
    """When it was woken; None while it waits. [s, monotonic]"""
    generation: int = 0
    """The generation of its spec that its group goes by; 0: the API server does not count them."""
    target: str = ""
    """The node that it was woken for."""
    not_before: float = float("-inf")
    """It is not woken before. [s, monotonic]"""

    @property
    def request(self) -> PodRequest:
        """The pod as plugins see it."""
        return replace(self.group.pod, uid=self.uid, key=self.key, created=self.created)

    def requeue(self, target: str, now: float) -> None:
        """Note that it is being woken for a node."""
        if now - self.not_before > _CALM_SECONDS:
            self.wakes = 0
        self.woken_at, self.target = now, target

    def refused_again(self, now: float) -> None:
        """Note a refusal; after it was woken in vain it waits longer each time: 1 s, 2 s, 4 s, up to a minute."""
        if self.woken_at is not None:
            self.back_off(now)

    def back_off(self, now: float) -> None:
        """Let it wait again, for longer each time."""
        self.woken_at = None
        self.not_before = now + min(_FIRST_BACKOFF_SECONDS * 2**self.wakes, _LONGEST_BACKOFF_SECONDS)
        self.wakes = min(self.wakes + 1, 16)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Group:
    """Pods that differ in name and age alone."""

    pod: PodRequest
    """One of them."""
    entries: dict[str, Entry] = field(default_factory=dict)
    """The pods by uid."""
    nodes: int = 0
    """The nodes that fit otherwise, and that we refused."""
    pending: int = 0
    """Those of them that have to be judged again, as something changed."""
    open_ended: bool = False
    """Whether kube-scheduler may know further nodes: it stopped looking when it had found enough."""
    ready: bool = False
    """Whether some node passed when it was last judged."""
    stale_attempts: int = 0
    """Attempts in a row that brought no further node."""

    def fitting(self, everything: int) -> int:
        """The nodes that may fit otherwise: all there are while kube-scheduler may know further ones."""
        return everything if self.open_ended else self.nodes

    @property
    def guessed(self) -> bool:
        """Whether it is not known which nodes fit: kube-scheduler asked an earlier run of ours."""
        return not self.nodes

    def asked_about(self, nodes: int, count: int, known: int) -> None:
        """Note which nodes kube-scheduler asked about, all of which were refused.

        Args:
            nodes: the nodes.
            count: how many they are.
            known: how many nodes the cluster has.
        """
        if count < TRUNCATED_FROM or count >= known:  # these are all that fit otherwise
            self.nodes, self.open_ended, self.stale_attempts = nodes, False, 0
            return
        # A part of them, another one each time. When some attempts have brought nothing new there are no others.
        further = nodes & ~self.nodes
        self.stale_attempts = 0 if further else self.stale_attempts + 1
        self.nodes |= nodes
        self.open_ended = self.stale_attempts < _OLD_ATTEMPTS


def group_key(pod: PodRequest, json_pod: Mapping[str, Any]) -> GroupKey:
    """What pods have in common that the same nodes fit and that plugins judge alike."""
    spec = json_pod.get("spec") or {}
    constraints = [spec.get(name) for name in _CONSTRAINTS]
    nominations = [(volume or {}).get("persistentVolumeClaim") for volume in spec.get("volumes") or ()]
    # What plugins look at is in the request; ports and the like decide for kube-scheduler.
    asked = [[(part or {}).get(name) for name in _ASKED] for kind in _CONTAINERS for part in spec.get(kind) or ()]
    text = json.dumps([constraints, [nomination for nomination in nominations if nomination], asked], sort_keys=True)
    digest = blake2b(text.encode(), digest_size=16).digest()
    namespace = pod.key.partition("/")[0]
    return (namespace, digest, *(_hashable(getattr(pod, name)) for name in _ALIKE), *sorted(pod.amounts.items()))


def _hashable(value: Any) -> Any:  # noqa: ANN401 - a field's value, and the same as part of a key
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value
