"""The verdicts of the profile's other plugins for one pod: on the present nodes, and without the victims.

The measured usage of a node contains its victims'. A node that is refused for its load fits the pod if it
would not be refused without them: else no guarantee could be enforced where most is borrowed.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.quota.cluster import QuotaCluster
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.snapshot.arrays import Nodes
from scheduler_plugins.snapshot.cache import ClusterCache


class PluginVerdicts:
    """The verdicts for one pod at one moment.

    Raises:
        PluginError: a plugin failed.
        ValueError: the pod cannot be read.
    """

    def __init__(
        self,
        cache: ClusterCache,
        others: Cycle,
        cluster: QuotaCluster,
        pod: QuotaPod,
        held: Hold | None,
        now: float,
        names: Iterable[str],
    ) -> None:
        self._cache, self._others, self._cluster = cache, others, cluster
        self._request = cache.read(pod.json or {})
        known, absent = cache.select([name for name in names if name in cluster.nodes], now)
        self.refused: Mapping[str, str] = self._refusals(known)
        """Nodes that are refused as they are, and why; not those that are refused for what any eviction helps."""
        self.suitable: Sequence[str] = [*(name for name in known.names if name not in self.refused), *absent]
        """The nodes that are not."""
        rows = [row for row, name in enumerate(known.names) if name in self.refused]
        self._nodes = known.take(np.array(rows, np.intp))
        self._row = {name: row for row, name in enumerate(self._nodes.names)}
        self._found: dict[tuple[str, AbstractSet[str]], str | None] = {}
        if self._row:
            self._settle(pod, held, now)

    def hopeless(self, possible: Mapping[str, AbstractSet[str]]) -> Mapping[str, str]:
        """The nodes that are refused even without all evictable pods, and why."""
        left = self._nodes.take(np.arange(len(self._nodes)))
        for name, row in self._row.items():
            self._relieve(left, row, name, possible.get(name, frozenset()))
        return self._refusals(left)

    def misfit(self, node: str, without: AbstractSet[str]) -> str | None:
        """Return why a node is refused once some pods have left; None: it is not."""
        if node not in self._row:
            return None
        gone = frozenset(without & self._cluster.on_node(node).keys())
        if (node, gone) not in self._found:
            one = self._nodes.take(np.array([self._row[node]], np.intp))
            self._relieve(one, 0, node, gone)
            self._found[node, gone] = self._refusals(one).get(node)
        return self._found[node, gone]

    def _refusals(self, nodes: Nodes) -> dict[str, str]:
        verdict = self._others.filter(self._request, nodes)
        refusals = ((name, verdict.refusal(row)) for row, name in enumerate(nodes.names))
        return {
            name: refusal.reason for name, refusal in refusals if refusal is not None and not refusal.eviction_helps
        }

    def _settle(self, pod: QuotaPod, held: Hold | None, now: float) -> None:
        """Subtract the usage of ended victims, and add the estimate of pods that they ended for."""
        holds = [held] if held is not None else []
        for node, holders in self._cluster.holding_on(now).items():
            for holder in holders:
                if node not in self._row or holder.uid == pod.uid or holder.hold is None:
                    continue
                holds.append(holder.hold)
                if holder.uid not in self._cache.in_flight:
                    coming = self._cache.read(holder.json or {})
                    self._nodes.in_flight[self._row[node]] += coming.estimate
                    self._nodes.in_flight_prod[self._row[node]] += coming.estimate if coming.prod else 0
        for hold in holds:
            ledger = self._cache.ledger(hold.node)
            if hold.node in self._row and ledger is not None:
                self._nodes.in_flight[self._row[hold.node]] -= ledger.left_behind(hold.victims, hold.relief)

    def _relieve(self, nodes: Nodes, row: int, name: str, gone: AbstractSet[str]) -> None:
        ledger = self._cache.ledger(name)
        if ledger is not None and gone:
            nodes.in_flight[row] -= ledger.relief(gone)
            nodes.in_flight_prod[row] -= ledger.prod_relief(gone)
