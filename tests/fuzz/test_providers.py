"""Answers of metric providers: whatever they say, there are numbers of which all are percentages, or a refusal."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import partial

from hypothesis import strategies as st

from scheduler_plugins.providers import load_watcher, metrics_server, prometheus, signal_fx
from scheduler_plugins.providers.provider import CPU, LARGEST_PERCENT, Answer, Metric, ProviderError, utilisation
from scheduler_plugins.providers.spec import MetricProvider
from scheduler_plugins.providers.web import Site, parsed
from tests.fuzz.inputs import Json, objects
from tests.fuzz.strength import answer_or_refusal, fuzz

NOW = 1_735_689_600.0
WHOLE = {"n": {"cpu": 4000, "memory": 2**33}, "": {"cpu": 0}}
WATCHER = {
    "timestamp": NOW,
    "window": {"duration": "15m", "start": NOW - 900, "end": NOW},
    "source": "x",
    "data": {
        "NodeMetricsMap": {
            "n": {
                "metrics": [
                    {"name": "a", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 12.5},
                    {"name": "a", "type": "CPU", "operator": "STD", "rollup": "15m", "value": 2.5},
                    {"name": "b", "type": "Memory", "operator": "Latest", "value": 12.5},
                ],
                "tags": {},
                "metadata": {"dataCenter": ""},
            }
        }
    },
}
VECTOR = {
    "status": "success",
    "data": {
        "resultType": "vector",
        "result": [
            {"metric": {"__name__": "a", "instance": "n:9100"}, "value": [NOW, "0.25"]},
            {"metric": {"instance": "m:9100"}, "value": [NOW, "0.5"]},
        ],
    },
}
USAGES = {
    "items": [
        {
            "metadata": {"name": "n"},
            "timestamp": "2024-12-31T23:59:40Z",
            "window": "20s",
            "usage": {"cpu": "500m", "memory": "1Gi"},
        }
    ]
}
POINTS = {"data": {"A": [[1, 10.0], [2, 20.0]], "B": []}, "errors": []}
SERIES = {"results": [{"active": True, "id": "A", "dimensions": {"host": "n.example.com"}}]}
NAMING = prometheus.Naming("instance", re.compile(r"([^:]+):\d+"))
ODD_NUMBERS = st.sampled_from(["NaN", "Infinity", "-Infinity", "1e999", "-1", "9" * 400, "1001", "true", "null", '"5"'])


def _sound(metrics: Iterable[Metric]) -> None:
    for each in metrics:
        value = each["value"]
        assert type(value) is float
        assert math.isfinite(value)
        assert 0 <= value <= LARGEST_PERCENT
        assert all(isinstance(each[key], str) for key in ("name", "type", "operator", "rollup"))


def _sound_answer(answer: Answer | None) -> None:
    for name, node in (answer.nodes if answer else {}).items():
        assert isinstance(name, str)
        assert 0 < node.measured_at <= NOW
        assert node.metrics
        _sound(node.metrics)
        utilisation(node.metrics, node.measured_at, smoothed=True)


@fuzz(document=objects(WATCHER))
def test_load_watcher(document: Json) -> None:
    """The load-watcher service."""
    _sound_answer(answer_or_refusal(lambda: load_watcher.decode(document, NOW), ProviderError))


@fuzz(body=objects(VECTOR))
def test_prometheus(body: Json) -> None:
    """Prometheus: shares by node, and times of samples."""
    values = answer_or_refusal(lambda: prometheus.percentages(body, NAMING), ProviderError)
    if values is not None:
        by_node: Mapping[str, float] = values.by_node
        assert all(by_node)
        for metrics in prometheus.metrics(by_node, CPU, "AVG", "a", "15m").values():
            _sound(metrics)


@fuzz(document=objects(USAGES), nodes=objects([{"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}]))
def test_metrics_server(document: Json, nodes: Json) -> None:
    """The resource metrics API, and the Nodes that its parity mode reads."""
    items = document.get("items") if isinstance(document, Mapping) else None
    for whole in (WHOLE, metrics_server.capacities(nodes)):
        _sound_answer(answer_or_refusal(partial(metrics_server.decode, items, whole, NOW), ProviderError))


@fuzz(points=objects(POINTS), series=objects(SERIES))
def test_signal_fx(points: Json, series: Json) -> None:
    """SignalFx: points, and what the series are of."""
    found = answer_or_refusal(lambda: signal_fx.decode(CPU, points, series), ProviderError)
    if found is not None:
        _sound(found[0].values())


@fuzz(number=ODD_NUMBERS, place=st.sampled_from(["12.5", "2.5"]))
def test_numbers_as_they_arrive(number: str, place: str) -> None:
    """Numbers that only JSON's text can say, such as NaN and those with 400 digits."""
    text = json.dumps(WATCHER).replace(place, number)
    _sound_answer(answer_or_refusal(lambda: load_watcher.decode(parsed(text.encode()), NOW), ProviderError))


@fuzz(body=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_bytes(body: bytes) -> None:
    """Bytes that need not be JSON at all."""
    answer_or_refusal(lambda: parsed(body), ProviderError)


@fuzz(
    settings=st.builds(
        MetricProvider,
        address=st.text(max_size=30) | st.from_regex(r"https?://[^/?#]{0,20}", fullmatch=True),
        node_pattern=st.text(max_size=20) | st.from_regex(r"[(a-z.*)\\\[\]+?:|]{0,12}", fullmatch=True),
        cpu_metric=st.text(max_size=30),
        window_duration=st.floats() | st.integers(-5, 10**6).map(float),
        interval_seconds=st.floats(),
        timeout_seconds=st.floats(),
    )
)
def test_settings(settings: MetricProvider) -> None:
    """Settings have mistakes, each with a sentence, or can be made use of."""
    mistakes = settings.mistakes()
    assert all(field and sentence for field, sentence in mistakes)
    if not mistakes:
        made = prometheus.Prometheus(Site(settings.address or prometheus.ADDRESS, settings), settings)
        assert made.address
