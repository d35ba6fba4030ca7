"""The load-watcher service as a provider, and its metrics as a reading."""

from typing import Any, cast

import pytest

from headroom.kube import ApiServer
from scheduler_plugins.providers.load_watcher import LoadWatcher, decode, make
from scheduler_plugins.providers.provider import CPU, MEMORY, Answer, Cluster, ProviderError, statistic, utilisation
from scheduler_plugins.providers.spec import MetricProvider, ProviderSpec
from scheduler_plugins.providers.web import Site
from scheduler_plugins.snapshot.report import Statistic, Utilisation
from tests.scheduler_plugins.providers.server import NOW, answering

Json = dict[str, Any]


def document(*metrics: Json, **more: Any) -> Json:  # noqa: ANN401 - any field of the document
    window = {"duration": "15m", "start": NOW - 910, "end": NOW - 10}
    nodes = {"n": {"metrics": list(metrics), "tags": {}, "metadata": {"dataCenter": ""}}}
    return {"timestamp": NOW - 5, "window": window, "source": "x", "data": {"NodeMetricsMap": nodes}, **more}


def cpu(value: Any = 26.0, **more: Any) -> Json:  # noqa: ANN401
    return {"name": "a", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": value, **more}


async def test_service_is_queried() -> None:
    async with answering({"/watcher": lambda _: document(cpu())}) as server:
        for address in (server.url, f"{server.url}/"):
            answer = await LoadWatcher(Site(address, MetricProvider()), smoothed=True).fetch(NOW)
            assert answer.nodes["n"].metrics == [cpu()]
        assert [path for path, _, _ in server.requests] == ["/watcher", "/watcher"]


@pytest.mark.parametrize(("kind", "sent"), [("", "Bearer s3cret"), ("Prometheus", None)])
async def test_token_of_another_provider_is_not_sent(kind: str, sent: str | None) -> None:
    """A token is sent only to its own service: load-watcher does not get the token of `metricProvider`."""
    cluster = Cluster(cast("ApiServer", None), lambda _: None)
    async with answering({"/watcher": lambda _: document(cpu())}) as server:
        spec = ProviderSpec(MetricProvider(kind, "http://elsewhere", token="s3cret"), server.url)  # noqa: S106
        await make(spec, cluster).fetch(NOW)
        assert server.requests[-1][2].get("Authorization") == sent


async def test_empty_service_is_reported() -> None:
    async with answering({}) as server:
        with pytest.raises(ProviderError, match="/watcher answers 404"):
            await LoadWatcher(Site(server.url, MetricProvider()), smoothed=True).fetch(NOW)


def test_window_sets_the_age() -> None:
    assert decode(document(cpu()), NOW).nodes["n"].measured_at == NOW - 10
    assert decode(document(cpu(), window=None), NOW).nodes["n"].measured_at == NOW - 5
    assert decode(document(cpu(), window={"end": NOW + 99}), NOW).nodes["n"].measured_at == NOW
    assert decode(document(cpu(), window={"end": "soon"}, timestamp=-1), NOW).nodes["n"].measured_at == NOW


def test_absent_fields_are_empty() -> None:
    (result,) = decode(document({"type": "CPU"}), NOW).nodes["n"].metrics
    assert result == {"name": "", "type": "CPU", "operator": "", "rollup": "", "value": 0.0}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1001.0, 10**400, "26", True, None, [26]])
def test_garbage_is_no_number(value: object) -> None:
    assert decode(document(cpu(value), cpu(3.0)), NOW).nodes["n"].metrics == [cpu(3.0)]
    assert decode(document(cpu(value), cpu(3.0)), NOW).unusable == 1


def test_empty_lists_are_no_reading() -> None:
    nodes: tuple[Json, ...] = ({"metrics": []}, {"metrics": None}, {})
    for node in nodes:
        assert decode({"data": {"NodeMetricsMap": {"n": node}}}, NOW) == Answer({})


@pytest.mark.parametrize("node", [None, 3, [], {"metrics": {"type": "CPU"}}, {"metrics": 1}, {"metrics": [None, 1]}])
def test_malformed_nodes_are_skipped(node: object) -> None:
    nodes = {"bad": node, "n": {"metrics": [cpu()]}}
    answer = decode({"data": {"NodeMetricsMap": nodes}}, NOW)
    assert set(answer.nodes) == {"n"}
    assert answer.unusable > 0


@pytest.mark.parametrize("body", [None, [], "x", {}, {"data": []}, {"data": {"NodeMetricsMap": None}}, {"data": {}}])
def test_other_documents_are_refused(body: object) -> None:
    """A document without NodeMetricsMap is not load-watcher's, lower-case spelling of the example files included."""
    with pytest.raises(ProviderError, match="NodeMetricsMap"):
        decode(body, NOW)


def _metrics(*parts: tuple[str, str, float]) -> list[dict[str, object]]:
    return [{"name": "", "type": kind, "operator": operator, "value": value} for kind, operator, value in parts]


def test_reading_has_both() -> None:
    metrics = _metrics(("Memory", "AVG", 30), ("CPU", "Latest", 10))
    assert utilisation(metrics, 5.0, smoothed=True) == Utilisation(Statistic(10), Statistic(30), 5.0, smoothed=True)
    assert statistic(metrics, MEMORY) == Statistic(30)
    assert statistic([{"type": "CPU"}], CPU) == Statistic(0)


def test_other_metrics_are_a_reading_of_nothing() -> None:
    assert utilisation(_metrics(("Disk", "AVG", 3)), 5.0, smoothed=False) == Utilisation(
        None, None, 5.0, smoothed=False
    )
    assert utilisation([], 5.0, smoothed=False) is None
