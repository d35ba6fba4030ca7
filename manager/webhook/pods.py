"""Reviews of new pods in namespaces with the label `headroom.dev/tier: mid`: each becomes Mid. No I/O.

The webhook configuration selects the namespaces, so that no other pod waits for the manager.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from crds.mid_translation import to_mid
from manager.webhook import admission

PATH: Final = "pods"  # path of the webhook
_LOG: Final = logging.getLogger(__name__)

Json = dict[str, Any]


def review(body: bytes) -> tuple[str, Json]:
    """Return the result of a review (translated, unchanged, failed) and the response. Every pod is admitted.

    Raises:
        NotAReviewError: the body is no request of an API server.
    """
    identity, request = admission.decode(body)
    pod = request.get("object")
    created = request.get("operation") == "CREATE" and not request.get("subResource")
    if not created or admission.resource(request) != "v1/pods" or not isinstance(pod, dict):
        return "unchanged", admission.allowed(identity)
    try:
        translation = to_mid(pod)
    except Exception:  # noqa: BLE001 - the outer runner: a bug must not reject a pod
        _LOG.exception("A pod could not be translated, which should not happen; please report it")
        return "failed", admission.allowed(
            identity, ["headroom-manager left the pod unchanged: its translation failed"]
        )
    patch = _patch(pod, translation.pod)
    return "translated" if patch else "unchanged", admission.allowed(identity, translation.warnings, patch)


def _patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Json]:
    """Return the JSON patch of the changed fields of a pod's spec."""
    if after is before:
        return []
    old, new = before["spec"], after["spec"]
    changed = [name for name in new if name not in old or new[name] != old[name]]
    return [
        *({"op": "add", "path": f"/spec/{name}", "value": new[name]} for name in changed),
        *({"op": "remove", "path": f"/spec/{name}"} for name in old if name not in new),
    ]
