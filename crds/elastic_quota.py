"""ElasticQuota `scheduling.x-k8s.io/v1alpha1`: the guaranteed and the largest share of a namespace, and its usage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from crds.codec import Part, QuantityText
from crds.meta import Condition, ObjectMeta

GROUP: Final = "scheduling.x-k8s.io"
VERSION: Final = "v1alpha1"
PLURAL: Final = "elasticquotas"


@dataclass(frozen=True, slots=True)
class ElasticQuotaSpec(Part):
    """The bounds; an absent map is not an empty one."""

    min: Mapping[str, QuantityText] | None = None
    """Guaranteed to the namespace, per resource."""
    max: Mapping[str, QuantityText] | None = None
    """Never exceeded by the namespace, per resource."""


@dataclass(frozen=True, slots=True)
class ElasticQuotaStatus(Part):
    """The usage that admission charges, and the conditions of the quota."""

    used: Mapping[str, QuantityText] | None = None
    """In use, per resource."""
    conditions: tuple[Condition, ...] | None = None
    """Conditions `InForce`, `MinWithinMax`, `MinWithinCapacity`, `UsedWithinMax`; `ResourcesCounted` where False."""


@dataclass(frozen=True, slots=True)
class ElasticQuota(Part):
    """The object; namespaced, one per namespace."""

    API_VERSION: ClassVar[str] = f"{GROUP}/{VERSION}"
    KIND: ClassVar[str] = "ElasticQuota"

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    """Name, namespace and versions."""
    spec: ElasticQuotaSpec = field(default_factory=ElasticQuotaSpec)
    """Written by the operator."""
    status: ElasticQuotaStatus | None = None
    """Written by the leading extender."""
