"""Who decides in the placement benchmark: kube-scheduler's default scores, and our plugin before or beside them."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler_plugins.arguments import decode
from scheduler_plugins.framework.cycle import Cycle, Enabled, best
from scheduler_plugins.framework.shortlist import Shortlist
from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.snapshot.cache import ClusterCache
from tools.bench.manager_report import moment
from tools.bench.placement_pods import CORES, GIB, FloatArray, Pod

CAPACITY: Final = np.array([CORES, GIB], np.float64)
PREDICTING: Final = {"usePrediction": True, "usageThresholds": {"cpu": 95, "memory": 95}}
"""Arguments with prediction. The default threshold of 65 % leaves room for what an average hides; a peak hides less."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How pods are placed."""

    title: str  # for people
    load_aware: bool = False  # whether our plugin takes part
    prediction: bool = False  # whether it goes by predicted peaks
    shortlist: Shortlist | None = None
    """Among which nodes the default scores pick; None: among all that pass, and our score counts beside theirs."""


def default_scores(requested: FloatArray, pod: Pod) -> FloatArray:
    """A model of the default scores that differ between equal nodes, shape (N,), 0..200.

    NodeResourcesFit with LeastAllocated, and NodeResourcesBalancedAllocation, each of weight 1, of CPU and memory by
    requests: free% averaged over both, and (1 - |cpu% - memory%| / 2) * 100, both truncated. All other default scores
    are the same for all nodes and pods here.

    Args:
        requested: what the pods of each node request, shape (N, 2). [cores, GiB]
        pod: the pod.
    """
    share = np.minimum((requested + np.array([pod.cpu_request, pod.memory_request])) / CAPACITY, 1.0)
    least: FloatArray = np.floor(np.floor((1.0 - share) * 100.0).sum(axis=1) / 2.0)
    balanced: FloatArray = np.floor((1.0 - np.abs(share[:, 0] - share[:, 1]) / 2.0) * 100.0)
    total: FloatArray = least + balanced
    return total


@dataclass(slots=True)
class Scheduler:
    """Places pods by a policy; equal nodes are drawn by lot."""

    policy: Policy  # how
    names: list[str]  # the nodes
    seed: int  # of the lots
    cache: ClusterCache = field(init=False)  # what our plugin knows
    requested: FloatArray = field(init=False)  # what the pods of each node request, shape (N, 2) [cores, GiB]
    _cycle: Cycle = field(init=False)
    _lots: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        arguments = PREDICTING if self.policy.prediction else {}
        plugin: LoadAware = decode(LoadAware, arguments, NAME).defaulted()
        self.cache = ClusterCache(plugin.load_rules(), {NAME: plugin})
        self._cycle = Cycle([Enabled(NAME, 1.0, plugin)])
        self.requested = np.zeros((len(self.names), 2))
        self._lots = np.random.default_rng(self.seed)
        for name in self.names:
            amounts = {"cpu": str(CORES), "memory": f"{GIB}Gi"}
            self.cache.put_node({"metadata": {"name": name}, "status": {"allocatable": amounts}})

    def place(self, pod: Pod, now: float) -> int | None:
        """The node that a pod is bound to; None while there is none for it."""
        wanted = np.array([pod.cpu_request, pod.memory_request])
        rows = np.flatnonzero((self.requested + wanted <= CAPACITY).all(axis=1))
        defaults = default_scores(self.requested, pod)
        scores = np.zeros(len(self.names))
        if self.policy.load_aware and len(rows):
            request = self.cache.read(pod.to_json())
            nodes, _ = self.cache.freeze(now).select([self.names[row] for row in rows.tolist()])
            passes = self._cycle.filter(request, nodes).passes
            rows, nodes = rows[passes], nodes.take(np.flatnonzero(passes))
            ours = self._cycle.score(request, nodes)
            if self.policy.shortlist is None:
                scores[rows] = ours
            else:
                groups = self.cache.groups.of(request.preferences, nodes.ids)
                rows = rows[self.policy.shortlist.choose(ours, groups, self._lots)]
        if not len(rows):
            return None
        row = int(rows[best(defaults[rows] + scores[rows], 1, self._lots)[0]])
        self.requested[row] += wanted
        if self.policy.load_aware:
            self.cache.put_pod(pod.to_json(self.names[row], moment(now)), now)
        return row

    def leave(self, pod: Pod, row: int) -> None:
        """A pod is gone."""
        self.requested[row] -= (pod.cpu_request, pod.memory_request)
        if self.policy.load_aware:
            self.cache.delete_pod(pod.uid)
