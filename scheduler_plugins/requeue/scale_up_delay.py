"""Keeps Cluster Autoscaler from adding nodes for pods that their quota refuses: no node would help them.

Such a pod is `Unschedulable` as any other, so an autoscaler would add a node that the quota does not let the pod use.
The annotation `cluster-autoscaler.kubernetes.io/pod-scale-up-delay` on the pod is removed when the quota admits it.
Another value of it is not changed.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from crds.names import ANNOTATION_SCALE_UP_DELAY
from scheduler_plugins.requeue.unschedulable import NEVER, Cause, Group, UnschedulablePod

_AS_IS: Final = frozenset({Cause.UNKNOWN, Cause.NONE})  # where a node passes, a pod's turn to be requeued changes it

Patch = dict[str, str | None]  # annotations of a pod; None removes one


def patches(
    groups: Iterable[Group], placed: deque[UnschedulablePod], count: int
) -> Iterator[tuple[UnschedulablePod, Patch]]:
    """Yield up to `count` pods with the patch of their annotations: of the groups, and of pods that were placed."""
    while placed and count:
        pod = placed.popleft()
        if pod.scale_up_delay == NEVER:
            count -= 1
            yield pod, {ANNOTATION_SCALE_UP_DELAY: None}
    for group in groups:
        while group.unsettled and count and group.cause not in _AS_IS:
            waiting = group.pods.get(group.unsettled.pop())
            if waiting is not None and (patch := of_waiting(waiting)):
                count -= 1
                yield waiting, patch


def of_waiting(pod: UnschedulablePod) -> Patch:
    """Return the patch of a pod that waits; empty where its annotation is as its group's refusal requires."""
    cause = pod.group.cause
    if cause is Cause.UNKNOWN or pod.scale_up_delay != ("" if cause is Cause.POD else NEVER):
        return {}
    return {ANNOTATION_SCALE_UP_DELAY: NEVER if cause is Cause.POD else None}
