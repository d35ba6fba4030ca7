"""Filter, prioritize and preempt: from the snapshot, through the cycle, to names or scores; charges admitted pods."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

import numpy as np

from headroom.cluster.typed_pod import decoded
from scheduler_plugins.extender.wire import Arguments, FilterResult, Preemption
from scheduler_plugins.framework.cycle import Cycle, PluginError, rounded, single_winner
from scheduler_plugins.framework.plugin import Victims
from scheduler_plugins.framework.shortlist import Shortlist, best
from scheduler_plugins.framework.verdict import Verdict
from scheduler_plugins.snapshot.arrays import IntArray, Nodes
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import shortened
from scheduler_plugins.snapshot.names import NamesOfRows
from scheduler_plugins.snapshot.ordinary import Evaluated
from scheduler_plugins.snapshot.plugin_state import RelievablePlugin
from scheduler_plugins.snapshot.pod import PodRequest

_UNREADABLE: Final = "the pod cannot be read"

Refused: TypeAlias = Callable[[PodRequest, Mapping[str, Any], Sequence[str], Verdict], None]
"""Called with a pod that was refused on every node: the pod, its JSON, the nodes, and per node the reason."""


def _ignore_refusal(_pod: PodRequest, _json: Mapping[str, Any], _names: Sequence[str], _verdict: Verdict) -> None:
    pass


class UnreadablePod(ValueError):  # noqa: N818 - a state of the pod, shown in its event
    """The pod of a request is malformed; one line with the reason."""


class Mode(StrEnum):
    """The mode of kube-scheduler's configuration."""

    SHORTLIST = "shortlist"
    WEIGHTED = "weighted"


@dataclass(frozen=True, slots=True)
class Answering:
    """Settings of responses."""

    mode: Mode = Mode.SHORTLIST
    """shortlist: filter returns the better part. weighted: filter returns all that pass, prioritize scores them."""
    shortlist: Shortlist = field(default_factory=Shortlist)
    """The length of a shortlist."""


