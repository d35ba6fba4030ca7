"""Reports the status of the configuration: events on the ConfigMap, an annotation of it, and metrics."""

import logging
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from crds.colocation import ColocationConfig
from crds.names import ANNOTATION_CONFIG_STATE
from headroom.kube import ApiError, ApiUnavailable, paths
from headroom.kube.time_slices import in_slices
from manager.config.changes import FieldChange, NodeMetadata, changes, differences, node_metadata
from manager.config.in_force import InForce
from manager.config.matching import matching_entries
from manager.config.overlaps import Overlap, overlaps
from manager.config.state import applied, disabled_entries, instead, sentences, summary
from manager.context import Run

_LOG: Final = logging.getLogger(__name__)
_RECOUNT_SECONDS: Final = 5.0
_REWRITE_SECONDS: Final = 15.0
_REPEAT_SECONDS: Final = 1800.0
_PREFIX: Final = "headroom_manager_config"
_GONE: Final = "the ConfigMap is gone: the defaults apply, and colocation is disabled"


class ConfigMetrics:
    """Metrics of the configuration, beside whether it is valid."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", text, registry=registry)

        what = "Time since which the config is in force [s since 1970]; with config_valid 0 it is the last good one"
        self.since = gauge("in_force_since_seconds", what)
        self.disabled = gauge("disabled_entries", "Entries of nodeConfigs with faults")
        self.warnings = gauge("warnings", "Settings that are ignored or probably unintended")
        self.overlaps = gauge("overlap_nodes", "Nodes that match several nodeConfigs; counted by the leader")


class ConfigStatusReporter:
    """Reports each finding once, again every half hour while it lasts, and writes only what differs."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.uid = ""  # identity of the ConfigMap, or of the one that was there last
        self._metrics = run.context.metrics.of(ConfigMetrics)
        self._reported: InForce | None = None
        self._was_bad = False
        self._applied: ColocationConfig | None = None
        self._overlaps: tuple[Overlap, ...] = ()
        self._counted: tuple[ColocationConfig, int] | None = None
        self._reported_pairs: frozenset[tuple[str, str]] = frozenset()
        self._count_at = self._rewrite_at = float("-inf")
        self._repeat_at = float("inf")
        self._failure_logged = False

    def update_metrics(self) -> None:
        """Show the configuration in metrics."""
        metrics, state = self._run.context.metrics, self._run.context.in_force
        metrics.config_valid.set(0 if state.errors else 1)
        metrics.config_entries_disabled.set(len(state.entry_errors))
        self._metrics.since.set(state.since)
        self._metrics.disabled.set(len(disabled_entries(state)))
        self._metrics.warnings.set(len(state.warnings))
        self._was_bad = self._was_bad or bool(state.errors)

    def take_over(self, known: ColocationConfig | None) -> None:
        """Begin to report for all replicas; `known` has already been reported as in force."""
        self._applied, self._reported, self._counted = known, None, None
        self._was_bad = bool(self._run.context.in_force.errors)
        self._reported_pairs, self._rewrite_at = frozenset(), float("-inf")

    def hand_over(self) -> None:
        self._metrics.overlaps.set(0)

    async def reconcile(self, written: str | None) -> None:
        """Report changes, given the summary in the ConfigMap's annotation. Never raises."""
        now, steady = self._run.context.in_force, self._run.context.steady()
        changed = self._reported != now
        if changed or steady >= self._repeat_at:
            self._reported, self._repeat_at = now, steady + _REPEAT_SECONDS
            self._reported_pairs = frozenset()
            await self._report(now, changed=changed)
        await self._report_overlaps(now, steady)
        if changed:
            self._rewrite_at = float("-inf")
        if now.present and steady >= self._rewrite_at:
            await self._write(summary(now, self._overlaps), written, steady)

    async def _report(self, now: InForce, *, changed: bool) -> None:
        if not now.present:
            if now.removed and changed:
                self._applied = now.config
                await self._event("Warning", "ColocationConfigDeleted", _GONE)
            elif changed:
                settings = self._run.context.settings
                where = (settings.config_name, settings.namespace)
                _LOG.info("There is no ConfigMap %s in %s: the defaults apply", *where)
            return
        if now.errors:
            note = f"{instead(now)}. {sentences(now.errors)}"
            await self._event("Warning", "ColocationConfigInvalid", note)
            return
        if self._was_bad or self._applied != now.config:
            await self._event("Normal", "ColocationConfigApplied", await self._in_force_text(now))
            self._was_bad, self._applied = False, now.config
        if now.entry_errors:
            note = f"disabled: {sentences(disabled_entries(now))}. {sentences(now.entry_errors)}"
            await self._event("Warning", "ColocationConfigEntryDisabled", note)
        if now.warnings:
            await self._event("Warning", "ColocationConfigWarning", sentences(now.warnings))

    async def _in_force_text(self, now: InForce) -> str:
        nodes, result = self._nodes(), list[tuple[str, tuple[FieldChange, ...]]]()
        compared = differences(self._applied or ColocationConfig(), now.config, nodes)
        await in_slices(compared, lambda each: each, result)
        words = applied(changes(result), len(nodes))
        return f"valid again and {words}" if self._was_bad else words

    async def _report_overlaps(self, now: InForce, steady: float) -> None:
        """Entries that match the same nodes; counted when labels change, reported when a new pair overlaps."""
        basis = (now.config, self._run.context.cluster.label_changes)
        if self._counted != basis and (steady >= self._count_at or self._counted is None):
            self._counted, self._count_at = basis, steady + _RECOUNT_SECONDS
            matching = list[tuple[str, tuple[int, ...]]]()
            await in_slices(
                self._nodes(), lambda node: (node.name, matching_entries(now.config, node.labels)), matching
            )
            self._overlaps = overlaps(now.config, matching)
            self._metrics.overlaps.set(len(set().union(*(overlap.nodes for overlap in self._overlaps))))
        pairs = frozenset((overlap.wins, overlap.loses) for overlap in self._overlaps)
        if pairs - self._reported_pairs:
            await self._event("Warning", "ColocationConfigOverlap", sentences(self._overlaps))
        self._reported_pairs = pairs

    def _nodes(self) -> list[NodeMetadata]:
        """The nodes that the configuration concerns."""
        context = self._run.context
        nodes = (node_metadata(node) for node in context.cluster.nodes.values())
        return [node for node in nodes if not context.settings.exclude_nodes.excludes(node.labels)]

    async def _write(self, state: str, written: str | None, steady: float) -> None:
        """Write the summary; at most once in 15 s, even if it is removed or nodes change."""
        if state == written:
            return
        self._rewrite_at = steady + _REWRITE_SECONDS
        settings = self._run.context.settings
        path = paths.config_map(settings.namespace, settings.config_name)
        try:
            await self._run.api.patch(path, {"metadata": {"annotations": {ANNOTATION_CONFIG_STATE: state}}})
        except (ApiError, ApiUnavailable) as error:
            if isinstance(error, ApiError) and error.not_found:
                return  # its deletion is about to be observed
            level = logging.DEBUG if self._failure_logged else logging.WARNING
            _LOG.log(level, "The state of the configuration cannot be written on the ConfigMap: %s", error)
            self._failure_logged = True
        else:
            self._failure_logged = False

    async def _event(self, type_: str, reason: str, note: str) -> None:
        settings = self._run.context.settings
        _LOG.log(logging.INFO if type_ == "Normal" else logging.WARNING, "ConfigMap %s: %s", settings.config_name, note)
        regarding = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": settings.namespace}
        regarding |= {"name": settings.config_name, **({"uid": self.uid} if self.uid else {})}
        await self._run.events.record(regarding, type_, reason, "Configure", note)
