"""The scheduler's profile: what anybody who edits a ConfigMap or the chart's values may write."""

import json

import numpy as np
import yaml
from hypothesis import strategies as st

from scheduler_plugins.arguments import encode
from scheduler_plugins.framework.cycle import Cycle
from scheduler_plugins.profile import DEFAULT_PROFILE, Profile, ProfileError, parse_profile, summary
from scheduler_plugins.snapshot.cache import ClusterCache
from tests.fuzz.inputs import NUMBERS, Json, any_json, damaged, objects
from tests.fuzz.strength import LONGEST_LINE, fuzz
from tests.scheduler_plugins.objects import NOW, node, node_metric, pod, pod_metric

SHIPPED = DEFAULT_PROFILE.read_text(encoding="utf-8")
LOAD_AWARE: Json = {
    "filterExpiredNodeMetrics": True,
    "nodeMetricExpirationSeconds": 180,
    "resourceWeights": {"cpu": 1, "memory": 1},
    "dominantResourceWeight": 2,
    "usageThresholds": {"cpu": 65, "memory": 95},
    "prodUsageThresholds": {"cpu": 55},
    "estimatedScalingFactors": {"cpu": 85, "memory": 70},
    "estimatedSecondsAfterPodScheduled": 60,
    "aggregated": {"usageThresholds": {"cpu": 65}, "usageAggregationType": "p95", "usageAggregatedDuration": "5m0s"},
    "supportedResources": ["example.com/gpu"],
}
LOW_RISK: Json = {
    "smoothingWindowSize": 5,
    "riskLimitWeights": {"cpu": 0.5, "memory": 0.25},
    "riskLimitWeight": 0.5,
    "bestEffortMayFillNode": True,
    "metricProvider": {"type": "Prometheus", "address": "http://p:9090", "nodePattern": "(.*):9100"},
}
ALLOCATABLE: Json = {"mode": "Most", "resources": [{"name": "cpu", "weight": 1048576}, {"name": "memory", "weight": 1}]}
RECLAIM: Json = {
    "enabled": True,
    "dryRun": False,
    "crossNode": True,
    "disruptionBudgets": "count",
    "schedulerNames": ["mine"],
    "holdSeconds": 60,
    "evictionsPerSecond": 0.5,
}
GIVEN: Json = {
    "LoadAwareScheduling": LOAD_AWARE,
    "MidResources": {"predictionExpirationSeconds": 900},
    "LowRiskOverCommitment": LOW_RISK,
    "NodeResourcesAllocatable": ALLOCATABLE,
    "CapacityScheduling": {"maxMissing": "infinite", "reclaim": RECLAIM},
}
OWN: Json = {
    "apiVersion": "headroom.dev/v1alpha1",
    "kind": "HeadroomSchedulerConfiguration",
    "mode": "weighted",
    "shortlist": {"size": 4, "sizeForPreferences": 16},
    "inFlightSeconds": 30,
    "waking": {"enabled": True, "patchesPerSecond": 5, "eventBurst": 3},
    "plugins": [{"name": name, "weight": 2.5, "args": args} for name, args in GIVEN.items()],
    "arguments": {"CapacityScheduling": {"reclaim": {"dryRun": True}}, "LoadAwareScheduling": LOAD_AWARE},
}
UPSTREAM: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "profiles": [
        {
            "schedulerName": "trimaran",
            "plugins": {
                "multiPoint": {"enabled": [{"name": "LoadAwareScheduling", "weight": 3}, {"name": "NodeAffinity"}]},
                "score": {
                    "enabled": [{"name": name, "weight": 10} for name in ("LowRiskOverCommitment", *list(GIVEN)[3:])],
                    "disabled": [{"name": "*"}],
                },
            },
            "pluginConfig": [
                {"name": name, "args": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{name}Args", **args}}
                for name, args in GIVEN.items()
            ],
        }
    ],
}
TEXTS = (
    damaged(SHIPPED, yaml.safe_dump(OWN), yaml.safe_dump(UPSTREAM))
    | objects(OWN, UPSTREAM).map(json.dumps)
    | any_json(st.sampled_from(["kind", "plugins", "profiles", "\n", "x" * 999])).map(json.dumps)
    | st.text()
)


