"""A pod through the plugins of a profile, over all nodes: the code that the extender runs, on lists read just now."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headroom.cluster.typed_pod import typed_pod
from kubectl_headroom.errors import CommandError
from kubectl_headroom.simulate.pod_file import GivenPod
from scheduler_plugins.api import (
    ClusterCache,
    Cycle,
    FloatArray,
    Nodes,
    PluginError,
    PodRequest,
    Profile,
    Source,
    SourcedPlugin,
    rounded,
)

DEFAULT_SCHEDULER: Final = "default-scheduler"  # the scheduler of a pod that names none

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class World:
    """The cluster as the plugins see it: filled object by object, as the extender's watches do."""

    profile: Profile  # the plugins
    now: float  # when it is read [unix s]
    cache: ClusterCache  # the nodes, their reports and pods
    unreadable: list[str] = field(default_factory=list)  # objects that could not be understood, each with the reason

    @classmethod
    def empty(cls, profile: Profile, now: float) -> "World":
        plugins = {part.name: part.plugin for part in profile.enabled}
        return cls(profile, now, ClusterCache(profile.load_rules, plugins, profile.in_flight_seconds))

    def sources(self) -> list[Source]:
        """Further kinds of objects that plugins keep an account of: to be listed, and given to `put_watched`."""
        return [source for kept in self.cache.plugin_states.values() for source in kept.sources()]

    def put_watched(self, source: Source, item: Json) -> None:
        self._take(source.kind.removesuffix("s"), source.put, item)

    def put_node(self, node: Json) -> None:
        self._take("Node", self.cache.put_node, node)

    def put_node_metric(self, node_metric: Json) -> None:
        self._take("NodeMetric", self.cache.put_node_metric, node_metric)

    def put_pod(self, pod: Json) -> None:
        self._take("Pod", lambda given: self.cache.put_pod(typed_pod(given), self.now), pod)

    def delete_pod(self, uid: str) -> None:
        self.cache.delete_pod(uid)

    def _take(self, kind: str, put: Callable[[Json], None], item: Json) -> None:
        try:
            put(item)
        except Exception as error:  # noqa: BLE001 - objects of any shape
            name = (item.get("metadata") or {}).get("name")
            self.unreadable.append(f"{kind} {name} cannot be understood and is left out: {error}")


@dataclass(frozen=True, slots=True)
class PluginScore:
    """The result of a plugin for a node."""

    raw: float  # 0 to 100
    weight: float  # how much it counts beside the others'
    weighted: float  # its part of the total: raw * weight / sum of all weights


@dataclass(frozen=True, slots=True)
class Outcome:
    """A node."""

    node: str  # its name
    refusals: Mapping[str, str]  # plugin -> why it refuses the node; empty: the node passes
    scores: Mapping[str, PluginScore]
    """By plugin; none for a node that is refused: kube-scheduler does not have those scored."""
    total: float | None  # the weighted mean of the scores, which ranks the node; None: refused
    answer: int | None  # the total as prioritize sends it, rounded
    rank: int | None  # 1 is the best; nodes with equal totals share a rank
    numbers: Mapping[str, Json]  # plugin -> the numbers behind its verdict and score


@dataclass(frozen=True, slots=True)
class Simulation:
    """A pod."""

    title: str  # how the output calls it
    request: PodRequest  # the pod as the plugins see it
    estimate: Mapping[str, int]  # its estimated usage [milli-cores for cpu, else base units]
    outcomes: Sequence[Outcome]  # every node: those that pass, best first, then those that are refused, by name
    plugins: Sequence[str]  # the plugins that score, in order
    scheduler_name: str  # of the pod

    def only(self, node: str) -> "Simulation":
        return replace(self, outcomes=[outcome for outcome in self.outcomes if outcome.node == node])


def simulate(world: World, given: GivenPod) -> Simulation:
    """Return the plugins' results for a pod.

    Raises:
        CommandError: the pod cannot be understood, or a plugin fails.
    """
    try:
        pod = world.cache.read(typed_pod(_as_pending(given.pod)))
    except Exception as error:
        raise CommandError(f"{given.title} cannot be understood: {error}") from error
    # A pod that is there already is simulated as if it were not: its own requests must not be in its way.
    world.delete_pod(pod.uid)
    nodes, cycle = world.cache.freeze(world.now), Cycle(world.profile.enabled)
    try:
        refusals = _refusals(cycle, pod, nodes)
        numbers = cycle.explain(pod, nodes)
        passing = np.array([row for row in range(len(nodes)) if not refusals[row]], np.intp)
        candidates = nodes.take(passing)
        scores = list(cycle.scores(pod, candidates))
        totals = cycle.score(pod, candidates)
    except PluginError as error:
        raise CommandError(f"{given.title}: {error}") from error
    outcomes = _outcomes(nodes.names, refusals, numbers, passing, scores, totals)
    outcomes.sort(key=lambda one: (one.rank is None, one.rank or 0, one.node))
    estimate = dict(zip(world.cache.rules.resources, pod.estimate, strict=True))
    scheduler_name = str(given.pod["spec"].get("schedulerName") or DEFAULT_SCHEDULER)
    return Simulation(given.title, pod, estimate, outcomes, [name for name, _, _ in scores], scheduler_name)


def _as_pending(pod: Json) -> Json:
    """Return the pod as in a filter request: plugins read more of pods without a node."""
    return {**pod, "spec": {name: value for name, value in pod["spec"].items() if name != "nodeName"}}


def _outcomes(
    names: Sequence[str],
    refusals: Sequence[Mapping[str, str]],
    numbers: Mapping[str, Sequence[Json]],
    passing: NDArray[np.intp],
    scores: Sequence[tuple[str, float, FloatArray]],
    totals: FloatArray,
) -> list[Outcome]:
    """Each node's outcome; scores and totals are of the rows that pass."""
    place = {int(row): at for at, row in enumerate(passing)}
    answers, descending = rounded(totals), np.sort(-totals)
    weights = sum(weight for _, weight, _ in scores)
    result = []
    for row, name in enumerate(names):
        at = place.get(row)
        explained = {plugin: rows[row] for plugin, rows in numbers.items()}
        if at is None:
            result.append(Outcome(name, refusals[row], {}, None, None, None, explained))
            continue
        details = {
            plugin: PluginScore(float(score[at]), weight, float(score[at]) * weight / weights)
            for plugin, weight, score in scores
        }
        rank = 1 + int(np.searchsorted(descending, -totals[at]))
        result.append(Outcome(name, {}, details, float(totals[at]), int(answers[at]), rank, explained))
    return result


def without_readings(profile: Profile) -> list[str]:
    """The plugins that work from readings of a provider of their own, which are not fetched here."""
    return [
        part.name
        for part in profile.enabled
        if isinstance(part.plugin, SourcedPlugin) and part.plugin.provider() is not None
    ]


def _refusals(cycle: Cycle, pod: PodRequest, nodes: Nodes) -> list[dict[str, str]]:
    """Return per node the plugins that refuse it, and why; all of them, not only the first as in the extender."""
    result: list[dict[str, str]] = [{} for _ in range(len(nodes))]
    for plugin, verdict in cycle.verdicts(pod, nodes):
        for row in np.flatnonzero(~verdict.passes).tolist():
            refusal = verdict.refusal(row)
            if refusal is not None:
                result[row].setdefault(plugin, refusal.reason)
    return result
