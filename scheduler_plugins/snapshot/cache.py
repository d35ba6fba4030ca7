"""The present cluster, fed by watches: nodes, their reports, their pods, and the pods in flight."""

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import add, sub
from types import MappingProxyType
from typing import Any, Final

from crds.quantity import QuantityError
from headroom.cluster.typed_pod import check_amounts
from headroom.kube.time_slices import SLICE
from headroom.runtime.bounded_cache import BoundedCache
from scheduler_plugins.snapshot.accounts import Accounts
from scheduler_plugins.snapshot.arrays import AnnotationReader, Nodes, NodeState, NodeTable, Snapshot
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.in_flight import (
    Charge,
    InFlight,
    Reservations,
    Reserving,
    Tombstones,
    binding_queue,
    scheduler_name,
    waits_for_node,
)
from scheduler_plugins.snapshot.ledger import NodeLedger
from scheduler_plugins.snapshot.names import NamesOfRows
from scheduler_plugins.snapshot.node_facts import NodeFacts
from scheduler_plugins.snapshot.ordinary import Evaluated, OrdinaryPart
from scheduler_plugins.snapshot.plugin_state import PluginState, StatefulPlugin
from scheduler_plugins.snapshot.pod import PodRequest, PodTemplate
from scheduler_plugins.snapshot.pod_template import TEMPLATE_BYTES, template_key
from scheduler_plugins.snapshot.preferences import NodeGroups
from scheduler_plugins.snapshot.report import NodeReport
from scheduler_plugins.snapshot.rows import Rows
from scheduler_plugins.snapshot.units import Vector

_LOG: Final = logging.getLogger(__name__)
_NO_READINGS: Final[Mapping[str, Any]] = MappingProxyType({})


