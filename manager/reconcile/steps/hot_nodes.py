"""The taint of hot nodes: set, kept and removed as `manager.hot_nodes.decision` decides."""

import logging
from dataclasses import dataclass, field, replace
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from crds.names import TAINT_HOT
from headroom.kube import ApiError, ApiUnavailable
from manager.context import Context, Run
from manager.hot_nodes import taint, text
from manager.hot_nodes.decision import NodeHeat, Places, Reason, decide, places
from manager.hot_nodes.load import DRY_RUN, OFF, HotSettings, Load
from manager.metrics import PREFIX
from manager.mid import node_filter
from manager.reconcile.steps.step import ReconcileResult
from manager.write_rate_limiter import ReportRateLimiter

_LOG: Final = logging.getLogger(__name__)
_FORBIDDEN: Final = 403
_FORBIDDEN_SECONDS: Final = 60.0  # how long no taint is written after the API server has refused one [s]
_EVENTS: Final = {
    Reason.TAINTED: ("Warning", "HotTaintSet"),
    Reason.DRY_RUN: ("Normal", "HotTaintDryRun"),
    Reason.SHARE: ("Warning", "HotTaintWithheld"),
    Reason.FORBIDDEN: ("Warning", "HotTaintForbidden"),
}


class HotMetrics:
    """The hot nodes by reason, and how many nodes may have the taint."""

    def __init__(self, registry: CollectorRegistry) -> None:
        hot = "1 for a hot node, by the reason of its condition NodeHot"
        self._hot = Gauge(f"{PREFIX}_hot_node", hot, ["node", "reason"], registry=registry)
        allowed = "How many nodes may have the taint of hot nodes"
        self.places = Gauge(f"{PREFIX}_hot_node_places", allowed, registry=registry)
        self._reasons: dict[str, str] = {}

    def show(self, node: str, reason: Reason) -> None:
        """Set the metric of a node."""
        if self._reasons.get(node, "") != (shown := reason.value if reason.hot else ""):
            self.forget(node)
            if shown:
                self._hot.labels(node, shown).set(1)
                self._reasons[node] = shown

    def forget(self, node: str) -> None:
        """Drop the metric of a node."""
        if reason := self._reasons.pop(node, ""):
            self._hot.remove(node, reason)


@dataclass(slots=True)
class Refusal:
    """The last refusal of a taint: it is about the manager's rights, and so about every node."""

    until: float = float("-inf")  # no taint is written before [s]


@dataclass(frozen=True, slots=True)
class HotNodeTaints:
    """Sets and removes the taint `headroom.dev/hot`."""

    async def execute(self, run: Run, reconciled: ReconcileResult) -> float | None:
        """Decide about the node, and write its taint if that differs."""
        node = _Node(run, reconciled)
        node.decide()
        await node.write()
        await node.report()
        return node.heat.decision.wait

    def forget(self, context: Context, name: str) -> None:
        """Another replica leads now, or the node is gone: drop the observations."""
        context.metrics.of(HotMetrics).forget(name)
        context.state_of(Places).drop(name)
        if name in context.node_states:
            context.node_states[name].state_of(NodeHeat).clear()


