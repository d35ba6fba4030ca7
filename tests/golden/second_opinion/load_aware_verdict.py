"""What the filter and the score of LoadAwareScheduling must say of one node, from the reference alone."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crds.duration import DurationError, parse_duration
from crds.priority import priority_class
from crds.quantity import QuantityError
from tests.golden.second_opinion.load_aware import (
    RAW_ALLOCATABLE,
    THRESHOLDS,
    Amounts,
    Json,
    Model,
    effective,
    estimate,
    units,
    unix,
)


@dataclass(frozen=True)
class Question:
    """A pod and a node."""

    model: Model
    """The cache."""
    node: Json
    """The Node."""
    pod: Json
    """The pod."""
    now: float
    """The time. [unix s]"""
    in_flight: Sequence[Json] = ()
    """Pods that were answered for with this node and not seen bound."""

    @property
    def name(self) -> str:
        """Name of the node."""
        return str(self.node["metadata"]["name"])

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments in force."""
        return self.model.args

    @property
    def prod(self) -> bool:
        """Whether the pod is Prod."""
        return priority_class(self.pod) == "koord-prod"

    @property
    def status(self) -> Json | None:
        """What the NodeMetric says; None: there is none."""
        known = self.model.nodes.get(self.name)
        return None if known is None or known.metric is None else known.metric.get("status") or {}

    def allocatable(self) -> Amounts:
        """What the node has to give."""
        given = dict((self.node.get("status") or {}).get("allocatable") or {})
        try:
            raw = json.loads((self.node["metadata"].get("annotations") or {}).get(RAW_ALLOCATABLE) or "{}")
            # Go reads null as zero and passes over blanks.
            read = {name: "0" if each is None else str(each).strip() for name, each in raw.items()}
            given |= {name: each for name, each in read.items() if units(name, each) is not None}
        except (ValueError, AttributeError, QuantityError):
            pass
        return {name: units(name, given[name]) if name in given else 0 for name in self.model.resources}

    def expired(self) -> bool:
        """Whether the report is too old."""
        limit = self.args.get("nodeMetricExpirationSeconds")
        if limit is None:
            return False
        updated = unix((self.status or {}).get("updateTime"))
        return updated is None or (limit > 0 and self.now - updated >= limit)

    def existing(self, mode: str, statistic: tuple[str, float] | None = None) -> Amounts:
        """Usage of the pods that are there, measured and expected."""
        model, parts = self.model, self.model.parts(self.name)
        estimated = model._sum(part.estimated for part in parts)
        if mode == "prod":
            return model._sum([model.prod_usage(self.name), *(part.prod_delta for part in parts)])
        base = model.node_usage(self.name)
        if statistic is not None:
            found = model.aggregates(self.name).get(statistic)
            base = model._vector(found) if found is not None else base if statistic[1] == 0 else None
        measured = estimated if base is None else model._sum([base, *(part.delta for part in parts)])
        peak = self.peak() if mode == "peak" else {}
        unknown = model._sum(part.estimated for part in parts if part.unreported)
        return {name: peak[name] + unknown[name] if name in peak else measured[name] for name in model.resources}

    def peak(self) -> Amounts:
        """The predicted peak, where it is to be gone by; empty: it is not."""
        status = self.status or {}
        prediction = status.get("prediction") or {}
        made = unix(prediction.get("time"))
        ready = all(
            each["status"] != "False" for each in status.get("conditions") or () if each["type"] == "PredictionReady"
        )
        fresh = made is not None and self.now - made < self.args.get("predictionExpirationSeconds", 900)
        if not (self.args.get("usePrediction") and ready and fresh):
            return {}
        peaks = [each.get("peak") or {} for each in prediction.get("classes") or () if each["name"] == "node"]
        return {name: units(name, peaks[0][name]) for name in self.model.resources if peaks and name in peaks[0]}

    def unstated(self, mode: str, statistic: tuple[str, float] | None = None) -> set[str]:
        """Resources of which nobody says how much the node uses, or will at its peak."""
        if not self.model.ours:
            return set()
        measured = self.model.measured(self.model.nodes[self.name]) or {}
        plain = (measured.get("nodeUsage") or {}).get("resources") or {}
        aggregated = plain if statistic is None else self.model.aggregates(self.name).get(statistic, plain)
        # Everything uses CPU and memory, so that we take no silence about these for 0.
        unknown = {"cpu", "memory"} - ({*plain} & {*aggregated}) if plain else {*self.model.resources}
        return unknown - {*(self.peak() if mode == "peak" else {})}

    def used(self, mode: str, statistic: tuple[str, float] | None = None) -> Amounts:
        """Usage with this pod, and with those in flight."""
        coming = [self.pod, *(pod for pod in self.in_flight if mode != "prod" or priority_class(pod) == "koord-prod")]
        return self.model._sum(
            [self.existing(mode, statistic), *(estimate(pod, self.args, ours=self.model.ours) for pod in coming)]
        )


