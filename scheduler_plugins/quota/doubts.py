"""Pods of which it is not known, after a start, whether an earlier run of this process has let them through.

kube-scheduler may still bind them, one by one and for as long as its own queue of bindings lasts. They are counted
beside what is used until they are asked about, seen bound or gone, or until enough time has passed.
"""

from collections.abc import Iterable
from typing import Final

from scheduler_plugins.quota.amounts import NOTHING, Amounts, minus, plus
from scheduler_plugins.quota.book import QuotaBook
from scheduler_plugins.quota.pod import QuotaPod


class Doubts:
    """The pods in doubt.

    Args:
        pods: to begin with.
    """

    __slots__ = ("_pods", "_sums")

    def __init__(self, pods: Iterable[QuotaPod] = ()) -> None:
        self._pods: dict[str, QuotaPod] = {}
        self._sums: dict[str, Amounts] = {}
        for pod in pods:
            self.put(pod)

    def __bool__(self) -> bool:
        return bool(self._pods)

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def copy(self) -> "Doubts":
        """Another one, to be changed at will."""
        return Doubts(self._pods.values())

    def put(self, pod: QuotaPod) -> None:
        """It is not known of a pod whether it is on its way."""
        self.drop(pod.uid)
        self._pods[pod.uid] = pod
        self._sums[pod.namespace] = plus(self._sums.get(pod.namespace, NOTHING), pod.charge)

    def drop(self, uid: str) -> bool:
        """It is known of a pod. Returns whether it was in doubt."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return False
        self._sums[pod.namespace] = minus(self._sums[pod.namespace], pod.charge)
        return True

    def beside(self, uid: str, namespace: str, book: QuotaBook) -> tuple[Amounts, Amounts]:
        """What pods in doubt would be charged: to a namespace, and to all that have a quota.

        Args:
            uid: of a pod that is not counted: it is asked about, so it is not on its way.
            namespace: the namespace.
            book: knows the quotas, and who is charged for certain.
        """
        known = {each for each in (uid, *(book.tentative & self._pods.keys())) if each in self._pods}
        own, total = self._sums.get(namespace, NOTHING), NOTHING
        for name, amounts in self._sums.items():
            if book.quota(name) is not None:
                total = plus(total, amounts)
        for each in known:
            pod = self._pods[each]
            own = minus(own, pod.charge) if pod.namespace == namespace else own
            total = minus(total, pod.charge) if book.quota(pod.namespace) is not None else total
        return own, total


NO_DOUBTS: Final = Doubts()
"""There are none; nobody puts any in."""
