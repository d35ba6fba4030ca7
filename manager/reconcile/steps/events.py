"""Events on the Node, once for each change of state."""

from dataclasses import dataclass

from crds.codec import to_json
from manager.config.findings import shown
from manager.config.merge import DEFAULT, EffectiveStrategy
from manager.context import Context, Run
from manager.inputs.reading import get_path
from manager.mid import node_filter
from manager.mid.eviction import text
from manager.reconcile.steps.step import ReconcileResult
from manager.write_rate_limiter import ReportRateLimiter


@dataclass(slots=True)
class ReportedState:
    """The last event of each kind about a node."""

    degraded: str | None = None
    """Last reason for publishing nothing; empty when Mid is calculated, `None` before the first reconciliation."""
    reported_degraded: bool = False
    """True if an event reported that Mid is degraded, so that another may report that it is restored."""
    deficit: bool = False
    findings: tuple[str, ...] = ()  # faults of annotations and labels that an event reported
    effective: EffectiveStrategy | None = None  # the last strategy; `None` before the first reconciliation


@dataclass(frozen=True, slots=True)
class NodeEvents:
    """Reports that Mid is degraded or restored, a deficit, a new strategy, and the parts of it that are ignored."""

    async def execute(self, run: Run, reconciled: ReconcileResult) -> float | None:
        """Record an event for each change."""
        state = run.context.node_state(reconciled.name)
        reported, limiter = state.state_of(ReportedState), state.state_of(ReportRateLimiter)
        wait = limiter.wait(limiter.events, run.context.steady())
        if wait:
            return wait
        await self._strategy(run, reconciled, reported)
        await self._degraded(run, reconciled, reported)
        result = reconciled.result
        if result.deficit and not reported.deficit:
            note = (
                f"running Mid pods requested {text.amounts(result.requested, which=result.deficit)}, "
                f"but only {text.amounts(result.calculated, which=result.deficit)} may be published"
            )
            await self._event(run, reconciled.name, "Warning", "MidDeficit", note)
        reported.deficit = bool(result.deficit)
        findings = tuple(str(finding) for finding in reconciled.effective.findings)
        if findings and findings != reported.findings:
            await self._event(run, reconciled.name, "Warning", "NodeStrategyInvalid", "; ".join(findings))
        elif reported.findings and not findings:
            note = "annotations and labels that set the strategy of this node are valid now, or gone"
            await self._event(run, reconciled.name, "Normal", "NodeStrategyValid", note)
        reported.findings = findings
        return None

    def forget(self, context: Context, name: str) -> None:
        """Nothing to drop: events stay."""

    async def _strategy(self, run: Run, reconciled: ReconcileResult, reported: ReportedState) -> None:
        if reconciled.result.degraded is not None and reconciled.result.degraded.reason == node_filter.REASON:
            return  # no strategy applies to it
        before, reported.effective = reported.effective, reconciled.effective
        if before is None or before is reconciled.effective:
            return
        words = _words(reconciled.effective)
        if words != _words(before):
            note = f"the strategy of this node is now: {words or 'the defaults'}"
            await self._event(run, reconciled.name, "Normal", "NodeStrategyApplied", note)

    async def _degraded(self, run: Run, reconciled: ReconcileResult, reported: ReportedState) -> None:
        result = reconciled.result
        reason = result.degraded.reason if result.degraded else ""
        before, reported.degraded = reported.degraded, reason
        if before is None and reconciled.published_before:
            before = ""  # an earlier run, or another replica, published Mid
        if result.degraded and before == "":
            reported.reported_degraded = True
            wanted = result.degraded.reason in {"ColocationDisabled", node_filter.REASON}
            kind, what = ("Normal", "MidDisabled") if wanted else ("Warning", "DegradedMid")
            await self._event(run, reconciled.name, kind, what, result.degraded.message)
        elif not reason and reported.reported_degraded:
            reported.reported_degraded = False
            await self._event(run, reconciled.name, "Normal", "MidRestored", "Mid resources are calculated again")

    @staticmethod
    async def _event(run: Run, name: str, type_: str, reason: str, note: str) -> None:
        limiter = run.context.node_state(name).state_of(ReportRateLimiter)
        limiter.take(limiter.events, run.context.steady())
        await run.record(name, type_, reason, "PublishMid", note)


def _words(effective: EffectiveStrategy) -> str:
    """Return the settings that differ from the defaults: "enable true (cluster), midUnallocatedPercent 20 (web)"."""
    stated = [(path, source) for path, source in effective.sources.items() if source != DEFAULT]
    values = to_json(effective.strategy) if stated else {}
    return ", ".join(f"{path} {shown(get_path(values, *path.split('.')))} ({source})" for path, source in stated)