@dataclass(slots=True)
class _Node:
    """A node in a reconciliation."""

    run: Run
    reconciled: ReconcileResult
    context: Context = field(init=False)
    heat: NodeHeat = field(init=False)
    places: Places = field(init=False)
    present: str = field(init=False)  # the effect of the taint that the Node has
    now: float = field(init=False)
    wrote: bool = False

    def __post_init__(self) -> None:
        self.context = self.run.context
        self.heat = self.context.node_state(self.name).state_of(NodeHeat)
        self.places = self.context.state_of(Places)
        self.present = self.context.cluster.hot.get(self.name, "")
        self.now = self.context.steady()

    @property
    def name(self) -> str:
        return self.reconciled.name

    def decide(self) -> None:
        """Evaluate the last report; while taints are refused, as in a dry run."""
        cluster, settings, heat = self.context.cluster, self._settings(), self.heat
        refused = bool(settings.effect) and not self.present and self.now < self.context.state_of(Refusal).until
        load = Load.of(self.reconciled.inputs, replace(settings, mode=DRY_RUN) if refused else settings)
        if heat.written and not self.present:  # removed by another writer: the node has to be hot for a while again
            heat.clear()
            self.places.drop(self.name)
        heat.hold.observe(load, self._observed_at())
        count = len(cluster.node_metrics)
        if settings.mode != OFF:
            self.context.metrics.of(HotMetrics).places.set(places(count, settings))
        decision = decide(self.name, load, heat.hold, self.places, cluster.hot, count, self.now)
        if refused and decision.marked:
            decision = decision._replace(marked=False, reason=Reason.FORBIDDEN, wait=_FORBIDDEN_SECONDS)
        heat.decision, heat.load = decision, load

    def _settings(self) -> HotSettings:
        degraded = self.reconciled.result.degraded
        settings = HotSettings.of(self.reconciled.effective.strategy)
        excluded = degraded is not None and degraded.reason == node_filter.REASON
        return replace(settings, mode=OFF) if excluded else settings

    def _observed_at(self) -> float | None:
        """Return when the last usage was observed: a fast report renews the usage, too."""
        cached = self.context.cluster.node_metrics.get(self.name)
        times = (cached.observed_at.report, cached.observed_at.prediction) if cached else ()
        return max((time for time in times if time is not None), default=None)

    async def write(self) -> None:
        """Write the taint that was decided, unless the Node has it."""
        decision, refusal = self.heat.decision, self.context.state_of(Refusal)
        effect = self.heat.load.settings.effect if decision.marked else ""
        if effect == self.present or (not effect and self.now < refusal.until):
            self.heat.written = self.present
            return
        uid = self.context.cluster.nodes[self.name]["metadata"]["uid"]
        try:
            written = await taint.write(self.run.api, self.name, uid, effect)
        except (ApiError, ApiUnavailable) as error:
            self._failed(error)
            return
        if written is not None and self.name in self.context.cluster.nodes:
            self.context.cluster.put_written_node(written)
        self.heat.written, self.present, self.wrote = effect, effect, True
        self.context.metrics.writes.labels("taint", "patched").inc()
        _LOG.info("Node %s: %s", self.name, text.sentence(decision.reason, self.heat.load))

    def _failed(self, error: ApiError | ApiUnavailable) -> None:
        """Give the place back; a refusal holds for a minute, any other failure is raised."""
        self.places.drop(self.name)
        self.places.rate.give_back(self.now)
        if not (isinstance(error, ApiError) and error.status == _FORBIDDEN):
            raise error
        refusal, self.heat.written = self.context.state_of(Refusal), self.present
        if self.now >= refusal.until:
            _LOG.warning(
                "Node %s: taint %s refused, trying again in %.0f s (manager.hotNodes.enabled in the chart): %s",
                self.name,
                TAINT_HOT,
                _FORBIDDEN_SECONDS,
                error,
            )
        refusal.until = self.now + _FORBIDDEN_SECONDS
        self.context.metrics.writes.labels("taint", "failed").inc()
        if self.heat.decision.marked:
            self.heat.decision = self.heat.decision._replace(marked=False, reason=Reason.FORBIDDEN)
        self.heat.decision = self.heat.decision._replace(wait=_FORBIDDEN_SECONDS)

    async def report(self) -> None:
        """Set the metric, and record an event when the reason changes."""
        heat, reason, event = self.heat, self.heat.decision.reason, None
        self.context.metrics.of(HotMetrics).show(self.name, reason)
        if self.wrote and not self.present:
            event = ("Normal", "HotTaintRemoved")
        elif reason is not heat.reported and (self.wrote or reason is not Reason.TAINTED):
            event = _EVENTS.get(reason)  # of a taint that was there before, an earlier run recorded it
        if event is None:
            heat.reported = reason
        elif self.context.node_state(self.name).state_of(ReportRateLimiter).take_event(self.now):
            heat.reported = reason
            await self.run.record(self.name, *event, "TaintNode", text.sentence(reason, heat.load))
