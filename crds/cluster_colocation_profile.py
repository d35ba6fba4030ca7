"""ClusterColocationProfile `config.koordinator.sh/v1alpha1`: the pods that an admission webhook changes, and how.

Kind, group and fields are Koordinator's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from crds.codec import IntOrString, Part
from crds.meta import Condition, ObjectMeta

GROUP: Final = "config.koordinator.sh"
VERSION: Final = "v1alpha1"
PLURAL: Final = "clustercolocationprofiles"
PATH: Final = f"/apis/{GROUP}/{VERSION}/{PLURAL}"


@dataclass(frozen=True, slots=True)
class LabelSelectorRequirement(Part):
    """A requirement of a selector on one label."""

    key: str
    """Name of the label."""
    operator: str
    """In, NotIn, Exists or DoesNotExist."""
    values: tuple[str, ...] | None = None
    """Values for In and NotIn."""


@dataclass(frozen=True, slots=True)
class LabelSelector(Part):
    """A label selector; an empty one matches everything."""

    match_labels: Mapping[str, str] | None = None
    """Required labels with their values."""
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None
    """Further requirements."""


@dataclass(frozen=True, slots=True)
class ClusterColocationProfileSpec(Part):
    """The selection of new pods, and their changes in the order of the fields."""

    namespace_selector: LabelSelector | None = None
    """Namespaces of the pods; absent: all."""
    selector: LabelSelector | None = None
    """Labels of the pods; absent: all."""
    probability: IntOrString | None = None
    """The share of the pods that is changed, as a percentage such as 50 or "50%"; absent: all."""
    labels: Mapping[str, str] | None = None
    """Labels that the pod gets."""
    annotations: Mapping[str, str] | None = None
    """Annotations that the pod gets."""
    label_keys_mapping: Mapping[str, str] | None = None
    """Name of a label -> name of another one that gets its value."""
    annotation_keys_mapping: Mapping[str, str] | None = None
    """Name of an annotation -> name of another one that gets its value."""
    label_suffixes: Mapping[str, str] | None = None
    """Name of a label -> text that is appended to its value."""
    scheduler_name: str | None = None
    """Scheduler of the pod."""
    qos_class: str | None = None
    """Value of the label koordinator.sh/qosClass: LSE, LSR, LS, BE or SYSTEM."""
    priority_class_name: str | None = None
    """PriorityClass of the pod."""
    koordinator_priority: int | None = None
    """Value of the label koordinator.sh/priority."""
    patch: Mapping[str, Any] | None = None
    """Strategic merge patch of the pod."""


@dataclass(frozen=True, slots=True)
class ClusterColocationProfileStatus(Part):
    """The state of the profile."""

    conditions: tuple[Condition, ...] | None = None
    """Condition `InForce`."""


@dataclass(frozen=True, slots=True)
class ClusterColocationProfile(Part):
    """The object; cluster-scoped."""

    API_VERSION: ClassVar[str] = f"{GROUP}/{VERSION}"
    KIND: ClassVar[str] = "ClusterColocationProfile"

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    """Name and versions."""
    spec: ClusterColocationProfileSpec = field(default_factory=ClusterColocationProfileSpec)
    """Written by the operator."""
    status: ClusterColocationProfileStatus | None = None
    """Written by the leading manager."""
