"""Terms of inter-pod anti-affinity: which pods a pod must not be placed near."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headroom.cluster.selector import matches
from headroom.cluster.shape import check_pod_terms
from headroom.runtime.bounded_cache import BoundedCache, of_json

Json = Mapping[str, Any]

_REMEMBERED_BYTES: Final = 8 * 2**20


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Pods that another pod must not be placed near."""

    namespaces: frozenset[str]  # pods of these namespaces are meant
    namespace_selector: Json | None  # pods of namespaces with such labels are meant, too; None: no further ones
    selector: Json | None  # pods with such labels are meant; None: no pods at all

    def reaches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether pods of a namespace are meant."""
        return namespace in self.namespaces or matches(self.namespace_selector, labels)

    def picks(self, labels: Mapping[str, str]) -> bool:
        """Return whether pods with these labels are meant, if their namespace is."""
        return matches(self.selector, labels)


def required_anti_affinity(pod: Json) -> tuple[AffinityTerm, ...]:
    """Return the required anti-affinity of a pod, given as Kubernetes JSON.

    Raises:
        CodecError: a term has another shape than it should.
    """
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("podAntiAffinity") or {}
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not terms:
        return ()
    return _terms((str((pod.get("metadata") or {}).get("namespace") or ""), json.dumps(terms, sort_keys=True)))


def _read(key: tuple[str, str]) -> tuple[AffinityTerm, ...]:
    """The terms of a namespace and their JSON. Pods of one workload have the same ones, which are kept once.

    `matchLabelKeys` and `mismatchLabelKeys` are ignored: the API server writes them into the selector.
    """
    namespace, text = key
    terms = json.loads(text)
    check_pod_terms(terms, "spec.affinity.podAntiAffinity")
    return tuple(
        AffinityTerm(
            frozenset(term.get("namespaces") or (() if term.get("namespaceSelector") is not None else (namespace,))),
            term.get("namespaceSelector"),
            term.get("labelSelector"),
        )
        for term in terms
    )


_terms: Final = BoundedCache(_read, _REMEMBERED_BYTES, of_json)
