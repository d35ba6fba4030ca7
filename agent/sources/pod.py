"""Which pods run on this node: from the API server's watch, from the cgroup tree alone, or from a list and the tree."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agent.host.cgroup import CgroupTree
from agent.host.reopening_files import Unreadable
from agent.pods import PodRef, pod_of_cgroup, pod_ref, unlisted_pod
from headroom import kube
from headroom.cluster.pod import pod_key
from headroom.cluster.templates import TEMPLATES, Template
from headroom.cluster.typed_pod import decode_pod, undecoded

_LONGEST_NAME = 160

log = logging.getLogger(__name__)


class PodSource(Protocol):
    """Knows the pods on this node."""

    def pods(self) -> Sequence[PodRef]:
        """The pods as known now. Called every tick; cheap."""

    @property
    def synced(self) -> bool:
        """Return whether the list is complete."""

    @property
    def problem(self) -> str:
        """Return why the list is not current, and the way out; empty while it is."""

    async def run(self) -> None:
        """Keep the list current, until cancelled."""


class ApiPods:
    """Pods bound to this node, by a watch with a field selector. The last list stays while the server is away."""

    def __init__(
        self,
        api: kube.ApiServer,
        node_name: str,
        timing: kube.WatchTiming = kube.DEFAULT_TIMING,
        templates: Sequence[Template] = TEMPLATES,
    ) -> None:
        self._api = api
        self._timing = timing
        self._templates = templates
        self._selector = f"spec.nodeName={node_name}"
        self._pods: dict[str, PodRef] = {}
        self.health = kube.WatchHealth()  # the time of the server's last response
        self.on_rejected: Callable[[str], object] = lambda _what: None
        """Called for each object that could not be used, with its kind."""

    def pods(self) -> Sequence[PodRef]:
        return tuple(self._pods.values())

    @property
    def synced(self) -> bool:
        return self.health.synced

    @property
    def problem(self) -> str:
        return self.health.problem and f"the pods of this node cannot be watched: {self.health.problem}"

    async def run(self) -> None:
        """Follow the watch until cancelled; it handles outages itself."""
        changes = kube.list_and_watch(
            self._api,
            kube.paths.PODS,
            field_selector=self._selector,
            health=self.health,
            timing=self._timing,
            keep=self._ref,
            decode=undecoded,
        )
        async for change in changes:
            self.apply(change)

    def apply(self, change: kube.Relisted | kube.Changed) -> None:
        """Take over one message of the watch."""
        if isinstance(change, kube.Relisted):
            self._pods = {ref.uid: ref for ref in change.items if ref is not None}
            return
        uid = str((change.object.get("metadata") or {}).get("uid"))
        ref = None if change.type == "DELETED" else self._ref(change.object)
        if ref is None:
            self._pods.pop(uid, None)
        else:
            self._pods[ref.uid] = ref

    def _ref(self, pod: dict[str, Any]) -> PodRef | None:
        try:
            return pod_ref(decode_pod(pod["raw"]), self._templates)
        except ValueError as error:
            log.warning("Pod %s is left out: %s", pod_key(pod)[:_LONGEST_NAME], error)
            self.on_rejected("pod")
            return None


class CgroupPods:
    """Pods as the cgroup tree shows them: tier by QoS folder, no names, no requests."""

    def __init__(self, cgroups: CgroupTree) -> None:
        self._cgroups = cgroups
        self.problem = ""  # why the tree cannot be listed; empty while it can

    def pods(self) -> Sequence[PodRef]:
        """All that have a cgroup now; while the tree cannot be listed, those that were there before."""
        try:
            result, self.problem = self._cgroups.pods(), ""
        except Unreadable as error:
            result, self.problem = self._cgroups.latest, f"the cgroups of pods cannot be listed: {error}"
        return tuple(map(pod_of_cgroup, result.values()))

    @property
    def synced(self) -> bool:
        """Always: the tree is read each time."""
        return True

    async def run(self) -> None:
        """Nothing to follow."""


class ListedAndCgroupPods:
    """The pods of a list, and those that have a cgroup and are on no list: everything that is measured has an owner.

    Before the first list it is unknown which those are, so there are none.
    """

    def __init__(self, listed: PodSource, cgroups: CgroupTree, wall: Callable[[], float] = time.time) -> None:
        self._listed = listed
        self._cgroups = cgroups
        self._wall = wall
        self._unlisted: dict[str, PodRef] = {}

    def pods(self) -> Sequence[PodRef]:
        """The listed pods, then the others."""
        listed = self._listed.pods()
        if not self.synced:
            return listed
        uids = {pod.cgroup_uid or pod.uid for pod in listed}
        self._unlisted = {
            uid: self._unlisted.get(uid) or unlisted_pod(cgroup, self._wall())
            for uid, cgroup in self._cgroups.latest.items()
            if uid not in uids
        }
        return (*listed, *self._unlisted.values())

    @property
    def synced(self) -> bool:
        return self._listed.synced

    @property
    def problem(self) -> str:
        return self._listed.problem

    async def run(self) -> None:
        await self._listed.run()
