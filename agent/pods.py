"""Pods on this node as the other stages need them: who they are, what they asked for, where their cgroup is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from crds.priority import PriorityBand, QoS

Resources = Mapping[str, int]
"""Amounts by resource name: ``cpu`` in milli-cores, ``memory`` in bytes. What was not asked for is absent."""


@dataclass(frozen=True, slots=True)
class PodRef:
    """One pod on this node."""

    uid: str
    """Its metadata.uid; the entity of its samples."""
    namespace: str
    """Its namespace; empty when found in the cgroup tree alone."""
    name: str
    """Its name; the uid when found in the cgroup tree alone."""
    band: PriorityBand
    """The tier that it counts to in every sum: PROD for band prod and none; MID when it requests Mid resources."""
    qos: QoS
    """Its QoS class, with the default of its Kubernetes QoS."""
    requests: Resources = field(default_factory=dict)
    """What it requests. [milli-cores, bytes]"""
    limits: Resources = field(default_factory=dict)
    """What it may use at most. [milli-cores, bytes]"""
    priority_label: str = ""
    """Its priority class as reported (with the default of its QoS): ``koord-prod`` … or empty."""
    cgroup_uid: str = ""
    """The uid in its cgroup directory's name: the config hash for a static pod, else the uid."""
    created: float = 0.0
    """When it was created. [seconds since 1970]"""
    workload: str | None = None
    """The workload whose history it shares, or None."""
    terminal: bool = False
    """Whether it has ended: Succeeded or Failed. Terminal pods are not measured."""
