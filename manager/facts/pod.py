"""One pod, reduced to what formulas need."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from crds import names
from crds.pod import is_terminal, pod_key, pod_requests
from crds.priority import PriorityBand, tier
from crds.quantity import QuantityError, milli_value, value
from manager.facts.amounts import Amounts
from manager.facts.reading import Json


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What is remembered of one pod: 150,000 of them must fit into a gigabyte with everything else."""

    key: str
    """Namespace/name."""
    uid: str
    """Identity of this very pod."""
    node: str
    """Node it is bound to; empty while it waits for one."""
    band: PriorityBand
    """Tier in every sum; a pod that requests Mid resources is Mid."""
    terminal: bool
    """Whether it has ended for good."""
    requests: Amounts
    """Native requests (`cpu`, `memory`)."""
    mid_requests: Amounts
    """Requests of `kubernetes.io/mid-*`."""

    @classmethod
    def from_object(cls, pod: Json) -> Self:
        """Reduce a Pod to what formulas need. An amount that cannot be read counts as not requested."""
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        try:
            requested = pod_requests(pod)
        except QuantityError:  # the API server admits no such pod
            requested = {}
        nothing = Fraction(0)
        return cls(
            key=pod_key(pod),
            uid=str(metadata.get("uid", "")),
            node=str(spec.get("nodeName") or ""),
            band=tier(pod),
            terminal=is_terminal(pod),
            requests=Amounts(milli_value(requested.get("cpu", nothing)), value(requested.get("memory", nothing))),
            mid_requests=Amounts(
                value(requested.get(names.MID_CPU, nothing)), value(requested.get(names.MID_MEMORY, nothing))
            ),
        )

    @property
    def above_mid(self) -> bool:
        """Whether its requests come before anything that Mid may have: Prod, and pods without a band."""
        return self.band is PriorityBand.PROD and not self.terminal

    @property
    def holds_mid(self) -> bool:
        """Whether it is a bound Mid pod that has not ended, so that the Node must go on offering what it bought."""
        return bool(self.mid_requests) and bool(self.node) and not self.terminal
