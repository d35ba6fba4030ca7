"""Polls a metrics provider and caches the last result. Survives any response."""

import asyncio
import logging
import pkgutil
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from headroom.runtime.backoff import Backoff
from scheduler_plugins.providers.provider import Answer, Cluster, Provider, ProviderError, utilisation
from scheduler_plugins.providers.spec import LOAD_WATCHER, PROVIDERS, ProviderSpec
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.report import Utilisation

LONGEST_PAUSE: Final = 300.0  # the longest wait between two tries of a provider that does not answer. [s]
_FIRST_PAUSE: Final = 2.0
_JITTER: Final = 0.1
_NAMES_SHOWN: Final = 3
_AT_ONCE: Final = 100  # so many nodes are some milliseconds of work. [nodes]
_BUCKETS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_LOG: Final = logging.getLogger(__name__)


class ProviderMetrics:
    """The metrics of providers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix, labels = "headroom_scheduler_provider_", ["plugin", "provider"]
        self.fetches = Histogram(
            f"{prefix}fetch_seconds",
            "Time to query a plugin's provider of metrics, by outcome (answered, failed).",
            [*labels, "outcome"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.last_answer = Gauge(
            f"{prefix}last_answer_timestamp_seconds", "When it last answered.", labels, registry=registry
        )
        help_text = (
            "Nodes in its last answer (matched), nodes that it left out (missing), names that are no nodes (unknown)."
        )
        self.nodes = Gauge(f"{prefix}nodes", help_text, [*labels, "state"], registry=registry)
        values = "Values in its answers that are no measurements."
        self.unusable = Counter(f"{prefix}unusable_values_total", values, labels, registry=registry)


@dataclass(frozen=True, slots=True)
class Match:
    """The match of the names in a result with the cluster's."""

    matched: int  # Nodes that are in both
    missing: Sequence[str]  # Nodes that the answer leaves out, sorted
    unknown: Sequence[str]  # names that are no nodes, sorted

    @classmethod
    def of(cls, answered: Mapping[str, object], nodes: Sequence[str]) -> "Match":
        wanted = set(nodes)
        return cls(len(wanted & answered.keys()), sorted(wanted - answered.keys()), sorted(answered.keys() - wanted))

    def sentence(self) -> str:
        """For people."""
        total = self.matched + len(self.missing)
        parts = [f"{self.matched} of {total} nodes matched"]
        if self.missing:
            parts.append(f"without {_some(self.missing)}")
        if self.unknown:
            hint = "" if self.matched else "; metricProvider.nodeLabel and nodePattern map their names to nodes"
            parts.append(f"{len(self.unknown)} names are no nodes: {_some(self.unknown)}{hint}")
        return ", ".join(parts)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(name[:80] for name in names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


class Runner:
    """Polls one provider for one plugin."""

    def __init__(
        self,
        provider: Provider,
        plugin: str,
        cache: ClusterCache,
        interval: float,  # between two fetches [s]
        metrics: ProviderMetrics,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        lots: random.Random | None = None,
    ) -> None:
        self._provider = provider
        self._plugin = plugin
        self._cache = cache
        self._interval = interval
        self._metrics = metrics
        self._clock = clock
        self._sleep = sleep
        self._lots = lots or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._answered_at: float | None = None
        self._readings: Mapping[str, Utilisation] = {}
        self._answer = Answer({})
        self._failures = 0
        self._error = ""
        self._logged = ""

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.poll()
            await self._sleep(self.pause())

    async def poll(self) -> bool:
        """Ask once; whether there is an answer. Without one the last readings stay, and age."""
        labels = self._plugin, self._provider.name
        started, now = time.perf_counter(), self._clock()
        try:
            await self._take(await self._provider.fetch(now))
        except ProviderError as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001 - the outer runner: a provider's failure affects no other
            _LOG.exception("%s of %s failed", self._provider.name, self._plugin)
            self._fail(f"{type(error).__name__}: {error}")
        answered = not self._failures
        outcome = "answered" if answered else "failed"
        self._metrics.fetches.labels(*labels, outcome).observe(time.perf_counter() - started)
        return answered

    async def _take(self, answer: Answer) -> None:
        """Hand over a result, a few nodes at a time: requests are served in between."""
        smoothed = self._provider.smoothed
        if not answer.nodes:
            bad = f", and {answer.unusable} values that are no measurements" if answer.unusable else ""
            raise ProviderError(f"the answer has no node{bad}")
        readings: dict[str, Utilisation] = {}
        self._cache.retain_readings(self._plugin, answer.nodes.keys())
        pairs = iter(answer.nodes.items())
        while some := list(islice(pairs, _AT_ONCE)):
            result = {name: utilisation(node.metrics, node.measured_at, smoothed=smoothed) for name, node in some}
            measured = {name: reading for name, reading in result.items() if reading is not None}
            readings |= measured
            self._cache.update_readings(self._plugin, measured)
            self._cache.freeze(self._clock())
            await asyncio.sleep(0)
        self._readings, self._answer = readings, answer
        self._answered_at, self._failures, self._error = self._clock(), 0, ""
        labels = self._plugin, self._provider.name
        match = Match.of(readings, self._cache.nodes)
        self._metrics.last_answer.labels(*labels).set(self._answered_at)
        self._metrics.unusable.labels(*labels).inc(answer.unusable)
        counts = {"matched": match.matched, "missing": len(match.missing), "unknown": len(match.unknown)}
        for state, count in counts.items():
            self._metrics.nodes.labels(*labels, state).set(count)
        self._log_change("answers" if match.matched or not self._cache.nodes else f"answers, but {match.sentence()}")

    def _fail(self, why: str) -> None:
        self._failures += 1
        self._error = why
        self._log_change(f"gives nothing: {why}")

    def _log_change(self, what: str) -> None:
        """Log changes, once."""
        if what != self._logged:
            level = logging.INFO if what == "answers" else logging.WARNING
            _LOG.log(level, "%s at %s, for %s, %s", self._provider.name, self._provider.address, self._plugin, what)
        self._logged = what

    def pause(self) -> float:
        """Return how long to wait now, with jitter: the interval, or after failures twice as long each time. [s]"""
        usual = self._interval
        if self._failures:
            usual = Backoff(_FIRST_PAUSE, max(LONGEST_PAUSE, usual)).after(self._failures)
        return usual * self._lots.uniform(1 - _JITTER, 1 + _JITTER)

    def state(self) -> str:
        """A line for /healthz?verbose."""
        place = f"{self._provider.name} at {self._provider.address}"
        if self._answered_at is None:
            return f"{place}: {self._problem()}" if self._error else f"{place}: not queried yet"
        age = max(0.0, self._clock() - self._answered_at)
        parts = [f"last answer {age:.0f} s ago", Match.of(self._readings, self._cache.nodes).sentence()]
        if self._readings:
            oldest = min(reading.measured_at for reading in self._readings.values())
            parts.append(f"oldest reading {max(0.0, self._clock() - oldest):.0f} s old")
        if self._answer.unusable:
            parts.append(f"{self._answer.unusable} unusable values")
        if self._error:
            parts.insert(0, self._problem())
        return f"{place}: {'; '.join(parts)}"

    def _problem(self) -> str:
        times = "once" if self._failures == 1 else f"{self._failures} times in a row"
        return f"failed {times}: {self._error}"


def make(spec: ProviderSpec, cluster: Cluster) -> Provider:
    """Return the provider of a plugin; log a warning where its certificate is not checked.

    Raises LookupError: there is none of that name.
    """
    name = spec.metric_provider.type if spec.watcher_address is None else LOAD_WATCHER
    if name not in PROVIDERS:
        raise LookupError(f"metricProvider.type {name!r}: must be one of {', '.join(PROVIDERS)}")
    provider: Provider = pkgutil.resolve_name(PROVIDERS[name])(spec, cluster)
    if spec.metric_provider.insecure_skip_verify:
        _LOG.warning(
            "The certificate of %s at %s is not checked (insecureSkipVerify): an attacker can read the token "
            "and forge the usage of nodes; set caFile instead",
            provider.name,
            provider.address,
        )
    return provider
