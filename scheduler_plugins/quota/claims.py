"""The ResourceClaims that a pod names."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class ClaimKey(NamedTuple):
    """A ResourceClaim, or a ResourceClaimTemplate."""

    template: bool
    namespace: str
    name: str


def claims_of(pod: Mapping[str, Any]) -> tuple[ClaimKey, ...]:
    """Return the claims that a typed pod names. A generated claim counts by its template."""
    namespace = str((pod.get("metadata") or {}).get("namespace") or "")
    return tuple(
        ClaimKey(bool(template), namespace, str(template or claim.get("resourceClaimName") or ""))
        for claim in (pod.get("spec") or {}).get("resourceClaims") or ()
        for template in [claim.get("resourceClaimTemplateName")]
    )
