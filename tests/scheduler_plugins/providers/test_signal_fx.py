"""SignalFx as a provider, against a fake of it."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler_plugins.providers.provider import CPU, Answer, ProviderError
from scheduler_plugins.providers.signal_fx import TOKEN_HEADER, SignalFx, decode, search
from scheduler_plugins.providers.spec import MetricProvider
from scheduler_plugins.providers.web import Site
from tests.scheduler_plugins.providers.fake_signal_fx import TOKEN, FakeSignalFx
from tests.scheduler_plugins.providers.server import NOW, answering

SETTINGS = MetricProvider(token=TOKEN, host_name_suffix=".dev.com", cluster_name="c1")
USAGE = {
    "cpu.utilization": {"n1.dev.com": [90.0, 10.0, 20.0, 60.0], "n2.dev.com": [], "n3.prod.com": [5.0]},
    "memory.utilization": {"n1.dev.com": [40.0]},
}


async def fetch(fake: FakeSignalFx, settings: MetricProvider = SETTINGS) -> Answer:
    async with answering(fake.pages()) as server:
        made = replace(settings, address=server.url)
        return await SignalFx(Site(server.url, made, TOKEN_HEADER), made).fetch(NOW)


async def test_means_of_the_window() -> None:
    """The mean of the points in the window, by the host's name up to the first dot; hosts without points are absent."""
    answer = await fetch(FakeSignalFx("c1", USAGE, NOW), replace(SETTINGS, window_duration=130.0))
    assert set(answer.nodes) == {"n1"}
    found = [(each["type"], each["operator"], each["value"]) for each in answer.nodes["n1"].metrics]
    assert found == [("CPU", "AVG", 30.0), ("Memory", "AVG", 40.0)]


async def test_token_is_needed() -> None:
    with pytest.raises(ProviderError, match=r"answers 401: .*Unauthorized"):
        await fetch(FakeSignalFx("c1", USAGE, NOW), replace(SETTINGS, token="wrong"))  # noqa: S106
    with pytest.raises(ProviderError, match="needs a token"):
        await fetch(FakeSignalFx("c1", USAGE, NOW), replace(SETTINGS, token=""))


async def test_strange_results_are_left_out() -> None:
    strange = [None, 3, {}, {"id": "x"}, {"id": ["y"], "dimensions": {"host": "h"}}, {"id": "z", "dimensions": None}]
    answer = await fetch(FakeSignalFx("c1", USAGE, NOW, strange))
    assert set(answer.nodes) == {"n1"}


def test_search_names_the_hosts() -> None:
    assert search(CPU, "", "") == 'host:* AND sf_metric:"cpu.utilization"'
    assert search(CPU, ".a", "c") == 'host:*.a AND cluster:c AND sf_metric:"cpu.utilization"'


@pytest.mark.parametrize("points", [[[1, "x"]], [[1, -5.0]], [[1, float("nan")]], [[1]], 3, None, {"a": 1}])
def test_garbage_is_no_number(points: Any) -> None:  # noqa: ANN401
    series = {"results": [{"id": "A", "dimensions": {"host": "h"}}]}
    assert decode(CPU, {"data": {"A": points}}, series) == ({}, 1)


@pytest.mark.parametrize("body", [None, [], {}, {"data": [], "results": {}}])
def test_other_answers_are_refused(body: object) -> None:
    with pytest.raises(ProviderError, match="not SignalFx's"):
        decode(CPU, body, {"results": []})
    with pytest.raises(ProviderError, match="not SignalFx's"):
        decode(CPU, {"data": {}}, body)
