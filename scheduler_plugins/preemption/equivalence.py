"""Equivalence classes of waiting pods: pods of one class share a decision.

The pods of an indexed Job or a StatefulSet have a label each of their own, and every pod has a volume of its own for
its token. Of labels only those decide that some selector reads, and of volumes only of what kind they are.
"""

import json
from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from crds import names
from headroom.cluster import selector
from scheduler_plugins.preemption.constraints import insufficient, kinds_beyond_model
from scheduler_plugins.preemption.pending import is_about_resources, refusal_of
from scheduler_plugins.quota.affinity import AffinityTerm
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.snapshot.cache import ClusterCache

_CONSTRAINTS: Final = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "preemptionPolicy",
)
_ALWAYS: Final = frozenset({names.LABEL_PRIORITY_CLASS, names.LABEL_QOS})


class EquivalenceClass:
    """The keys of pods, for as long as they do not change."""

    def __init__(self, cluster: QuotaCluster, cache: ClusterCache) -> None:
        self._cluster = cluster
        self._cache = cache
        self._known: dict[str, tuple[QuotaPod, Hashable]] = {}
        self._read: AbstractSet[str] = frozenset()

    def begin(self, waiting: Iterable[QuotaPod]) -> None:
        """Read the labels that distinguish pods now, and forget all pods that no longer wait."""
        self._known = {pod.uid: self._known[pod.uid] for pod in waiting if pod.uid in self._known}
        terms = {id(pod.anti_affinity): pod.anti_affinity for pod in self._cluster.with_anti_affinity}
        self._read = _ALWAYS.union(*map(_keys, terms.values()))

    def of(self, pod: QuotaPod) -> Hashable:
        """Return the key of a pod's class.

        Raises:
            PluginError: a plugin failed.
            ValueError: the pod cannot be read.
        """
        cached = self._known.get(pod.uid)
        if cached is None or cached[0] is not pod:
            cached = self._known[pod.uid] = pod, self._fixed(pod)
        labels = tuple((key, pod.labels[key]) for key in sorted(self._read) if key in pod.labels)
        return cached[1], labels

    def _fixed(self, pod: QuotaPod) -> Hashable:
        item = pod.json or {}
        spec, request = item.get("spec") or {}, self._cache.read(item)
        return (
            pod.namespace,
            pod.priority,
            pod.nominated,
            pod.host_ports,
            frozenset(pod.requests.items()),
            frozenset(pod.charge.items()),
            json.dumps([spec.get(name) for name in _CONSTRAINTS], sort_keys=True),
            kinds_beyond_model(spec),
            is_about_resources(refusal_of(item)),
            insufficient(item),
            (
                request.estimate,
                request.window,
                request.band,
                request.of_daemon_set,
                request.requests_mid,
                request.alike,
            ),
        )


def _keys(terms: Iterable[AffinityTerm]) -> AbstractSet[str]:
    return frozenset().union(*(selector.keys(term.selector) for term in terms))
