"""The taint `headroom.dev/hot` on a Node. Other taints stay: the list is written as a whole, so only as it was read.

Server-side apply cannot own one entry of `spec.taints`, because the API declares that list atomic.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crds.names import TAINT_HOT
from headroom.kube import ApiError, ApiServer, paths
from manager.inputs.reading import get_objects

_ATTEMPTS: Final = 10  # how often a Node that others change meanwhile is read and written

Json = dict[str, Any]


def changed(taints: Sequence[Mapping[str, Any]], effect: str) -> list[Mapping[str, Any]]:
    """Return the taints of a Node with this effect of ours alone; without ours where the effect is empty."""
    foreign = [taint for taint in taints if taint.get("key") != TAINT_HOT]
    return [*foreign, {"key": TAINT_HOT, "effect": effect}] if effect else foreign


async def write(api: ApiServer, name: str, uid: str, effect: str) -> Json | None:
    """Set the taint to an effect, or remove it (empty).

    Returns:
        The Node afterwards; `None` when the Node with this uid is gone.

    Raises:
        ApiError: the API server refuses the write, or the Node changed at each attempt.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            node = await api.get(paths.node(name))
            if uid not in {"", node["metadata"].get("uid")}:
                return None
            taints = get_objects(node, "spec", "taints")
            wanted = changed(taints, effect)
            if wanted == taints:
                return node
            version = node["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": wanted or None}}
            return await api.patch(paths.node(name), patch)
        except ApiError as error:
            if error.not_found:
                return None
            if not error.conflict or attempt == _ATTEMPTS:
                raise
    return None
