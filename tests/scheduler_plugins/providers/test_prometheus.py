"""Prometheus as a provider. test_real_prometheus.py has a real one."""

import re
from typing import Any

import pytest
from aiohttp import web

from scheduler_plugins.providers.prometheus import Naming, Prometheus, age_query, percentages, query, samples
from scheduler_plugins.providers.provider import Answer, ProviderError
from scheduler_plugins.providers.spec import MetricProvider
from scheduler_plugins.providers.web import Site
from tests.scheduler_plugins.providers.server import NOW, answering

Json = dict[str, Any]


def vector(**values: object) -> Json:
    result = [{"metric": {"instance": node}, "value": [NOW, str(value)]} for node, value in values.items()]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


async def fetch(answers: dict[str, Json], **settings: Any) -> tuple[Answer, list[str]]:  # noqa: ANN401
    def page(request: web.Request) -> Json:
        text = request.query["query"]
        return next((made for start, made in answers.items() if text.startswith(start)), vector())

    async with answering({"/api/v1/query": page}) as server:
        made = MetricProvider(**settings)
        answer = await Prometheus(Site(server.url, made), made).fetch(NOW)
        return answer, sorted(params["query"] for params in server.params("/api/v1/query"))


async def test_default_queries_are_upstreams() -> None:
    _, queries = await fetch({})
    assert queries == [
        "avg_over_time(instance:node_cpu:ratio[900s])",
        "avg_over_time(instance:node_memory_utilisation:ratio[900s])",
        "stddev_over_time(instance:node_cpu:ratio[900s])",
        "stddev_over_time(instance:node_memory_utilisation:ratio[900s])",
        "timestamp(instance:node_cpu:ratio) or max_over_time(timestamp(instance:node_cpu:ratio)[900s:30s])",
    ]


async def test_shares_become_percent() -> None:
    answers = {
        "avg_over_time(instance:node_cpu": vector(a=0.5),
        "stddev_over_time(instance:node_cpu": vector(a=0.25),
        "avg_over_time(instance:node_mem": vector(a=0.75),
        "timestamp": vector(a=NOW - 40),
    }
    answer, _ = await fetch(answers)
    node = answer.nodes["a"]
    assert [(metric["type"], metric["operator"], metric["value"]) for metric in node.metrics] == [
        ("CPU", "AVG", 50.0),
        ("CPU", "STD", 25.0),
        ("Memory", "AVG", 75.0),
    ]
    assert node.metrics[0]["rollup"] == "15m0s"
    assert node.measured_at == NOW - 40


async def test_names_and_queries_can_be_chosen() -> None:
    expression = '1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[5m]))'
    result = [{"metric": {"node": "worker-1.example.com:9100"}, "value": [NOW, "0.5"]}]
    answers: dict[str, Json] = {
        "avg_over_time((1 -": {"status": "success", "data": {"resultType": "vector", "result": result}}
    }
    settings = {"cpu_metric": expression, "memory_metric": "mem:ratio", "window_duration": 300.0}
    answer, queries = await fetch(answers, **settings, node_label="node", node_pattern=r"([^.:]+)[.:].*")
    assert f"avg_over_time(({expression})[300s:15s])" in queries
    assert "avg_over_time(mem:ratio[300s])" in queries
    assert answer.nodes["worker-1"].metrics[0]["value"] == 50.0


def test_selectors_are_no_expressions() -> None:
    """A series with a selector is queried directly; any other query is wrapped in a subquery."""
    assert query('cpu{job="a"}', "avg_over_time", "5m") == 'avg_over_time(cpu{job="a"}[5m])'
    assert query("a / b", "avg_over_time", "5m") == "avg_over_time((a / b)[5m:30s])"
    assert age_query("a / b", "5m") == "timestamp(a / b) or max_over_time(timestamp(a / b)[5m:30s])"


async def test_deviation_alone_is_skipped() -> None:
    """A deviation without its average would have an average of zero."""
    answer, _ = await fetch({"stddev_over_time(instance:node_cpu": vector(a=0.25)})
    assert answer.nodes == {}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-0.1", "10.1", "1e400", "", "x", "0x1p-2", "1_0", " 1"])
async def test_garbage_is_no_number(value: str) -> None:
    answer, _ = await fetch({"avg_over_time(instance:node_cpu": vector(a=value, b=0.5)})
    assert set(answer.nodes) == {"b"}
    assert answer.unusable == 1


def test_highest_of_a_node_counts() -> None:
    """Two series that name the same node are most likely an old and a new one: the higher is the safe one."""
    naming = Naming("instance", re.compile(r"(.*):\d+"))
    body = vector(**{"n:1": 0.2, "n:2": 0.6, "n:3": 0.4})
    assert percentages(body, naming).by_node == {"n": pytest.approx(60.0)}


@pytest.mark.parametrize("labels", [None, {}, {"instance": ""}, {"instance": 3}, {"instance": "abc"}, {"other": "n:1"}])
def test_unnamed_series_are_skipped(labels: object) -> None:
    assert Naming("instance", re.compile(r"(.*):\d+")).node(labels) is None


async def test_one_failure_spoils_the_fetch() -> None:
    error = {"status": "error", "errorType": "execution", "error": "query timed out"}
    with pytest.raises(ProviderError, match="query timed out"):
        await fetch({"avg_over_time(instance:node_cpu": vector(a=0.5), "stddev_over_time(instance:node_mem": error})


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (None, "not Prometheus'"),
        ([], "not Prometheus'"),
        ({"status": "success"}, "not Prometheus'"),
        ({"status": "success", "data": {"resultType": "matrix", "result": []}}, "'matrix'.*must give a vector"),
        ({"status": "success", "data": {"resultType": "vector", "result": {}}}, "must give a vector"),
    ],
)
def test_other_answers_are_refused(body: object, sentence: str) -> None:
    with pytest.raises(ProviderError, match=sentence):
        list(samples(body))


@pytest.mark.parametrize("series", [None, 3, [], {}, {"metric": [], "value": {}}, {"metric": {}, "value": [1]}])
def test_malformed_series_are_skipped(series: object) -> None:
    body = vector(a=0.5)
    body["data"]["result"].append(series)
    values = percentages(body, Naming())
    assert (values.by_node, values.unusable) == ({"a": 50.0}, 1)


def test_samples_are_smoothed_by_default() -> None:
    """The rules record rates over minutes; a source of plain values is declared."""
    site = Site("http://p", MetricProvider())
    assert Prometheus(site, MetricProvider()).smoothed
    assert not Prometheus(site, MetricProvider(smoothed=False)).smoothed
