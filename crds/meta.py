"""The metadata and the conditions of Kubernetes objects."""

from collections.abc import Mapping
from dataclasses import dataclass

from crds.codec import Part


@dataclass(frozen=True, slots=True)
class ObjectMeta(Part):
    """Metadata of an object, as far as we read it; everything else survives in `unknown`."""

    name: str | None = None
    """Name; unique per kind (and namespace)."""
    namespace: str | None = None
    """Namespace; absent for cluster-scoped kinds."""
    uid: str | None = None
    """Identity of this very object, new after a delete and create."""
    resource_version: str | None = None
    """Version of the object for watches and conflicts."""
    generation: int | None = None
    """Counts changes of the spec."""
    creation_timestamp: str | None = None
    """When it was created, RFC 3339."""
    deletion_timestamp: str | None = None
    """When its deletion was requested, RFC 3339."""
    labels: Mapping[str, str] | None = None
    """Labels."""
    annotations: Mapping[str, str] | None = None
    """Annotations."""


@dataclass(frozen=True, slots=True)
class Condition(Part):
    """A condition of a status, as in `metav1.Condition`."""

    type: str
    """The aspect that it describes, such as "PredictionReady"."""
    status: str
    """"True", "False" or "Unknown"."""
    reason: str | None = None
    """A CamelCase reason for programs."""
    message: str | None = None
    """A sentence for people, with what can be done."""
    last_transition_time: str | None = None
    """When `status` last changed, RFC 3339."""
    observed_generation: int | None = None
    """The generation of the spec that this speaks of."""