def _judged(text: str, name: str | None = None) -> Profile | None:
    """The profile, or None for a sound refusal: a headline, then a sentence of one line for each mistake."""
    try:
        return parse_profile(text, "It", scheduler_name=name)
    except ProfileError as error:
        first, *rest = str(error).splitlines()
        assert first.startswith("It cannot be used:")
        assert rest or len(first) > len("It cannot be used:")
        for line in (first, *rest):
            assert len(line) <= LONGEST_LINE, line
        return None


def _headed(given: Json, original: Json) -> Json:
    """The object with the kind that it is meant to be of; what is no object stays as it is."""
    return {**given, **{key: original[key] for key in ("apiVersion", "kind")}} if isinstance(given, dict) else given


def _works(profile: Profile) -> None:
    """What is accepted can be written to the log, and judges a pod: every score is from 0 to 100."""
    assert profile.enabled
    assert all("\n" not in line for line in summary(profile))
    for part in profile.enabled:
        json.dumps(encode(part.plugin), allow_nan=False)
    cache = ClusterCache(profile.load_rules, {part.name: part.plugin for part in profile.enabled})
    cache.put_node(node("a", "4", "8Gi"))
    cache.put_node(node("b", "0", "0"))
    p95 = {"5m0s": {"p95": {"cpu": "1", "memory": "1Gi"}, "stdev": {"cpu": "100m", "memory": "1Mi"}}}
    cache.put_node_metric(node_metric("a", "3", pods=[pod_metric()], aggregated=p95))
    cache.put_pod(pod("p", {"cpu": "1"}, {"cpu": "2", "memory": "9Gi"}, node="a", scheduled=-5), NOW)
    nodes, cycle = cache.freeze(NOW), Cycle(profile.enabled)
    asked = cache.read(pod("q", {"cpu": "500m"}, priority=9500))
    verdict = cycle.filter(asked, nodes)
    assert len(verdict.passes) == 2
    scores = cycle.score(asked, nodes)
    assert ((scores >= 0) & (scores <= 100)).all()
    assert not np.isnan(scores).any()
    cycle.explain(asked, nodes)


@fuzz(text=TEXTS)
def test_text(text: str) -> None:
    """A profile is followed, or refused with one sentence for each mistake; what is followed works."""
    profile = _judged(text)
    if profile is not None:
        _works(profile)


@fuzz(own=objects(OWN))
def test_own_format(own: Json) -> None:
    """Objects of our own kind, with values of every other type in them."""
    profile = _judged(json.dumps(_headed(own, OWN)))
    if profile is not None:
        _works(profile)


@fuzz(upstream=objects(UPSTREAM), name=st.none() | st.sampled_from(["trimaran", ""]))
def test_upstream_format(upstream: Json, name: str | None) -> None:
    """Objects of kube-scheduler's kind, with values of every other type in them."""
    profile = _judged(json.dumps(_headed(upstream, UPSTREAM)), name)
    if profile is not None:
        _works(profile)


@fuzz(name=st.sampled_from(sorted(GIVEN)), args=st.data())
def test_arguments(name: str, args: st.DataObject) -> None:
    """Arguments of each plugin, altered, are followed or refused."""
    given = args.draw(objects(GIVEN[name]))
    over: Json = args.draw(st.just({}) | objects({name: GIVEN[name]}))
    profile = _judged(json.dumps({**OWN, "plugins": [{"name": name, "args": given}], "arguments": over}))
    if profile is not None:
        _works(profile)


@fuzz(number=st.sampled_from(NUMBERS) | st.integers().map(str) | st.floats().map(repr), args=st.data())
def test_numbers(number: str, args: st.DataObject) -> None:
    """A number of any size, in the place of any number of a sound profile, is followed or refused."""
    text = json.dumps(OWN)
    places = [at for at in range(len(text)) if text[at - 1] == " " and text[at].isdigit()]
    at = args.draw(st.sampled_from(places))
    end = next(place for place in range(at, len(text)) if text[place] in ",}]")
    profile = _judged(text[:at] + number + text[end:])
    if profile is not None:
        _works(profile)
