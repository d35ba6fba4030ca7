"""Pods that kube-scheduler found no node for, as the watch shows them."""

import asyncio
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from scheduler_plugins.quota.hold import Hold

_UNSCHEDULABLE: Final = "Unschedulable"
_COUNTED: Final = re.compile(r", (?=\d+ )")
_KNOWN_REASONS: Final = (
    "Insufficient ",
    "Too many pods",
    "ElasticQuota ",
    "node(s) resources reserved",
    "node(s) had untolerated taint",
    "node(s) were unschedulable",
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't have free ports",
)

Json = Mapping[str, Any]


class Pending:
    """Pending pods, and the holds that the watch has shown. Receives pods after the quota ledger.

    The watch brings the changes of pods in their order. So once it has shown a hold that was written here, everything
    that had happened to any pod before is known here, too.
    """

    def __init__(self, schedulers: AbstractSet[str], bound: Callable[[str], None]) -> None:
        self._schedulers = schedulers
        self._bound = bound
        self.waiting: dict[str, None] = {}  # uids of pods that found no node
        self.shown: dict[str, Hold] = {}  # holds of pods that are not bound, by uid, as the watch showed them last
        self.changed = asyncio.Event()  # set when there may be something to do at once

    def put_pod(self, pod: Json) -> None:
        """A pod is there, or has changed."""
        uid = str(pod["metadata"].get("uid"))
        if (pod.get("spec") or {}).get("nodeName"):
            if uid in self.waiting or uid in self.shown:
                if uid in self.shown:
                    self._bound(uid)
                self.delete_pod(uid)
            return
        if (pod.get("spec") or {}).get("schedulerName") not in self._schedulers:
            return  # also its hold is for others to go on with
        hold = Hold.of_pod(pod)
        if hold is None:
            self.shown.pop(uid, None)
        elif self.shown.get(uid) != hold:
            self.shown[uid] = hold
            self.changed.set()
        if not refusal_of(pod):
            self.waiting.pop(uid, None)
        elif uid not in self.waiting:
            self.waiting[uid] = None
            self.changed.set()

    def delete_pod(self, uid: str) -> None:
        self.waiting.pop(uid, None)
        self.shown.pop(uid, None)


def refusal_of(pod: Json) -> str:
    """Return kube-scheduler's message about its last attempt at a pod; empty for a pod that does not wait."""
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    if spec.get("nodeName") or metadata.get("deletionTimestamp") or spec.get("schedulingGates"):
        return ""
    return next(
        (
            str(condition.get("message") or _UNSCHEDULABLE)
            for condition in status.get("conditions") or ()
            if condition.get("type") == "PodScheduled"
            and condition.get("status") == "False"
            and condition.get("reason") == _UNSCHEDULABLE
        ),
        "",
    )


def is_about_resources(refusal: str) -> bool:
    """Return whether a pod was refused only for reasons that are evaluated here, too, by kube-scheduler's message.

    "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. preemption: ..."
    """
    _, result, reasons = refusal.partition("nodes are available: ")
    reasons = reasons.split(". preemption:")[0].removesuffix(".").split(". no new claims")[0]
    each = [part.lstrip("0123456789").strip() for part in _COUNTED.split(reasons)]
    return bool(result) and all(part.startswith(_KNOWN_REASONS) for part in each)
