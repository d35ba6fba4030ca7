"""The common part of pods of one workload: decoding it once saves most of the cost of reading pods."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from crds import names

TEMPLATE_BYTES: Final = 2 * 2**20
"""The limit of cached pods by these keys, in each place: some thousand workloads. [bytes]"""

_OWN: Final = frozenset(
    {names.ANNOTATION_RECLAIM_HOLD, names.ANNOTATION_SCHEDULING_RETRY, names.ANNOTATION_SCALE_UP_DELAY}
)
_TOKEN: Final = "kube-api-access-"  # noqa: S105 - how the volume with a pod's token is named, with letters of its own
_ENCODE: Final = msgspec.json.Encoder().encode

Json = Mapping[str, Any]


class TemplateKeys:
    """Keys of pods; that of the last pod is cached, since several parts use it in turn."""

    def __init__(self) -> None:
        self._last: tuple[Json, bytes] = ({}, b"")

    def make(self, pod: Json) -> bytes:
        """Equal for typed pods that differ in nothing but name, uid, node, token volume, times and other status.

        The state of a resize, and whether it has a node at all and has ended, distinguish pods.
        """
        key = blake2b(_ENCODE(_parts(pod)), digest_size=16).digest()
        self._last = pod, key
        return key

    def __call__(self, pod: Json) -> bytes:
        """The same, from memory where that of this very pod was made last."""
        return self._last[1] if self._last[0] is pod else self.make(pod)


def _parts(pod: Json) -> Sequence[Any]:
    metadata, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    annotations = metadata.get("annotations") or {}
    if not _OWN.isdisjoint(annotations):
        annotations = {name: text for name, text in annotations.items() if name not in _OWN}
    return (
        metadata.get("namespace"),
        metadata.get("labels"),
        metadata.get("ownerReferences"),
        annotations,
        bool(spec.get("nodeName")),
        shared_spec(spec),
        [_resized(container) for container in status.get("containerStatuses") or ()],
        [_resized(container) for container in status.get("initContainerStatuses") or ()],
        status.get("phase"),
        status.get("qosClass"),
        status.get("resources"),
        status.get("allocatedResources"),
        [
            (condition.get("type"), condition.get("status"), condition.get("reason"))
            for condition in status.get("conditions") or ()
            if str(condition.get("type")).startswith("PodResize")
        ],
    )


def _resized(container: Json) -> Sequence[Any]:
    return container.get("name"), container.get("resources"), container.get("allocatedResources")


def shared_spec(spec: Json) -> Json:
    """A pod's spec without the node and the volume of the token, which set pods of one workload apart."""
    shared = {**spec}
    shared.pop("nodeName", None)
    if volumes := shared.get("volumes"):
        shared["volumes"] = [volume for volume in volumes if not str(volume.get("name")).startswith(_TOKEN)]
    return shared


template_key: Final = TemplateKeys()
