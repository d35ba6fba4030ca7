"""Pods that an earlier run of the extender refused: after a restart nobody else remembers them.

kube-scheduler keeps them and does not ask again, as nothing tells it that the extender knows nothing any more. They are
known by the condition in which kube-scheduler quotes our reasons.
"""

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from scheduler_plugins.framework.cycle import Cycle, PluginError
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.pod import PodRequest

_UNSCHEDULABLE: Final = "Unschedulable"

_LOG: Final = logging.getLogger(__name__)


def quoted_refusal(pod: Mapping[str, Any]) -> str:
    """What kube-scheduler wrote down of its last attempt at a pending pod; empty when it is not waiting."""
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    if spec.get("nodeName") or metadata.get("deletionTimestamp"):
        return ""
    conditions = (each for each in status.get("conditions") or () if each.get("type") == "PodScheduled")
    texts = (str(each.get("message")) for each in conditions if each.get("reason") == _UNSCHEDULABLE)
    return next(texts, "")


class Recovery:
    """Tells pods that an earlier run refused from all others.

    Args:
        cache: reads pods.
        cycle: knows for which reasons a pod may be refused.
    """

    def __init__(self, cache: ClusterCache, cycle: Cycle) -> None:
        self._cache = cache
        self._cycle = cycle
        self._no_nodes: Nodes | None = None

    def __call__(self, pod: Mapping[str, Any]) -> PodRequest | None:
        """The pod as plugins see it, if it waits for one of our reasons.

        Raises:
            QuantityError: a request or limit is not a quantity.
            ValueError: a time cannot be read.
        """
        quoted = quoted_refusal(pod)
        if not quoted:
            return None
        request = self._cache.read(pod)
        return request if self._quotes(quoted, request) else None

    def _quotes(self, text: str, pod: PodRequest) -> bool:
        """Whether a text quotes one of the reasons for which a pod may be refused."""
        try:
            recognised = self._cycle.recognises(text)
        except PluginError as error:
            _LOG.debug("Reasons with numbers cannot be recognised: %s", error)
            recognised = False
        return recognised or any(reason in text for reason in self._reasons(pod))

    def _reasons(self, pod: PodRequest) -> AbstractSet[str]:
        """The reasons for which a pod may be refused at all: a plugin's verdict names them, whichever occur."""
        if self._no_nodes is None:
            self._no_nodes, _ = self._cache.freeze(0.0).select([])
        try:
            return {refusal.reason for refusal in self._cycle.filter(pod, self._no_nodes).refusals}
        except PluginError as error:
            _LOG.debug("The reasons for refusing pods cannot be known: %s", error)
            return set()
