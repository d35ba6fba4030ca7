"""A cluster with late events in any order: the API server's truth, kube-scheduler, the extender.

kube-scheduler binds an admitted pod some time later, or gives it up. The extender's watches deliver changes some
time later, in order. The extender may be restarted at any moment.
"""

import random
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler_plugins.extender.service import Answering, Extender, Mode
from scheduler_plugins.extender.wire import Arguments
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling, quota_cluster
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.in_flight import LONGEST_SECONDS, SETTLED_SECONDS, UNCONFIRMED_SECONDS
from tests.scheduler_plugins.objects import NOW, Json, at, condition
from tests.scheduler_plugins.quota.objects import node

NODES: Final = ("n1", "n2", "n3")


class Run:
    """A run of the extender."""

    def __init__(self, mode: Mode, now: float) -> None:
        plugin = CapacityScheduling(MaxMissing.INFINITE)
        self.now = now
        self.cache = ClusterCache(LoadRules(), {NAME: plugin})
        self.cluster = quota_cluster(self.cache.freeze(NOW))
        self.seen = set[str]()
        cycle = Cycle([Enabled(NAME, 1.0, plugin)])
        lots = np.random.default_rng(1)
        self.extender = Extender(self.cache, cycle, Answering(mode), lambda: NOW + self.now, lots)
        for name in NODES:
            self.cache.put_node(node(name, cpu="100"))

    def put(self, pod: Json) -> None:
        self.seen.add(pod["metadata"]["uid"])
        self.cache.put_pod(pod, NOW + self.now)

    def delete(self, uid: str) -> None:
        self.seen.discard(uid)
        self.cache.delete_pod(uid)

    def relist(self, pods: Mapping[str, Json], *, first: bool = False) -> None:
        for pod in pods.values():
            self.put(pod)
            if first:
                self.cache.reserve_unconfirmed(pod["metadata"]["uid"], NOW + self.now)
        for uid in self.seen - pods.keys():
            self.delete(uid)


@dataclass
class World:
    lot: random.Random
    quotas: Mapping[str, Json]
    mode: Mode = Mode.SHORTLIST
    now: float = 0.0
    pods: dict[str, Json] = field(default_factory=dict)
    events: list[tuple[str, Json]] = field(default_factory=list)
    in_flight: dict[str, float] = field(default_factory=dict)
    before: set[str] = field(default_factory=set)  # pods that an earlier run of the extender admitted

    def __post_init__(self) -> None:
        self.run = self._started()

    def _started(self) -> Run:
        run = Run(self.mode, self.now)
        for quota in self.quotas.values():
            run.cluster.put_quota(quota)
        run.relist(deepcopy(self.pods), first=True)
        return run

    # The API server

    def put(self, pod: Json) -> None:
        self.pods[pod["metadata"]["uid"]] = pod
        self.events.append(("MODIFIED", deepcopy(pod)))

    def remove(self, uid: str) -> None:
        self.events.append(("DELETED", self.pods.pop(uid)))

    def bound(self) -> list[Json]:
        return [pod for pod in self.pods.values() if pod["spec"].get("nodeName")]

    def pending(self) -> list[str]:
        return [uid for uid, pod in self.pods.items() if not pod["spec"].get("nodeName") and uid not in self.in_flight]

    # kube-scheduler

    def admits(self, uid: str) -> bool:
        """Send a pod with some of the nodes to the extender. Return True if it admits the pod."""
        pod = deepcopy(self.pods[uid])
        names = self.lot.sample(NODES, self.lot.randint(1, len(NODES)))
        answer = self.run.extender.filter(Arguments(pod, names))
        if answer.names and self.lot.random() < 0.5:
            self.run.extender.prioritize(Arguments(pod, list(answer.names)))
        self.before.discard(uid)
        if answer.names:
            self.in_flight[uid] = self.now + LONGEST_SECONDS - 1
        return bool(answer.names)

    def bind(self, uid: str) -> None:
        del self.in_flight[uid]
        self._sent(uid)
        if uid in self.pods:
            pod = deepcopy(self.pods[uid])
            pod["spec"]["nodeName"] = self.lot.choice(NODES)
            pod["status"] = {"phase": "Pending", "conditions": [condition("PodScheduled", self.now)]}
            self.put(pod)

    def give_up(self, uid: str) -> None:
        """An admitted pod is not bound after all, with or without a report."""
        del self.in_flight[uid]
        if uid in self.pods and self.lot.random() < 0.7:
            pod = deepcopy(self.pods[uid])
            texts = [entry for entry in pod["status"].get("conditions", ()) if entry["status"] == "False"]
            since = texts[0]["lastTransitionTime"] if texts else at(self.now)
            refused = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "lastTransitionTime": since,
            }
            pod["status"]["conditions"] = [refused]
            self.put(pod)

    def refuse(self, uid: str) -> None:
        pod = deepcopy(self.pods[uid])
        message = f"refused at {self.now}"
        refused = {**condition("PodScheduled", self.now, "False"), "reason": "Unschedulable", "message": message}
        pod["status"]["conditions"] = [refused]
        self.put(pod)
        self._sent(uid)

    def _sent(self, uid: str) -> None:
        """Bindings from before a pod was admitted are sent before any write for this pod."""
        for entry in (self.before & self.in_flight.keys()) if uid not in self.before else ():
            self.in_flight[entry] = min(self.in_flight[entry], self.now + SETTLED_SECONDS - 2)

    # Time

    def deliver(self, count: int) -> None:
        for kind, pod in self.events[:count]:
            if kind == "DELETED":
                self.run.delete(pod["metadata"]["uid"])
            else:
                self.run.put(pod)
        del self.events[:count]

    def relist(self) -> None:
        self.events.clear()
        self.run.relist(deepcopy(self.pods))

    def restart(self) -> None:
        """Restart the extender: it knows only its lists. kube-scheduler continues to bind for a while."""
        self.events.clear()
        self.run = self._started()
        self.before |= self.in_flight.keys()
        longest = self.now + UNCONFIRMED_SECONDS - 2
        self.in_flight = {uid: min(deadline, longest) for uid, deadline in self.in_flight.items()}

    def wait(self, seconds: float) -> None:
        """Let time pass. No binding exceeds kube-scheduler's limit; watches are late by at most a second."""
        for uid in [uid for uid, deadline in self.in_flight.items() if deadline <= self.now + seconds]:
            self.lot.choice((self.bind, self.give_up))(uid)
        if seconds >= 1:
            self.deliver(len(self.events))
        self.now += seconds
        self.run.now = self.now
