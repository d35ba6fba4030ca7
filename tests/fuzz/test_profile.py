"""The scheduler's profile, as any editor of a ConfigMap or values may write it, and responses of metric providers."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import strategies as st

from scheduler_plugins.arguments import encode
from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.profile import DEFAULT_PROFILE, Profile, ProfileError, parse_profile, summary
from scheduler_plugins.providers import load_watcher, metrics_server, prometheus, signal_fx
from scheduler_plugins.providers.provider import CPU, LARGEST_PERCENT, Metric, ProviderError, utilisation
from scheduler_plugins.providers.spec import MetricProvider
from scheduler_plugins.providers.web import Site
from scheduler_plugins.snapshot.cache import ClusterCache
from tests.fuzz.inputs import NUMBERS, Json, any_json, damaged, objects
from tests.fuzz.originals import SOUND
from tests.fuzz.strength import LONGEST_LINE, answer_or_refusal, are_lines, fuzz

GIVEN, OWN, UPSTREAM = SOUND["arguments"], SOUND["own"], SOUND["upstream"]
KEYS = st.sampled_from(["kind", "plugins", "profiles", "\n", "x" * 999])


@st.composite
def headed(draw: st.DrawFn, original: Json) -> str:
    """An altered object that keeps its kind; other values stay unchanged."""
    altered = draw(objects(original))
    kind = {key: original[key] for key in ("apiVersion", "kind")}
    return json.dumps({**altered, **kind} if isinstance(altered, dict) else altered)


@st.composite
def other_arguments(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(GIVEN)))
    plugins = [{"name": name, "args": draw(objects(GIVEN[name]))}]
    return json.dumps({**OWN, "plugins": plugins, "arguments": draw(st.just({}) | objects({name: GIVEN[name]}))})


@st.composite
def other_number(draw: st.DrawFn) -> str:
    text = json.dumps(OWN)
    place = draw(st.sampled_from(list(re.finditer(r"(?<= )[0-9.]+", text))))
    number = draw(st.sampled_from(NUMBERS) | st.integers().map(str) | st.floats().map(repr))
    return text[: place.start()] + number + text[place.end() :]


TEXTS = {
    "text": damaged(DEFAULT_PROFILE.read_text(encoding="utf-8"), yaml.safe_dump(OWN), yaml.safe_dump(UPSTREAM))
    | st.text()
    | any_json(KEYS).map(json.dumps),
    "own": headed(OWN),
    "upstream": headed(UPSTREAM),
    "arguments": other_arguments(),
    "number": other_number(),
}


def works(profile: Profile) -> None:
    """An accepted profile can be logged, and evaluates a pod: every score is from 0 to 100."""
    assert profile.enabled
    assert all("\n" not in line for line in summary(profile))
    for part in profile.enabled:
        json.dumps(encode(part.plugin), allow_nan=False)
    cache = ClusterCache(profile.load_rules, {part.name: part.plugin for part in profile.enabled})
    cache.put_node(SOUND["malformed"]["nodes"])
    cache.put_node({"metadata": {"name": "empty"}, "status": {"allocatable": {"cpu": "0", "memory": "0"}}})
    cache.put_node_metric(SOUND["malformed"]["nodemetrics"])
    cache.put_pod(SOUND["malformed"]["pods"], 1_735_689_600.0)
    nodes, cycle = cache.freeze(1_735_689_600.0), Cycle(profile.enabled)
    pod = cache.read(SOUND["cluster"]["pods"][0])
    assert len(cycle.filter(pod, nodes).passes) == 2
    scores = cycle.score(pod, nodes)
    assert ((scores >= 0) & (scores <= 100)).all()
    assert not np.isnan(scores).any()
    cycle.explain(pod, nodes)


@pytest.mark.parametrize("kind", TEXTS)
@fuzz(data=st.data(), name=st.sampled_from([None, None, "trimaran", ""]))
def test_profile_works_or_each_mistake_has_a_line(kind: str, data: st.DataObject, name: str | None) -> None:
    try:
        profile = parse_profile(data.draw(TEXTS[kind]), "It", scheduler_name=name)
    except ProfileError as error:
        first, *rest = str(error).splitlines()
    else:
        works(profile)
        return
    assert first.startswith("It cannot be used:")
    assert rest or len(first) > len("It cannot be used:")
    assert all(len(line) <= LONGEST_LINE for line in (first, *rest))


NOW = SOUND["load_watcher"]["timestamp"]
WHOLE = {"n": {"cpu": 4000, "memory": 2**33}, "": {"cpu": 0}}
NAMING = prometheus.Naming("instance", re.compile(r"([^:]+):\d+"))


def percentages(metrics: Iterable[Metric]) -> None:
    for metric in metrics:
        assert type(metric["value"]) is float
        assert 0 <= metric["value"] <= LARGEST_PERCENT
        assert all(isinstance(metric[key], str) for key in ("name", "type", "operator", "rollup"))


def answered(provider: str, given: Any) -> None:  # noqa: ANN401 - JSON
    match provider:
        case "prometheus":
            by_node = prometheus.percentages(given, NAMING).by_node
            assert all(by_node)
            for metrics in prometheus.metrics(by_node, CPU, "AVG", "a", "15m").values():
                percentages(metrics)
            return
        case "signal_fx":
            percentages(signal_fx.decode(CPU, given.get("points"), given.get("series"))[0].values())
            return
        case "metrics_server":
            answer = metrics_server.decode(given.get("items"), WHOLE, NOW)
        case _:
            answer = load_watcher.decode(given, NOW)
    for name, node in (answer.nodes if answer else {}).items():
        assert isinstance(name, str)
        assert 0 < node.measured_at <= NOW
        assert node.metrics
        percentages(node.metrics)
        utilisation(node.metrics, node.measured_at, smoothed=True)


@pytest.mark.parametrize("provider", ["load_watcher", "metrics_server", "prometheus", "signal_fx"])
@fuzz(data=st.data())
def test_provider_gives_percentages_or_is_refused(provider: str, data: st.DataObject) -> None:
    answer = data.draw(objects(SOUND[provider]).filter(lambda one: isinstance(one, dict)))
    answer_or_refusal(lambda: answered(provider, answer), ProviderError)


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
def test_settings_of_a_provider_serve_or_each_mistake_has_a_sentence(settings: MetricProvider) -> None:
    mistakes = settings.mistakes()
    are_lines(*(text for mistake in mistakes for text in mistake))
    if not mistakes:
        assert math.isfinite(settings.timeout_seconds)
        assert prometheus.Prometheus(Site(settings.address or prometheus.ADDRESS, settings), settings).address