class ClusterCache:
    """Takes changes one by one; `freeze` makes one snapshot of all that came since the last.

    Args:
        rules: how load is counted.
        plugins: the plugins by name; those with cached data (`NodeTable`, `PodAccount`, `Reserving`,
            `StatefulPlugin`) are served.
        in_flight_seconds: how long a pod that is never seen bound, refused or gone stays charged. [s]
        steady: a clock that never jumps, by which charges expire; None: the times that are given. [s]
    """

    def __init__(
        self,
        rules: LoadRules,
        plugins: Mapping[str, object] | None = None,
        in_flight_seconds: float = 30.0,
        steady: Callable[[], float] | None = None,
    ) -> None:
        plugins = plugins or {}
        self.rules = rules  # how load is counted
        self._accounts = Accounts(plugins)
        self._tables = {name: plugin for name, plugin in plugins.items() if isinstance(plugin, NodeTable)}
        self._readers = [plugin for plugin in plugins.values() if isinstance(plugin, AnnotationReader)]
        stateful = {name: plugin for name, plugin in plugins.items() if isinstance(plugin, StatefulPlugin)}
        self.plugin_states: Mapping[str, PluginState] = {name: plugin.new_state() for name, plugin in stateful.items()}
        """The plugins' states of the whole cluster, by their names; fed from here."""
        parts = (*plugins.values(), *self.plugin_states.values())
        self._reservations = Reservations([part for part in parts if isinstance(part, Reserving)], steady)
        dtypes = {name: table.dtype() for name, table in self._tables.items()}
        self._rows = Rows(len(rules.resources), dtypes, self._accounts, self.plugin_states)
        self._without_nodes = self._rows.view(self._rows.find(())[0], 0.0)
        self._templates: BoundedCache[bytes, PodTemplate] = BoundedCache(self._read_template, TEMPLATE_BYTES)
        self._no_sums: Vector = (0,) * self._accounts.width
        self._sums: dict[str, Vector] = {}
        self._readings: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, NodeFacts] = {}
        self._lasting: dict[str, dict[str, Any]] = {}  # the results of `NodeState.once` by node
        self.groups = NodeGroups()  # the nodes as pods' soft constraints see them
        self._ledgers: dict[str, NodeLedger] = {}
        self._no_load = NodeLedger(rules)
        self._placed: dict[str, str] = {}
        self._pending: dict[str, tuple[str | None, PodRequest, str]] = {}
        self._in_flight = InFlight(in_flight_seconds, steady)
        self._tombstones = Tombstones()
        self._stale: dict[str, None] = {}  # the nodes with an outdated record; `set.pop` would search a sparse table
        self._failures: dict[str, str] = {}

    @property
    def nodes(self) -> Sequence[str]:
        return self._rows.names

    @property
    def in_flight(self) -> Mapping[str, Charge]:
        return self._in_flight.charges

    @property
    def failures(self) -> Mapping[str, str]:
        return self._failures

    def ledger(self, node: str) -> NodeLedger | None:
        return self._ledgers.get(node)

    def own_allocatable(self, node: str) -> Mapping[str, int] | None:
        """Return a Node's allocatable by its status; None: there is no such Node. [milli-cores, else base units]"""
        facts = self._nodes.get(node)
        return None if facts is None else facts.own_allocatable

    def readings(self, node: str) -> Mapping[str, Any]:
        return self._readings.get(node, _NO_READINGS)

    def select(self, names: Sequence[str], now: float) -> tuple[Nodes, list[str]]:
        """The present state of some nodes, in this order, and the names that are not known."""
        known, unknown = self.find(names)
        return self.view(known, now).settled(), unknown

    def find(self, names: Sequence[str]) -> tuple[NamesOfRows, list[str]]:
        """The known ones of some names, and the others. Valid until a node comes or goes."""
        return self._rows.find(names)

    def view(self, names: NamesOfRows, now: float) -> Nodes:
        """The present state of nodes that were found, for one decision: valid until the next change of this cache."""
        self._catch_up(now)
        return self._rows.view(names, now)

    def view_without_nodes(self, now: float) -> Nodes:
        """The present state of the cluster, as `view` of no nodes."""
        self._catch_up(now)
        self._without_nodes.now = now
        return self._without_nodes

    def evaluate(
        self, names: NamesOfRows, parts: Sequence[OrdinaryPart], amounts: Sequence[Vector | None], now: float
    ) -> Evaluated | None:
        """As `Rows.evaluate`, of the state that was viewed last."""
        return self._rows.evaluate(names, parts, amounts, now)

    def freeze(self, now: float) -> Snapshot:
        self._catch_up(now)
        return self._rows.freeze(now)

    def _catch_up(self, now: float) -> None:
        """Write what changed since the last time into the arrays."""
        for uid in self._in_flight.expired(now):
            self._uncharge(uid)
        self._reservations.expire(now)
        while self.write_some():
            pass

    def write_some(self, beyond: int = 0) -> bool:
        """Write a slice of what changed into the arrays, but so many nodes may wait; whether more than these do."""
        for _ in range(min(len(self._stale) - beyond, SLICE)):
            if (name := self._stale.popitem()[0]) in self._nodes:
                self._write_records(name)
        return len(self._stale) > beyond

    def _write_records(self, name: str) -> None:
        facts, sums = self._nodes[name], self._sums.get(name, self._no_sums)
        state = NodeState(
            name=name,
            annotations=facts.annotations,
            allocatable=facts.allocatable,
            own_allocatable=facts.own_allocatable,
            ledger=self._ledgers.get(name, self._no_load),
            sums=self._accounts.parts(sums),
            readings=self._readings.get(name, _NO_READINGS),
            lasting=self._lasting.setdefault(name, {}),
        )
        self._rows.write_sums(name, sums)
        failures = [*facts.problems]
        for key, table in self._tables.items():
            try:
                self._rows.write(key, name, table.record(state))
            except Exception as error:  # noqa: BLE001 - any plugin may fail, and one node must not stop all others
                failures.append(f"{key} keeps its former record: {type(error).__name__}: {error}")
        self._note_failures(name, "; ".join(failures))

    def _note_failures(self, name: str, problem: str) -> None:
        """Record the unusable annotations of a node; logged once, until all are valid again."""
        if problem and name not in self._failures:
            _LOG.warning("Node %s: %s", name, problem)
        self._failures[name] = problem
        if not problem:
            del self._failures[name]

    # Nodes

    def put_node(self, node: Mapping[str, Any]) -> None:
        """Add or update a Node.

        Raises ValueError: an amount is not a quantity, or a plugin cannot read it; the others have it.
        """
        try:
            self._put_node(node)
        finally:
            for state in self.plugin_states.values():
                state.put_node(node)

    def _put_node(self, node: Mapping[str, Any]) -> None:
        name, facts = str(node["metadata"]["name"]), NodeFacts.of(node, self._readers)
        number = self.groups.put(node)
        if name not in self._rows:
            charges = self._in_flight.on(name)
            for charge in charges:
                self._rows.discharge(charge.pod.uid)
            self._rows.add(name, number)
            for charge in charges:
                self._rows.charge(charge.names, charge.pod)
        elif self._nodes[name] == facts:
            return
        self._nodes[name] = facts
        self._renew(name)

    def delete_node(self, name: str) -> None:
        """Forget a Node. Its pods and report stay until they are gone themselves."""
        for state in self.plugin_states.values():
            state.delete_node(name)
        if self._nodes.pop(name, None) is not None:
            self._rows.remove(name)
            self.groups.delete(name)
            self._failures.pop(name, None)
            self._lasting.pop(name, None)

    # Data of plugins' own sources

    def update_readings(self, plugin: str, readings: Mapping[str, Any]) -> None:
        """Store data of a plugin's own source."""
        for name, reading in readings.items():
            node_readings = self._readings.setdefault(name, {})
            if node_readings.get(plugin) != reading:
                node_readings[plugin] = reading
                self._renew(name)

    def retain_readings(self, plugin: str, names: AbstractSet[str]) -> None:
        """Forget data of a plugin's own source for all nodes but these."""
        for name in [name for name, given in self._readings.items() if plugin in given and name not in names]:
            del self._readings[name][plugin]
            self._renew(name)
            if not self._readings[name]:
                del self._readings[name]

    def put_node_metric(self, node_metric: Mapping[str, Any]) -> None:
        """Add or update a NodeMetric.

        Raises QuantityError: an amount is not a quantity; ValueError: a time or duration cannot be read.
        """
        self._receive(str(node_metric["metadata"]["name"]), NodeReport.from_json(node_metric, self.rules.resources))

    def delete_node_metric(self, name: str) -> None:
        if name in self._ledgers:
            self._receive(name, None)

    def _receive(self, name: str, report: NodeReport | None) -> None:
        ledger = self._ledger_for(name)
        if report is None or ledger.report != report:
            ledger.receive(report)
            self._renew(name)
            self._changed(name)

    def read(self, pod: Mapping[str, Any]) -> PodRequest:
        """A pod as the plugins see it.

        Raises ValueError: a request or limit is not a quantity, or a time cannot be read.
        """
        try:
            return PodRequest.from_json(pod, self.rules, self._accounts, self._template)
        except QuantityError:
            check_amounts(pod)
            raise

    def pending(self, pod: Mapping[str, Any]) -> PodRequest | None:
        """A pending pod as it was read when the watch brought it; None: the watch has brought another version of it."""
        metadata = pod["metadata"]
        version, known, _ = self._pending.get(metadata.get("uid"), (None, None, ""))
        return known if version is not None and version == metadata.get("resourceVersion") else None

    def _template(self, pod: Mapping[str, Any]) -> PodTemplate:
        return self._templates(template_key.make(pod), pod)

    def _read_template(self, pod: Mapping[str, Any]) -> PodTemplate:
        return PodTemplate.of(pod, self.rules, self._accounts)

    def put_pod(self, pod: Mapping[str, Any], now: float) -> None:
        """Add or update a Pod: assign it where it is bound, or take it away when it has ended.

        Raises ValueError: a request or limit is not a quantity, or a time cannot be read.
        """
        request = self.read(pod)
        self._reservations.written(request, scheduler_name(pod), now)
        if waits_for_node(pod):
            self._pending[request.uid] = pod["metadata"].get("resourceVersion"), request, binding_queue(pod)
        else:
            self._pending.pop(request.uid, None)
        for state in self.plugin_states.values():
            state.pod_changed(request)
        self.place(request.drop_facts() if request.node_name else request, now)

    def place(self, request: PodRequest, now: float) -> None:
        """Count a bound pod as load; plugins' states are not updated."""
        self._tombstones.discard(request.uid)
        target = request.node_name if request.present else ""
        former = self._placed.get(request.uid)
        if former is not None and former != target:
            self.displace(request.uid)
        if target:
            ledger = self._ledger_for(target)
            assigned = ledger.pods.get(request.uid)
            if assigned is None or assigned.pod != request:  # most pods of a relist are equal
                ledger.assign(request, now)
                self._placed[request.uid] = target
                self._add(target, request.amounts, assigned.pod.amounts if assigned else {})
                self._stale[target] = None
        over = bool(target) or not request.present
        if over or self._in_flight.refused(request):
            self._uncharge(request.uid)
        if over or self._reservations.refused(request, now):
            self._reservations.unreserve(request.uid)

    def delete_pod(self, uid: str) -> None:
        """Forget a deleted pod: a late request for it is not charged."""
        for state in self.plugin_states.values():
            state.delete_pod(uid)
        self._tombstones.add(uid)
        self._pending.pop(uid, None)
        self.release(uid)
        self.displace(uid)

    def displace(self, uid: str) -> None:
        """Count a pod as load no longer; the opposite of `place`."""
        name = self._placed.pop(uid, None)
        if name is not None:
            ledger = self._ledgers[name]
            amounts = ledger.pods[uid].pod.amounts
            ledger.unassign(uid)
            self._add(name, {}, amounts)
            self._changed(name)

    def _add(self, name: str, more: Mapping[str, Vector], less: Mapping[str, Vector]) -> None:
        """Change a node's sums by the difference."""
        if more is less or not self._accounts.width:
            return
        sums = self._sums.get(name, self._no_sums)
        if more:
            sums = tuple(map(add, sums, self._accounts.flat(more)))
        if less:
            sums = tuple(map(sub, sums, self._accounts.flat(less)))
        self._sums[name] = sums

    # Pods in flight

    def charge(self, pod: PodRequest, names: Sequence[str], now: float) -> None:
        """Charge a pod to the nodes that it may be bound to, in place of any former charge of it."""
        self.release(pod.uid)
        if pod.uid in self._placed or pod.uid in self._tombstones:
            return
        self._reservations.reserve(pod, names, now)
        if names and (any(pod.estimate) or any(map(any, pod.amounts.values()))):
            self._in_flight.put(pod, names, now)
            self._rows.charge(names, pod)

    def reserve_unconfirmed(self, uid: str, now: float) -> None:
        """A pod was pending at the first list: an earlier run may have admitted it."""
        if known := self._pending.get(uid):
            self._reservations.reserve_unconfirmed(known[1], now, known[2])

    def release(self, uid: str) -> None:
        self._uncharge(uid)
        self._reservations.unreserve(uid)

    def _uncharge(self, uid: str) -> None:
        if self._in_flight.charges.pop(uid, None) is not None:
            self._rows.discharge(uid)

    # Ledgers

    def _renew(self, name: str) -> None:
        """Make the records of a node again: more than its pods has changed."""
        self._lasting.pop(name, None)
        self._stale[name] = None

    def _ledger_for(self, name: str) -> NodeLedger:
        if name not in self._ledgers:
            self._ledgers[name] = NodeLedger(self.rules)
        return self._ledgers[name]

    def _changed(self, name: str) -> None:
        self._stale[name] = None
        ledger = self._ledgers[name]
        if not ledger.pods:
            self._sums.pop(name, None)
        if ledger.empty:
            del self._ledgers[name]
