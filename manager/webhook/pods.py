"""Reviews of new pods: of Mid namespaces, where each becomes Mid, and of ClusterColocationProfiles. No I/O.

The webhook configurations select namespaces and labels, so that no other pod waits for the manager.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from crds.mid_translation import Translation, to_mid
from manager.webhook import admission

PATH: Final = "pods"  # path of the webhook
_LOG: Final = logging.getLogger(__name__)

Json = dict[str, Any]


def review(body: bytes, translate: Callable[[Json], Translation] = to_mid) -> tuple[str, Json]:
    """Return the result of a review (translated, unchanged, failed) and the response. Every pod is admitted.

    Args:
        body: the request.
        translate: the change of a pod.

    Raises:
        NotAReviewError: the body is no request of an API server.
    """
    identity, request = admission.decode(body)
    pod = request.get("object")
    created = request.get("operation") == "CREATE" and not request.get("subResource")
    if not created or admission.resource(request) != "v1/pods" or not isinstance(pod, dict):
        return "unchanged", admission.allowed(identity)
    try:
        translation = translate(pod)
    except Exception:  # noqa: BLE001 - the outer runner: a bug must not reject a pod
        _LOG.exception("A pod could not be translated, which should not happen; please report it")
        return "failed", admission.allowed(
            identity, ["headroom-manager left the pod unchanged: its translation failed"]
        )
    patch = _patch(pod, translation.pod)
    return "translated" if patch else "unchanged", admission.allowed(identity, translation.warnings, patch)


def _patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Json]:
    """Return the JSON patch of the changed fields of a pod's metadata and spec."""
    if after is before:
        return []
    return [
        change
        for part in ("metadata", "spec")
        for change in _changes(before.get(part) or {}, after.get(part) or {}, f"/{part}")
    ]


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> list[Json]:
    changed = [name for name in new if name not in old or new[name] != old[name]]
    return [
        *({"op": "add", "path": f"{path}/{name}", "value": new[name]} for name in changed),
        *({"op": "remove", "path": f"{path}/{name}"} for name in old if name not in new),
    ]
