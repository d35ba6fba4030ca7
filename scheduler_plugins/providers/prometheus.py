"""Prometheus as a provider: averages and deviations over a window, of series or expressions that can be chosen."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from crds.duration import format_duration
from scheduler_plugins.providers.provider import (
    AVERAGE,
    CPU,
    MEMORY,
    STDEV,
    Answer,
    Cluster,
    Metric,
    NodeAnswer,
    ProviderError,
    at,
    metric,
    moment,
    percent,
)
from scheduler_plugins.providers.spec import MetricProvider, ProviderSpec
from scheduler_plugins.providers.web import Site

ADDRESS: Final = "http://prometheus-k8s:9090"  # where it is by default, as for upstream
CPU_METRIC: Final = "instance:node_cpu:ratio"
MEMORY_METRIC: Final = "instance:node_memory_utilisation:ratio"
NODE_LABEL: Final = "instance"
FUNCTIONS: Final[Mapping[str, str]] = {AVERAGE: "avg_over_time", STDEV: "stddev_over_time"}
"""The queries, by load-watcher's operator."""
_SELECTOR: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^{}]*\})?")
_NUMBER: Final = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")
_PAIR: Final = 2


def query(expression: str, function: str, window: str, host: str = "", step: str = "30s") -> str:
    """A query for a function over a window."""
    if not _SELECTOR.fullmatch(expression):
        return f"{function}(({expression})[{window}:{step}])"
    selector = f'{{{NODE_LABEL}="{host}"}}' if host else ""
    return f"{function}({expression}{selector}[{window}])"


def age_query(expression: str, window: str, step: str = "30s") -> str:
    """A query for the time of the last sample: of the present one, else of the last one that is found in the window."""
    stamp = f"timestamp({expression})"
    return f"{stamp} or max_over_time({stamp}[{window}:{step}])"


@dataclass(frozen=True, slots=True)
class Naming:
    """The label that names a node."""

    label: str = NODE_LABEL  # the label
    pattern: re.Pattern[str] | None = None  # takes the name out of it; None: the label is the name

    def node(self, labels: object) -> str | None:
        """The node's name; None when the series names none."""
        text = at(labels, self.label)
        if not isinstance(text, str):
            return None
        if self.pattern is None:
            return text or None
        match = self.pattern.fullmatch(text)
        return (match[1] or None) if match else None


@dataclass(slots=True)
class Values:
    """The values of an answer, by node. Of several series that name the same node the highest counts."""

    by_node: dict[str, float] = field(default_factory=dict)
    unusable: int = 0

    def put(self, node: str | None, value: float | None) -> None:
        """Record a value, or count an invalid one."""
        if node is None or value is None:
            self.unusable += 1
        else:
            self.by_node[node] = max(value, self.by_node.get(node, value))


def samples(body: Any) -> Iterator[tuple[object, float | None]]:  # noqa: ANN401 - JSON from outside can be anything
    """Labels and value of each series in the answer to an instant query; None for a value that is no number.

    Raises ProviderError: it is not an answer of Prometheus.
    """
    data, error = at(body, "data"), at(body, "error")
    if not isinstance(data, Mapping) or at(body, "status") != "success":
        raise ProviderError(f"the query failed: {str(error)[:200] or 'no reason given'}" if error else _OTHER)
    result = data.get("result")
    if data.get("resultType") != "vector" or not isinstance(result, list):
        raise ProviderError(
            f"the query gives {str(data.get('resultType'))[:20]!r}, it must give a vector: one value a node"
        )
    for series in result:
        yield at(series, "metric"), _value(at(series, "value"))


_OTHER: Final = "the answer is not Prometheus': it has no status and data"


def _value(pair: object) -> float | None:
    if not (isinstance(pair, list) and len(pair) == _PAIR and isinstance(pair[1], str)):
        return None
    try:
        return float(pair[1]) if _NUMBER.fullmatch(pair[1]) else None
    except ValueError:
        return None


def percentages(body: Any, naming: Naming) -> Values:  # noqa: ANN401
    """The shares (0..1) of an answer as percentages by node.

    Raises ProviderError: it is not an answer of Prometheus.
    """
    values = Values()
    for labels, share in samples(body):
        values.put(naming.node(labels), None if share is None else percent(share * 100))
    return values


def metrics(values: Mapping[str, float], kind: str, operator: str, name: str, rollup: str) -> dict[str, list[Metric]]:
    """Percentages in load-watcher's form, by node."""
    return {node: [metric(kind, operator, value, name=name, rollup=rollup)] for node, value in values.items()}


class Prometheus:
    """A client of its HTTP API."""

    name = "Prometheus"

    def __init__(self, site: Site, settings: MetricProvider) -> None:
        self.address = site.address
        self.smoothed = settings.smoothed is not False
        self._site = site
        self._expressions = {
            CPU: settings.cpu_metric or CPU_METRIC,
            MEMORY: settings.memory_metric or MEMORY_METRIC,
        }
        seconds = max(1, round(settings.window_duration))
        self._window, self._step = f"{seconds}s", f"{min(30, max(1, seconds // 20))}s"
        self._window_seconds = seconds
        self._rollup = format_duration(settings.window_duration)
        pattern = re.compile(settings.node_pattern) if settings.node_pattern else None
        self._naming = Naming(settings.node_label or NODE_LABEL, pattern)

    async def fetch(self, now: float) -> Answer:
        """Ask five questions at once; one that fails spoils the fetch."""
        wanted = [(kind, operator) for kind in self._expressions for operator in FUNCTIONS]
        queries = [
            query(self._expressions[kind], FUNCTIONS[operator], self._window, step=self._step)
            for kind, operator in wanted
        ]
        queries.append(age_query(self._expressions[CPU], self._window, self._step))
        async with self._site.session() as session:
            *bodies, ages = await session.get_all([("/api/v1/query", {"query": query}) for query in queries])
        return await asyncio.to_thread(self._joined, wanted, bodies, ages, now)

    def _joined(self, wanted: Sequence[tuple[str, str]], bodies: Sequence[Any], ages: Any, now: float) -> Answer:  # noqa: ANN401
        result: dict[str, list[Metric]] = {}
        unusable = 0
        for (kind, operator), body in zip(wanted, bodies, strict=True):
            values = percentages(body, self._naming)
            unusable += values.unusable
            parsed = metrics(values.by_node, kind, operator, self._expressions[kind], self._rollup)
            for node, more in parsed.items():
                # A deviation without its average would belong to an average of zero.
                if operator == AVERAGE or any(metric["type"] == kind for metric in result.get(node, ())):
                    result.setdefault(node, []).extend(more)
        stamps = Values()
        for labels, stamp in samples(ages):
            stamps.put(self._naming.node(labels), moment(stamp, now))
        # Of an ended series without a sample in the range, only its presence in the window is known.
        oldest = now - self._window_seconds
        nodes = {node: NodeAnswer(parsed, stamps.by_node.get(node, oldest)) for node, parsed in result.items()}
        return Answer(nodes, unusable)


def make(spec: ProviderSpec, _cluster: Cluster) -> Prometheus:
    """Prometheus, or what answers like it, at `metricProvider.address`."""
    settings = spec.metric_provider
    return Prometheus(Site(settings.address or ADDRESS, settings), settings)
