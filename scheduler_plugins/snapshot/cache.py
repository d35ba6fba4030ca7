"""The cluster as it is now, fed by watches: nodes, their reports, their pods, and the pods in flight."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from scheduler_plugins.snapshot.arrays import NodeState, NodeTable, Snapshot
from scheduler_plugins.snapshot.estimate import LoadRules, estimate_node
from scheduler_plugins.snapshot.in_flight import Charge, InFlight
from scheduler_plugins.snapshot.ledger import NodeLedger
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.report import NodeReport
from scheduler_plugins.snapshot.rows import Rows
from scheduler_plugins.snapshot.units import units

_NodeFacts = tuple[Mapping[str, str], Mapping[str, int]]


class ClusterCache:
    """Takes changes one by one; `freeze` makes one snapshot of all that came since the last.

    Args:
        rules: how load is counted.
        tables: plugins that want a record per node, by name.
        in_flight_seconds: how long a pod that is never seen bound, refused or gone stays charged. [s]
    """

    def __init__(
        self, rules: LoadRules, tables: Mapping[str, NodeTable] | None = None, in_flight_seconds: float = 30.0
    ) -> None:
        self.rules = rules
        """How load is counted."""
        self._tables = dict(tables or {})
        self._rows = Rows(len(rules.resources), {name: table.dtype() for name, table in self._tables.items()})
        self._nodes: dict[str, _NodeFacts] = {}
        self._ledgers: dict[str, NodeLedger] = {}
        self._no_load = NodeLedger(rules)
        self._placed: dict[str, str] = {}
        self._in_flight = InFlight(in_flight_seconds)
        self._stale: set[str] = set()

    # What is known

    @property
    def nodes(self) -> Sequence[str]:
        """Names of the nodes."""
        return self._rows.names

    @property
    def in_flight(self) -> Mapping[str, Charge]:
        """Pods that were answered for and not seen bound, by uid."""
        return self._in_flight.charges

    def ledger(self, node: str) -> NodeLedger | None:
        """A node's account of load; None when it has neither report nor pods."""
        return self._ledgers.get(node)

    def freeze(self, now: float) -> Snapshot:
        """The present state, for one decision.

        Args:
            now: the time to judge ages by. [unix s]
        """
        for uid in self._in_flight.expired(now):
            self.release(uid)
        for name in self._stale:
            if name in self._nodes:
                self._write_records(name)
        self._stale.clear()
        return self._rows.freeze(now)

    def _write_records(self, name: str) -> None:
        annotations, allocatable = self._nodes[name]
        state = NodeState(name, annotations, allocatable, self._ledgers.get(name, self._no_load))
        for key, table in self._tables.items():
            self._rows.write(key, name, table.record(state))

    # Nodes

    def retain_nodes(self, names: AbstractSet[str]) -> None:
        """Forget all Nodes but these."""
        for name in self._nodes.keys() - names:
            self.delete_node(name)

    def put_node(self, node: Mapping[str, Any]) -> None:
        """Add or update a Node.

        Raises:
            QuantityError: an amount is not a quantity.
        """
        metadata = node["metadata"]
        name = str(metadata["name"])
        allocatable = {resource: units(resource, amount) for resource, amount in estimate_node(node).items()}
        facts = (metadata.get("annotations") or {}, allocatable)
        if name not in self._rows:
            self._rows.add(name)
            for charge in self._in_flight.on(name):
                self._rows.charge([name], charge.pod.estimate, prod=charge.pod.prod)
        elif self._nodes[name] == facts:
            return
        self._nodes[name] = facts
        self._stale.add(name)

    def delete_node(self, name: str) -> None:
        """Forget a Node. Its pods and report stay until they are gone themselves."""
        if self._nodes.pop(name, None) is not None:
            self._rows.remove(name)

    # Reports

    def retain_node_metrics(self, names: AbstractSet[str]) -> None:
        """Forget all reports but those of these nodes."""
        for name in [name for name, ledger in self._ledgers.items() if ledger.report and name not in names]:
            self.delete_node_metric(name)

    def put_node_metric(self, node_metric: Mapping[str, Any]) -> None:
        """Add or update a NodeMetric.

        Raises:
            QuantityError: an amount is not a quantity.
            ValueError: a time or duration cannot be read.
        """
        report = NodeReport.from_json(node_metric, self.rules.resources)
        self._receive(str(node_metric["metadata"]["name"]), report)

    def delete_node_metric(self, name: str) -> None:
        """Forget a node's report."""
        if name in self._ledgers:
            self._receive(name, None)

    def _receive(self, name: str, report: NodeReport | None) -> None:
        self._ledger_for(name).receive(report)
        self._changed(name)

    # Pods

    def retain_pods(self, uids: AbstractSet[str]) -> None:
        """Forget all Pods but these."""
        for uid in (self._placed.keys() | self.in_flight.keys()) - uids:
            self.delete_pod(uid)

    def put_pod(self, pod: Mapping[str, Any], now: float) -> None:
        """Add or update a Pod: assign it where it is bound, or take it away when it has ended.

        Args:
            pod: Kubernetes JSON.
            now: the time of scheduling of a pod that does not state it. [unix s]

        Raises:
            QuantityError: a request or limit is not a quantity.
            ValueError: a time cannot be read.
        """
        request = PodRequest.from_json(pod, self.rules)
        target = request.node_name if request.present else ""
        former = self._placed.get(request.uid)
        if former is not None and former != target:
            self._unassign(request.uid)
        if target:
            self._ledger_for(target).assign(request, now)
            self._placed[request.uid] = target
            self._changed(target)
        if target or not request.present or self._in_flight.refused(request):
            self.release(request.uid)

    def delete_pod(self, uid: str) -> None:
        """Forget a Pod."""
        self.release(uid)
        self._unassign(uid)

    def _unassign(self, uid: str) -> None:
        name = self._placed.pop(uid, None)
        if name is not None:
            self._ledgers[name].unassign(uid)
            self._changed(name)

    # Pods in flight

    def charge(self, pod: PodRequest, names: Sequence[str], now: float) -> None:
        """Charge a pod to the nodes that it may be bound to, in place of any former charge of it.

        Args:
            pod: the pod that was answered for.
            names: the nodes of the answer.
            now: when. [unix s]
        """
        self.release(pod.uid)
        if names and any(pod.estimate) and pod.uid not in self._placed:
            self._in_flight.put(pod, names, now)
            self._rows.charge(names, pod.estimate, prod=pod.prod)

    def release(self, uid: str) -> None:
        """Drop a pod's charge, if it has one."""
        charge = self._in_flight.pop(uid)
        if charge is not None:
            self._rows.charge(charge.names, [-amount for amount in charge.pod.estimate], prod=charge.pod.prod)

    # Ledgers

    def _ledger_for(self, name: str) -> NodeLedger:
        return self._ledgers.setdefault(name, NodeLedger(self.rules))

    def _changed(self, name: str) -> None:
        self._stale.add(name)
        if self._ledgers[name].empty:
            del self._ledgers[name]
