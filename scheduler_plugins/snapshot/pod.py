"""A pod as the scheduler needs it: identity, estimated usage, and node."""

import json
import sys
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from crds.priority import PriorityBand, priority_class, requests_mid
from headroom.cluster.pod import is_terminal, pod_key
from headroom.cluster.typed_pod import MOST_AMOUNTS, MOST_CONTAINERS, USUAL, extended_amounts
from scheduler_plugins.snapshot.accounts import Accounts
from scheduler_plugins.snapshot.estimate import (
    EstimationWindow,
    LoadRules,
    condition_time,
    estimate_vector,
    estimation_window,
)
from scheduler_plugins.snapshot.preferences import NO_PREFERENCES, Preferences
from scheduler_plugins.snapshot.units import Vector, unix_time

_KINDS: Final = ("containers", "initContainers")
_CONDITION: Final = 'k:{"type":"PodScheduled"}'
_NO_AMOUNTS: Final[Mapping[str, Vector]] = MappingProxyType({})
NO_FACTS: Final[Mapping[str, Any]] = MappingProxyType({})


class Refusal(NamedTuple):
    """The reason of kube-scheduler's last recorded refusal."""

    words: str  # reason and message of the condition
    written: float | None
    """The time of the condition's last change; None: unknown. [unix s]"""


class PodTemplate(NamedTuple):
    """The common part of pods with the same `template_key`."""

    band: PriorityBand
    priority: int
    estimate: Vector
    of_daemon_set: bool
    requests_mid: bool
    preferences: Preferences
    present: bool
    amounts: Mapping[str, Vector]
    within_bounds: bool  # whether all amounts of the pod count, see `bounded`

    @classmethod
    def of(cls, pod: Mapping[str, Any], rules: LoadRules, accounts: Accounts | None) -> "PodTemplate":
        """Read a pod. Raises as `PodRequest.from_json`."""
        given, pod = pod, bounded(pod)
        within_bounds = pod is given
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        if max([len(spec.get(kind) or ()) for kind in _KINDS]) > MOST_CONTAINERS:
            pod = _shorter(pod)
        return cls(
            band=priority_class(pod),
            priority=_priority(spec),
            estimate=estimate_vector(pod, rules),
            of_daemon_set=any(owner.get("kind") == "DaemonSet" for owner in metadata.get("ownerReferences") or ()),
            requests_mid=requests_mid(pod),
            preferences=NO_PREFERENCES if spec.get("nodeName") else Preferences.of(pod),
            present=not is_terminal(pod),
            amounts=accounts.read(pod) if accounts else _NO_AMOUNTS,
            within_bounds=within_bounds,
        )


