"""What pods of one workload have in common: reading it once for all of them is most of what reading pods costs."""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

TEMPLATE_BYTES: Final = 2 * 2**20
"""What is remembered of pods by these keys, in each place: that of some thousand workloads. [bytes]"""

_OWN: Final = frozenset({"nodeName", "hostname", "volumes", "containers", "initContainers"})
_TOKEN: Final = "kube-api-access-"  # noqa: S105 - how the volume with a pod's token is named, with letters of its own
_RESIZED: Final = ("name", "resources", "allocatedResources")
_ENCODE: Final = msgspec.json.Encoder().encode

Json = Mapping[str, Any]


class TemplateKeys:
    """Keys of pods; that of the last pod is remembered, since several parts ask for it in turn."""

    def __init__(self) -> None:
        self._last: tuple[Json, bytes] = ({}, b"")

    def make(self, pod: Json) -> bytes:
        """Equal for pods that differ in nothing but name, uid, node, token volume, times and other status.

        What says how far a resize has come, and whether it has a node at all and has ended, sets pods apart.
        """
        key = blake2b(_ENCODE(list(_parts(pod))), digest_size=16).digest()
        self._last = pod, key
        return key

    def __call__(self, pod: Json) -> bytes:
        """The same, from memory where that of this very pod was made last."""
        return self._last[1] if self._last[0] is pod else self.make(pod)


def _parts(pod: Json) -> Iterator[Any]:
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    yield from (metadata.get(name) for name in ("namespace", "labels", "annotations", "ownerReferences"))
    yield bool(spec.get("nodeName"))
    yield {name: value for name, value in spec.items() if name not in _OWN}
    yield _without_token(spec.get("volumes"))
    for kind in ("containers", "initContainers"):
        yield [{**each, "volumeMounts": _without_token(each.get("volumeMounts"))} for each in spec.get(kind) or ()]
        yield [[each.get(name) for name in _RESIZED] for each in status.get(f"{kind[:-1]}Statuses") or ()]
    yield from (status.get(name) for name in ("phase", "qosClass", "resize", "resources", "allocatedResources"))
    yield [
        [each.get("type"), each.get("status"), each.get("reason")]
        for each in status.get("conditions") or ()
        if str(each.get("type")).startswith("PodResize")
    ]


def _without_token(named: Any) -> Any:  # noqa: ANN401 - volumes or mounts; what is no list of them decides nothing
    if not isinstance(named, list):
        return named
    return [each for each in named if not (isinstance(each, dict) and str(each.get("name")).startswith(_TOKEN))]


template_key: Final = TemplateKeys()