def question(given: Json, *, ours: bool) -> Question:
    """What a vector of `loadaware_filter` or `loadaware_score` asks."""
    args = effective(given.get("args") or {}, defaults=bool(given.get("applyDefaults")))
    model, now = Model(args, ours=ours), unix(given["now"]) or 0.0
    if given.get("nodeMetric"):
        model.deliver({"type": "nodeMetricUpsert", "nodeMetric": given["nodeMetric"]}, now)
    for assigned in given.get("assignedPods", ()):
        model.deliver({"type": "podAdd", "pod": assigned["pod"]}, unix(assigned.get("assignedAt")) or now)
    return Question(model, given["node"], given["pod"], now)


def _thresholds(question: Question) -> tuple[Json, Json, Json]:
    """Usage, Prod and aggregated thresholds on a node: each group of the annotation replaces the arguments'."""
    args = question.args
    usage, prod, aggregated = (
        args.get(name) or {} for name in ("usageThresholds", "prodUsageThresholds", "aggregated")
    )
    text = (question.node["metadata"].get("annotations") or {}).get(THRESHOLDS)
    try:
        # Go's JSON matches names in any case; a misfit of any part spoils all.
        given = {name.lower(): part for name, part in json.loads(text or "{}").items()}
        part = {name.lower(): each for name, each in (given.get("aggregatedusage") or {}).items()}
        names = ("usageThresholds", "usageAggregationType", "usageAggregatedDuration")
        own = {name: part.get(name.lower()) for name in names}
        maps = [given.get("usagethresholds"), given.get("produsagethresholds"), own["usageThresholds"]]
        if any(type(percent) is not int for each in maps for percent in (each or {}).values()):
            return usage, prod, aggregated
        parse_duration(own["usageAggregatedDuration"] or "0s")
    except (ValueError, AttributeError, TypeError, DurationError):
        return usage, prod, aggregated
    whole = own if own.get("usageThresholds") and own.get("usageAggregationType") else aggregated
    return maps[0] or usage, maps[1] or prod, whole


def _group(question: Question) -> tuple[str, Json, tuple[str, float] | None, str]:
    """The one group of thresholds that judges: what is compared, with which limits, and its word in the reason."""
    usage, prod, aggregated = _thresholds(question)
    if question.prod and any(prod.values()):
        return "prod", prod, None, ""
    if aggregated.get("usageThresholds") and aggregated.get("usageAggregationType"):
        duration = parse_duration(aggregated.get("usageAggregatedDuration") or "0s")
        statistic = (aggregated["usageAggregationType"], duration)
        return "node", aggregated["usageThresholds"], statistic, "aggregated "
    return ("peak", usage, None, "predicted ") if question.peak() else ("node", usage, None, "")


def reason(question: Question) -> str | None:
    """Why the node is refused; None: it passes. The steps of the reference, in its order."""
    if any(owner.get("kind") == "DaemonSet" for owner in question.pod["metadata"].get("ownerReferences") or ()):
        return None
    mode, limits, statistic, word = _group(question)
    if not any(limits.get(name) for name in question.model.resources) or question.status is None:
        return None
    if question.args.get("filterExpiredNodeMetrics") is True and question.expired():
        fails = question.args.get("enableScheduleWhenNodeMetricsExpired") is False
        return "node(s) nodeMetric expired" if fails else None
    if question.model.node_usage(question.name) is None and mode != "peak":
        return None
    used, total, unstated = question.used(mode, statistic), question.allocatable(), question.unstated(mode, statistic)
    known = (name for name in question.model.resources if name not in unstated)
    over = (name for name in known if _is_over(used[name], total[name], limits.get(name, 0)))
    first = next(over, None)
    return None if first is None else f"node(s) {first} {word}usage exceed threshold"


def _is_over(used: int, total: int, limit: int) -> bool:
    """Whether the percent, rounded with halves up (no share is negative), is more than the limit."""
    if not limit or not total:
        return False
    share = float(used) / float(total) * 100
    return math.floor(share) + (share - math.floor(share) >= 0.5) > limit


def score(question: Question) -> int:
    """The score of the node, 0..100."""
    args, dominant = question.args, question.args.get("dominantResourceWeight") or 0
    weights = args.get("resourceWeights") or {}
    if not any(weights.values()) and not dominant:
        return 0
    aggregated = args.get("aggregated") or {}
    kind, statistic = aggregated.get("scoreAggregationType"), None
    mode = "prod" if args.get("scoreAccordingProdUsage") and question.prod else "node"
    if mode == "node" and kind:
        statistic = (kind, parse_duration(aggregated.get("scoreAggregatedDuration") or "0s"))
    elif mode == "node" and question.peak():
        mode = "peak"
    if question.status is None or question.expired():
        return 0
    if question.model.node_usage(question.name) is None and mode != "peak":
        return 0
    if any(weights.get(name) or dominant for name in question.unstated(mode, statistic)):
        return 0
    used, total = question.used(mode, statistic), question.allocatable()
    free = {
        name: 0 if total[name] == 0 or used[name] > total[name] else (total[name] - used[name]) * 100 // total[name]
        for name in question.model.resources
    }
    weighed = sum(free[name] * weights.get(name, 0) for name in free) + min(100, *free.values()) * dominant
    return int(weighed // (sum(weights.get(name, 0) for name in free) + dominant))
