"""The priorities of the pods that run in each namespace: whether anybody there could make room for a pod of its own."""

from collections import Counter

from scheduler_plugins.quota.pod import QuotaPod


class Ranks:
    """Counts of bound pods by namespace and priority. Static pods make no room by leaving, and are left out."""

    def __init__(self) -> None:
        self._of: dict[str, Counter[int]] = {}

    def add(self, pod: QuotaPod) -> None:
        """A pod is bound."""
        if not pod.static:
            self._of.setdefault(pod.namespace, Counter())[pod.priority] += 1

    def remove(self, pod: QuotaPod) -> None:
        """A pod that was added is not bound any more."""
        if not pod.static:
            counts = self._of[pod.namespace]
            counts[pod.priority] -= 1
            if not counts[pod.priority]:
                del counts[pod.priority]
            if not counts:
                del self._of[pod.namespace]

    def any_below(self, namespace: str, priority: int) -> bool:
        """Whether a pod of less priority is bound in a namespace."""
        return any(each < priority for each in self._of.get(namespace, ()))
