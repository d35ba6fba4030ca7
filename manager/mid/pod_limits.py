"""Mid pods that can use more than they requested because they have no native limits, and those that do use more."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from manager.inputs import Amounts, PodInputs, total
from manager.mid.eviction import text
from manager.mid.eviction.selection import beyond_requests


@dataclass(frozen=True, slots=True)
class PodLimits:
    """The running Mid pods without native limits, and those that use more than they requested, by name.

    Of 64Mi memory that a pod requested it uses 603Mi, and none of its containers has a limit: the pod is in both.
    """

    unlimited: tuple[PodInputs, ...] = ()
    beyond: tuple[tuple[PodInputs, Amounts], ...] = ()  # with the usage beyond the requests [milli-cores, bytes]

    @classmethod
    def of(cls, pods: Iterable[PodInputs], usage: Mapping[str, Amounts]) -> Self:
        """Evaluate pods.

        Args:
            pods: pods of one or more nodes; only Mid pods that run count.
            usage: usage of pods by "namespace/name", as reported; a pod without one counts as within its requests.
        """
        mid_pods = sorted((pod for pod in pods if pod.holds_mid), key=lambda pod: pod.key)
        return cls(
            tuple(pod for pod in mid_pods if pod.mid and pod.mid.unlimited),
            tuple((pod, beyond) for pod in mid_pods if (beyond := beyond_requests(pod, usage))),
        )

    @property
    def total_beyond(self) -> Amounts:
        """The usage of all pods beyond their requests. [milli-cores, bytes]"""
        return total(beyond for _, beyond in self.beyond)

    def unlimited_texts(self) -> list[str]:
        """Return a text about each pod: "shop/report-7 (cpu and memory)"."""
        return [f"{pod.key} ({' and '.join(pod.mid.unlimited if pod.mid else ())})" for pod in self.unlimited]

    def beyond_texts(self) -> list[str]:
        """Return a text about each pod: "shop/report-7 (requested 64Mi memory, used 539Mi memory more)"."""
        return [
            f"{pod.key} (requested {text.amounts(pod.mid_requests)}, used {text.amounts(beyond)} more)"
            for pod, beyond in self.beyond
        ]
