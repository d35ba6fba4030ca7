"""The resource metrics API as a provider. test_providers_on_cluster.py has a real API server in between."""

from typing import Any

import pytest

from headroom.kube import ApiServer
from scheduler_plugins.providers.metrics_server import NODES, capacities, decode
from scheduler_plugins.providers.provider import Cluster, Provider, ProviderError
from scheduler_plugins.providers.runner import make
from scheduler_plugins.providers.spec import MetricProvider, ProviderSpec
from tests.headroom.kube.fake import Reply, answer, refused, serving
from tests.scheduler_plugins.providers.server import NOW

Json = dict[str, Any]
WHOLE = {"n": {"cpu": 4000, "memory": 8 * 2**30}}


def usage(cpu: Any = "500m", memory: Any = "1Gi", timestamp: Any = "2024-12-31T23:59:40Z") -> Json:  # noqa: ANN401
    return {"metadata": {"name": "n"}, "timestamp": timestamp, "window": "20s", "usage": {"cpu": cpu, "memory": memory}}


def test_usage_becomes_percent() -> None:
    node = decode([usage()], WHOLE, NOW).nodes["n"]
    assert [(metric["type"], metric["operator"], metric["value"]) for metric in node.metrics] == [
        ("CPU", "Latest", 12.5),
        ("Memory", "Latest", 12.5),
    ]
    assert node.measured_at == NOW - 20


def test_nanocores_round_up() -> None:
    """metrics-server writes nano-cores; the provider rounds them up to milli-cores, as upstream does."""
    assert decode([usage(cpu="1500000001n")], WHOLE, NOW).nodes["n"].metrics[0]["value"] == 100 * 1501 / 4000


def test_unknown_nodes_are_skipped() -> None:
    answer = decode([usage()], {}, NOW)
    assert (answer.nodes, answer.unusable) == ({}, 0)


@pytest.mark.parametrize(
    "cpu", ["", "x", None, [], "-1", "41", True, "1e999", "nan", -1e308, float("-inf"), float("nan"), 10**400]
)
def test_garbage_is_no_number(cpu: object) -> None:
    answer = decode([usage(cpu=cpu)], WHOLE, NOW)
    assert [metric["type"] for metric in answer.nodes["n"].metrics] == ["Memory"]
    assert answer.unusable == 1


@pytest.mark.parametrize("timestamp", [None, "", "x", 3, "9999-01-01T00:00:00Z", "0001-01-01T00:00:00Z"])
def test_malformed_times_are_now(timestamp: object) -> None:
    assert decode([usage(timestamp=timestamp)], WHOLE, NOW).nodes["n"].measured_at == NOW


@pytest.mark.parametrize(
    "item", [None, 3, [], {}, {"metadata": {"name": 3}, "usage": {}}, {"metadata": [], "usage": 1}]
)
def test_malformed_items_are_skipped(item: object) -> None:
    answer = decode([item, usage()], WHOLE, NOW)
    assert (set(answer.nodes), answer.unusable) == ({"n"}, 1)


@pytest.mark.parametrize("items", [None, {}, "x"])
def test_other_answers_are_refused(items: object) -> None:
    with pytest.raises(ProviderError, match="no items"):
        decode(items, WHOLE, NOW)


def test_zero_capacity_has_no_share() -> None:
    assert decode([usage()], {"n": {"cpu": 0, "memory": 0}}, NOW).nodes == {}


@pytest.mark.parametrize("node", [None, {}, {"metadata": {"name": "a"}}, {"metadata": {}, "status": {"capacity": {}}}])
def test_malformed_nodes_have_no_capacity(node: object) -> None:
    good = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4", "memory": "1Gi", "pods": "110"}}}
    assert capacities([node, good]) == {"n": {"cpu": 4000, "memory": 2**30}}


def provider(api: ApiServer, timeout_seconds: float = 10.0, *, parity: bool = False) -> Provider:
    settings = MetricProvider("KubernetesMetricsServer", timeout_seconds=timeout_seconds)
    return make(ProviderSpec(settings, parity=parity), Cluster(api, WHOLE.get))


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (refused(404, "NotFound"), "knows no metrics.k8s.io"),
        (refused(403, "Forbidden", "nodes.metrics.k8s.io is forbidden"), "is forbidden"),
        (refused(503, "ServiceUnavailable", "no endpoints available"), "no endpoints available"),
        (answer("<html>"), "not JSON"),
        (answer("[]"), "no items"),
        (answer({"items": {}}), "no items"),
    ],
)
async def test_failure_is_reported(reply: Reply, sentence: str) -> None:
    async with serving() as (fake, api):
        fake.add("list", reply)
        with pytest.raises(ProviderError, match=sentence):
            await provider(api).fetch(NOW)


async def test_timeout() -> None:
    async with serving() as (_, api):
        with pytest.raises(ProviderError, match=r"no answer within 0\.05 s"):
            await provider(api, timeout_seconds=0.05).fetch(NOW)


async def test_capacity_is_listed_for_parity() -> None:
    """In parity mode the provider lists the Nodes for their capacity; otherwise it requests only usage."""
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "8", "memory": "8Gi"}, "images": ["x"]}}
    async with serving() as (fake, api):
        fake.add("list", answer({"items": [usage()]}), answer({"metadata": {}, "items": [node]}))
        result = await provider(api, parity=True).fetch(NOW)
        assert result.nodes["n"].metrics[0]["value"] == 6.25
        fake.add("list", answer({"items": [usage()]}))
        result = await provider(api).fetch(NOW)
        assert result.nodes["n"].metrics[0]["value"] == 12.5
        assert [request.path for request in fake.requests] == [NODES, "/api/v1/nodes", NODES]