@dataclass(slots=True)  # not frozen, which would take three times as long to construct
class PodRequest:
    """A pod, pending or placed."""

    uid: str  # its identity; a recreated pod of the same name has another
    key: str  # `namespace/name`
    node_name: str  # where it is bound; empty while it is pending
    band: PriorityBand  # its band, by label, priority or QoS
    priority: int  # its `spec.priority`; 0 where it states none, as kube-scheduler counts
    created: float  # when it was created; 0: unknown. [unix s]
    estimate: Vector  # its estimated usage. [per resource of the load rules]
    window: EstimationWindow  # until when the estimate counts although usage is reported
    scheduled_at: float | None  # time of its condition PodScheduled=True. [unix s]
    refused_at: float | None  # time of its condition PodScheduled=False, which a further refusal does not move [unix s]
    refusal: Refusal | None  # the condition's message; None without it
    fingerprint: bytes  # changes with spec and conditions; only for a placed pod without a time of scheduling
    of_daemon_set: bool  # whether a DaemonSet owns it
    requests_mid: bool  # whether it requests, or is limited to, a Mid resource
    preferences: Preferences  # its soft constraints while it is pending, and the taints that it tolerates
    present: bool
    """True if it uses anything where it is, or may: it has not ended. No annotation of its own makes it absent."""
    amounts: Mapping[str, Vector] = field(default_factory=lambda: _NO_AMOUNTS)
    """Numbers that plugins wanted to know of it, by plugin name."""
    facts: Mapping[str, Any] = field(default_factory=lambda: NO_FACTS)
    """Further facts of the pending pod for plugins, by plugin name."""
    alike: tuple[Hashable, ...] = ()  # the part of these facts that is the same for pods that are evaluated alike

    @property
    def prod(self) -> bool:
        return self.band is PriorityBand.PROD

    def drop_facts(self) -> "PodRequest":
        """Drop the facts of plugins, which keep those of bound pods themselves: there may be 150,000 pods."""
        self.facts, self.alike = NO_FACTS, ()
        return self

    @classmethod
    def from_json(
        cls,
        pod: Mapping[str, Any],
        rules: LoadRules,
        accounts: Accounts | None = None,
        template: Callable[[Mapping[str, Any]], PodTemplate] | None = None,
    ) -> "PodRequest":
        """Read a pod. Values equal for many of the up to 150,000 pods are kept once.

        Args:
            pod: as `decode_pod` returns it.
            rules: how load is counted.
            accounts: the plugins' facts.
            template: reads the common part, possibly from a cache.

        Raises:
            QuantityError: a request or limit is not a quantity.
            ValueError: a time is not RFC 3339.
        """
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        common = template(pod) if template else PodTemplate.of(pod, rules, accounts)
        facts = accounts.facts(pod if common.within_bounds else bounded(pod)) if accounts else NO_FACTS
        node_name, scheduled_at = str(spec.get("nodeName") or ""), condition_time(pod, "PodScheduled")
        refused_at = condition_time(pod, "PodScheduled", "False") if scheduled_at is None else None
        return cls(
            uid=sys.intern(str(metadata.get("uid") or "")),
            key=sys.intern(pod_key(pod)),
            node_name=sys.intern(node_name),
            band=common.band,
            priority=common.priority,
            created=unix_time(metadata.get("creationTimestamp")) or 0.0,
            estimate=common.estimate,
            window=estimation_window(pod, rules),
            scheduled_at=scheduled_at,
            refused_at=refused_at,
            refusal=None if node_name else _refusal(pod),
            fingerprint=_fingerprint(pod) if node_name and scheduled_at is None else b"",
            of_daemon_set=common.of_daemon_set,
            requests_mid=common.requests_mid,
            preferences=common.preferences,
            present=common.present,
            amounts=common.amounts,
            facts=facts,
            alike=accounts.alike(facts) if accounts and facts and not node_name else (),
        )


def _shorter(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """A bound pod with as many containers as count as load until its usage is measured."""
    spec = pod["spec"]
    return {**pod, "spec": {**spec, **{kind: (spec.get(kind) or [])[:MOST_CONTAINERS] for kind in _KINDS}}}


def bounded(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """A bound pod with the amounts that count: those of usual resources, and the first of others."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or extended_amounts(spec) <= MOST_AMOUNTS:
        return pod
    left = iter(range(MOST_AMOUNTS))

    def cut(amounts: Mapping[str, Any] | None) -> Mapping[str, Any]:
        return {name: each for name, each in (amounts or {}).items() if name in USUAL or next(left, None) is not None}

    def smaller(part: Mapping[str, Any]) -> Mapping[str, Any]:
        stated = part.get("resources") or {}
        return {**part, "resources": {kind: cut(stated.get(kind)) for kind in ("requests", "limits")}}

    kinds = {kind: [smaller(container) for container in spec.get(kind) or ()] for kind in _KINDS}
    status = {**(pod.get("status") or {}), "containerStatuses": [], "initContainerStatuses": []}
    return {**pod, "spec": {**smaller(spec), **kinds, "overhead": cut(spec.get("overhead"))}, "status": status}


def _priority(spec: Mapping[str, Any]) -> int:
    priority = spec.get("priority")
    return priority if type(priority) is int else 0


def _fingerprint(pod: Mapping[str, Any]) -> bytes:
    parts = [pod.get("spec"), (pod.get("status") or {}).get("conditions")]
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=8).digest()


def _refusal(pod: Mapping[str, Any]) -> Refusal | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return Refusal(f"{condition.get('reason')}: {condition.get('message')}", _written(pod))
    return None


def _written(pod: Mapping[str, Any]) -> float | None:
    """Return when the owner of the condition PodScheduled last changed the status."""
    for entry in (pod.get("metadata") or {}).get("managedFields") or ():
        status = (entry.get("fieldsV1") or {}).get("f:status") or {}
        if _CONDITION in (status.get("f:conditions") or {}):
            return unix_time(entry.get("time"))
    return None