class Extender:
    """Answers filter, prioritize and preempt."""

    def __init__(
        self,
        cache: ClusterCache,
        cycle: Cycle,
        answering: Answering,
        clock: Callable[[], float],
        generator: np.random.Generator,
        on_refused: Refused = _ignore_refusal,
    ) -> None:
        self._cache = cache
        self._cycle = cycle
        self._answering = answering
        self._weighted = answering.mode is Mode.WEIGHTED
        self._clock = clock
        self._generator = generator
        self._on_refused = on_refused
        self._relieving = [kept for kept in cache.plugin_states.values() if isinstance(kept, RelievablePlugin)]

    def filter(self, arguments: Arguments) -> FilterResult:
        """The nodes that the pod may be bound to, or a reason for every node when there is none.

        A pod that cannot be read is refused on every node: to an error kube-scheduler may close its eyes, and bind it.

        Raises PluginError: a plugin failed.
        """
        try:
            pod = self._read(arguments)
        except UnreadablePod as error:
            reason = shortened(error)
            return FilterResult(unresolvable=dict.fromkeys(arguments.names, reason), families=frozenset({_UNREADABLE}))
        names, unknown = self._cache.find(arguments.names)
        self._cache.release(pod.uid)  # whatever became of its last attempt, that one is over
        now = self._clock()
        ordinary = None if unknown else self._evaluate(pod, names, now)
        if ordinary is not None:
            if self._weighted:
                return self._every(pod, ordinary.names, [], now)
            return self._shortlist(pod, ordinary, [], now)
        return self._filter(arguments, pod, names, unknown, now)

    def prioritize(self, arguments: Arguments) -> IntArray:
        """Return the score of every requested node, 0..100, in the order of the names.

        The pod's own reservation is released first: filter's charge counts again only when the scores are made.

        Raises PluginError: a plugin failed; UnreadablePod: the pod cannot be read.
        """
        pod = self._read(arguments)
        names, unknown = self._cache.find(arguments.names)
        charge = self._cache.in_flight.get(pod.uid)
        self._cache.release(pod.uid)
        now = self._clock()
        try:
            ordinary = self._evaluate(pod, names, now)
            if ordinary is not None and len(ordinary.scores) == len(names):
                exact = ordinary.scores
            else:
                exact = self._cycle.score(pod, self._cache.view(names, now))
        except PluginError:
            # kube-scheduler goes on without these scores, and binds the pod.
            self._cache.charge(pod, charge.names if charge else [], now)
            raise
        scores = rounded(exact)
        # The nodes left of a shortlist are charged: kube-scheduler's own scores decide among it. Otherwise ours do.
        if not self._weighted and charge and set(charge.names).issuperset(arguments.names):
            self._cache.charge(pod, list(arguments.names) if unknown else names, now)
        elif len(names):
            (favourite,) = best(exact, 1, self._generator).tolist()
            scores = single_winner(scores, favourite)
            self._cache.charge(pod, [names[favourite]], now)
        else:
            self._cache.charge(pod, [], now)
        if not unknown:
            return scores
        by_name = dict(zip(names, scores.tolist(), strict=True))
        return np.array([by_name.get(name, 0) for name in arguments.names], np.int64)

    def preempt(self, arguments: Preemption) -> Mapping[str, Victims]:
        """The allowed victims, by node: not on nodes that stay rejected without them, and as the plugins decide.

        Raises PluginError: a plugin failed; UnreadablePod: the pod cannot be read.
        """
        pod = self._read(arguments)
        self._cache.release(pod.uid)
        with self._without(arguments.victims):
            nodes, _ = self._cache.select(list(arguments.victims), self._clock())
            verdict = self._cycle.filter(pod, nodes, preempting=True)
        refusals = ((name, verdict.refusal(row)) for row, name in enumerate(nodes.names))
        hopeless = {name for name, refusal in refusals if refusal is not None and not refusal.eviction_helps}
        victims = {name: result for name, result in arguments.victims.items() if name not in hopeless}
        if not victims:
            return {}
        rows = np.array([row for row, name in enumerate(nodes.names) if name not in hopeless], np.intp)
        return self._cycle.post_filter(pod, nodes.take(rows), victims)

    @contextmanager
    def _without(self, victims: Mapping[str, Victims]) -> Iterator[None]:
        """The cluster as filter will see it without these pods: their measured usage still counts."""
        there = [(ledger.pods, result.uids) for name, result in victims.items() if (ledger := self._cache.ledger(name))]
        gone = [pods[uid] for pods, uids in there for uid in uids if uid in pods]
        for assigned in gone:
            self._cache.displace(assigned.pod.uid)
        try:
            yield
        finally:
            for assigned in gone:
                self._cache.place(assigned.pod, assigned.timestamp)

    def _relieve(self, pod: PodRequest, nodes: Nodes) -> None:
        """Subtract from a node the measured usage of victims that ended for this very pod."""
        for kept in self._relieving:
            result = kept.relieved(pod.uid, nodes.now)
            ledger = self._cache.ledger(result.node) if result is not None else None
            if result is not None and ledger is not None and result.node in nodes.names:
                row = nodes.names.index(result.node)
                relief = ledger.left_behind(result.victims, result.relief)
                for landed in (nodes.common.mean, nodes.common.whole):
                    landed[row, : len(relief)] -= relief

    def _read(self, arguments: Arguments | Preemption) -> PodRequest:
        """The pod as numbers: as the watch brought it, or as kube-scheduler sent it."""
        if (known := self._cache.pending(arguments.pod)) is not None:
            return known
        try:
            return self._cache.read(decoded(arguments.pod))
        except Exception as error:
            what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            raise UnreadablePod(f"{_UNREADABLE}: {what}") from error

    def _filter(
        self, arguments: Arguments, pod: PodRequest, names: NamesOfRows, unknown: Sequence[str], now: float
    ) -> FilterResult:
        """As `filter`, by the filters and scores of the plugins."""
        nodes = self._cache.view(names, now)
        self._relieve(pod, nodes)
        verdict = self._cycle.filter(pod, nodes.cautious() if self._cache.in_flight else nodes)
        passing = nodes if verdict.refuses_none else nodes.take(np.flatnonzero(verdict.passes))
        if not len(passing) and not unknown:
            if len(nodes):
                self._on_refused(pod, decoded(arguments.pod), nodes.names, verdict)
            return _refused(nodes.names, verdict)
        if unknown and (refusal := self._cycle.refuses(pod, nodes)) is not None:
            # What refuses the pod as such holds on nodes, too, that the watch has not brought yet.
            everywhere = [*nodes.names, *unknown]
            verdict = Verdict.all_refused(len(everywhere), refusal)
            self._on_refused(pod, decoded(arguments.pod), everywhere, verdict)
            return _refused(everywhere, verdict)
        if self._weighted:
            return self._every(pod, passing.names, unknown, now)
        in_flight = passing.pods_in_flight if self._cache.in_flight else 0
        evaluated = Evaluated(passing.names, passing.ids, self._cycle.score(pod, passing), in_flight)
        return self._shortlist(pod, evaluated, unknown, now)

    def _evaluate(self, pod: PodRequest, names: NamesOfRows, now: float) -> Evaluated | None:
        """The nodes that pass by the formulas of the plugins; None: the pod or a node is not ordinary."""
        if not self._cycle.ordinary:
            return None
        amounts = self._cycle.prepare(pod, self._cache.view_without_nodes(now))
        if amounts is None or any(kept.relieved(pod.uid, now) is not None for kept in self._relieving):
            return None
        return self._cache.evaluate(names, self._cycle.ordinary, amounts, now)

    def _every(self, pod: PodRequest, passing: Sequence[str], unknown: Sequence[str], now: float) -> FilterResult:
        """Name every node."""
        names = [*passing, *unknown]
        # The node is known once scores are requested, which kube-scheduler does not for a single node.
        self._cache.charge(pod, names if len(names) == 1 else [], now)
        return FilterResult(names)

    def _shortlist(self, pod: PodRequest, passing: Evaluated, unknown: Sequence[str], now: float) -> FilterResult:
        """Name the best nodes."""
        best, likely = self._best(pod, passing)
        # A node that is not known yet has no load that we know of: it comes last.
        last = unknown[: max(self._answering.shortlist.size - len(best), 0)]
        named = [*best, *last]
        self._cache.charge(pod, named if last and (likely is best or not likely) else likely, now)
        return FilterResult(named)

    def _best(self, pod: PodRequest, passing: Evaluated) -> tuple[NamesOfRows, NamesOfRows]:
        """The nodes to name, the best of each group first, and those of them where the pod is likely to land.

        It is charged to these in equal shares.
        """
        names, ids, scores, in_flight = passing
        groups = self._cache.groups.of(pod.preferences, ids)
        if pod.preferences.per_node:
            rows = best(scores, len(scores), self._generator)
        else:
            rows = self._answering.shortlist.choose(scores, groups, self._generator, in_flight)
        likely, named = groups.likely(rows), NamesOfRows(names, rows)
        return named, named if likely is rows else NamesOfRows(names, likely)


def _refused(names: Sequence[str], verdict: Verdict) -> FilterResult:
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    families = set()
    for row, name in enumerate(names):
        refusal = verdict.refusal(row)
        if refusal is not None:
            (failed if refusal.eviction_helps else unresolvable)[name] = refusal.reason
            families.add(refusal.family)
    return FilterResult(failed=failed, unresolvable=unresolvable, families=frozenset(families))
