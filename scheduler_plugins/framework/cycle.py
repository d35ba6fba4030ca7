"""A pod against some nodes: run the filters and join their verdicts, weigh the scores and round once."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler_plugins import steps
from scheduler_plugins.framework.plugin import (
    ExplainingPlugin,
    FilterPlugin,
    OrdinaryPlugin,
    PostFilterPlugin,
    PreFilterPlugin,
    RecognisingPlugin,
    ScorePlugin,
    Victims,
)
from scheduler_plugins.framework.verdict import Refusal, Verdict
from scheduler_plugins.snapshot.arrays import FloatArray, IntArray, Nodes
from scheduler_plugins.snapshot.ordinary import OrdinaryPart, Prepared
from scheduler_plugins.snapshot.pod import PodRequest
from scheduler_plugins.snapshot.units import Vector
from scheduler_plugins.steps.in_python import MAX_SCORE

Observer = Callable[[str, str, float | None], None]
"""Called after calls of plugins: the name, the extension point, and the seconds it took, None where it failed."""


class PluginError(Exception):
    """A plugin failed; the message has its name and the error."""


@dataclass(frozen=True, slots=True)
class Enabled:
    """A plugin of the profile."""

    name: str  # its registered name
    weight: float  # how much its score counts beside the others'
    plugin: object  # the plugin; it is called at the points that it implements
    points: frozenset[str] | None = None
    """Where it takes part: pre_filter, filter, score, post_filter; None: in all that it implements."""

    def at(self, point: str) -> bool:
        """Return whether it is called there, if it implements that."""
        return self.points is None or point in self.points


def _unobserved(_name: str, _step: str, _seconds: float | None) -> None:
    pass


class Cycle:
    """The plugins of a profile; every call raises a `PluginError` where one of them fails.

    Args:
        enabled: the plugins, in the order in which they are called.
        observe: called after each failure of a plugin, and after a part of the other calls.
        sampled: for which part of the pods calls are observed, as kube-scheduler does for a tenth. [0..1]
    """

    def __init__(self, enabled: Sequence[Enabled], observe: Observer = _unobserved, sampled: float = 1.0) -> None:
        def at(point: str) -> list[tuple[str, object]]:
            return [(part.name, part.plugin) for part in enabled if part.at(point)]

        every = [(part.name, part.plugin) for part in enabled]
        self._pre_filters = [(name, each) for name, each in at("pre_filter") if isinstance(each, PreFilterPlugin)]
        self._filters = [(name, each) for name, each in at("filter") if isinstance(each, FilterPlugin)]
        self._post_filters = [(name, each) for name, each in at("post_filter") if isinstance(each, PostFilterPlugin)]
        self._explaining = [(name, each) for name, each in every if isinstance(each, ExplainingPlugin)]
        self._recognising = [(name, each) for name, each in every if isinstance(each, RecognisingPlugin)]
        self._scores = [
            (part.name, part.plugin, part.weight)
            for part in enabled
            if isinstance(part.plugin, ScorePlugin) and part.weight > 0 and part.at("score")
        ]
        self._weights = [weight for _, _, weight in self._scores]
        self.ordinary = _ordinary(enabled)
        """The plugins with their formulas, if all have one and a step evaluates them; empty otherwise."""
        self._observe, self._sampled, self._timed = observe, sampled, True

    def prepare(self, pod: PodRequest, nodes: Nodes) -> Sequence[Vector | None] | None:
        """The amounts of the pod for each plugin of `ordinary`; None: `filter` and `score` decide about it."""
        self._timed = random.random() < self._sampled  # noqa: S311 - no secret
        result: list[Vector | None] = []
        for name, plugin, _, _ in self.ordinary:
            amounts: Prepared = self._call(name, plugin, "prepare", pod, nodes)
            if amounts is False:
                return None
            result.append(amounts)
        return result

    def filter(self, pod: PodRequest, nodes: Nodes, *, preempting: bool = False) -> Verdict:
        """Return the verdict over the nodes: a node's first refusal counts, and the refusal of a pod comes first.

        Without nodes it has all refusals that filters may give.
        """
        self._timed = random.random() < self._sampled  # noqa: S311 - no secret
        passed_over = {name for name, _ in self._post_filters} if preempting else frozenset()
        verdict, count = None, len(nodes)
        for _, result in self.verdicts(pod, nodes, passed_over):
            if count and result.refuses_none:
                continue
            verdict = result if verdict is None else verdict.then(result)
            if count and not verdict.passes.any():
                break  # nothing further would count
        return Verdict.all_pass(count) if verdict is None else verdict

    def refuses(self, pod: PodRequest, nodes: Nodes) -> Refusal | None:
        """Return why no node may have the pod, whatever the node; None: that depends on the node."""
        for name, plugin in self._pre_filters:
            refusal: Refusal | None = self._call(name, plugin, "pre_filter", pod, nodes)
            if refusal is not None:
                return refusal
        return None

    def recognises(self, text: str) -> bool:
        """Return whether a text quotes a reason of a plugin whose reasons hold numbers."""
        return any(self._call(name, plugin, "recognises", text) for name, plugin in self._recognising)

    def verdicts(
        self, pod: PodRequest, nodes: Nodes, passed_over: AbstractSet[str] = frozenset()
    ) -> Iterator[tuple[str, Verdict]]:
        """The verdict of each plugin, by name and in order; one that refuses the pod as such refuses every node."""
        for name, plugin in self._pre_filters:
            if name in passed_over:
                continue
            if (refusal := self._call(name, plugin, "pre_filter", pod, nodes)) is not None:
                yield name, Verdict.all_refused(len(nodes), refusal)
        for name, evaluate in self._filters:
            if name in passed_over:
                continue
            yield name, self._call(name, evaluate, "filter", pod, nodes)

    def score(self, pod: PodRequest, nodes: Nodes) -> FloatArray:
        """The weighted mean of the plugins' scores, within 0 and 100, shape (N,). Without any, all are 0."""
        if not self._scores:
            return np.zeros(len(nodes))
        scores = [self._call(name, plugin, "score", pod, nodes) for name, plugin, _ in self._scores]
        try:
            return steps.weighted_mean(scores, self._weights, len(nodes))
        except (TypeError, ValueError):
            checked = [_checked(name, some, nodes) for (name, _, _), some in zip(self._scores, scores, strict=True)]
            return steps.weighted_mean(checked, self._weights, len(nodes))

    def scores(self, pod: PodRequest, nodes: Nodes) -> Iterator[tuple[str, float, FloatArray]]:
        """Each plugin's name, weight and scores, within 0 and 100, shape (N,), not weighted."""
        for name, plugin, weight in self._scores:
            yield name, weight, _checked(name, self._call(name, plugin, "score", pod, nodes), nodes)

    def post_filter(self, pod: PodRequest, nodes: Nodes, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Return the allowed victims, by node, after every plugin has decided."""
        for name, plugin in self._post_filters:
            victims = self._call(name, plugin, "post_filter", pod, nodes, victims)
        return victims

    def explain(self, pod: PodRequest, nodes: Nodes) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The numbers behind verdicts and scores: per plugin, one JSON object per node."""
        result = {}
        for name, plugin in self._explaining:
            result[name] = self._call(name, plugin, "explain", pod, nodes)
        return result

    def _call(self, name: str, plugin: object, method: str, *arguments: object) -> Any:  # noqa: ANN401 - as it answers
        """Return the result of a plugin. Raises PluginError: it fails."""
        started = time.perf_counter() if self._timed else None
        try:
            result = getattr(plugin, method)(*arguments)
        except Exception as error:
            point = method.removesuffix("s")
            self._observe(name, point, None)
            raise PluginError(f"{name} could not {point}: {type(error).__name__}: {error}") from error
        if started is not None:
            self._observe(name, method.removesuffix("s"), time.perf_counter() - started)
        return result


def _ordinary(enabled: Sequence[Enabled]) -> tuple[OrdinaryPart, ...]:
    """The plugins with their formulas; empty where one has no formula, or is called at some of its points only."""
    result = []
    for part in enabled if steps.COMPILED else ():
        plugin = part.plugin
        kinds = {"pre_filter": PreFilterPlugin, "filter": FilterPlugin, "score": ScorePlugin}
        points = [point for point, kind in kinds.items() if isinstance(plugin, kind)]
        if not points:
            continue
        if not isinstance(plugin, OrdinaryPlugin) or not all(map(part.at, points)):
            return ()
        formula = plugin.formula()
        if formula is None:
            return ()
        result.append(OrdinaryPart(part.name, plugin, part.weight if "score" in points else 0.0, formula))
    return tuple(result)


def _checked(name: str, scores: IntArray | FloatArray, nodes: Nodes) -> FloatArray:
    """A plugin's scores within 0 and 100. Raises PluginError: one is not a number, or there is not one per node."""
    try:
        result = np.asarray(scores, np.float64)
    except (TypeError, ValueError) as error:
        raise PluginError(f"{name} could not score: {error}") from error
    if result.shape != (len(nodes),):
        raise PluginError(f"{name} could not score: its scores for {len(nodes)} nodes have the shape {result.shape}")
    if np.isnan(result).any():
        node = nodes.names[int(np.isnan(result).argmax())]
        raise PluginError(f"{name} could not score: the score of node {node} is not a number")
    return np.clip(result, 0.0, MAX_SCORE)


def rounded(scores: FloatArray) -> IntArray:
    """Scores as the integers of the wire, 0..100; halves go up."""
    return np.floor(scores + 0.5).astype(np.int64)


def single_winner(scores: IntArray, winner: int) -> IntArray:
    """Scores of which the winner's alone is the best: those that share it have one point less, within the rounding.

    kube-scheduler draws lots between equal scores. A draw made here tells the cycle where the pod goes, and
    can charge it there.
    """
    top = int(scores.max(initial=0))
    lowered = np.minimum(scores, max(top - 1, 0))
    lowered[winner] = max(top, 1)
    return lowered
