"""The profile's own format, the bounds of its text, and values that prevent the start."""

import dataclasses
import re
from pathlib import Path

import pytest
import yaml

from scheduler_plugins.arguments import encode, read
from scheduler_plugins.extender.service import Answering, Mode
from scheduler_plugins.framework.cycle import Enabled
from scheduler_plugins.framework.shortlist import Shortlist
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.plugins.load_aware import LoadAware
from scheduler_plugins.plugins.low_risk_over_commitment import LowRiskOverCommitment
from scheduler_plugins.plugins.mid_resources import MidResources
from scheduler_plugins.plugins.node_resources_allocatable import Mode as End
from scheduler_plugins.plugins.node_resources_allocatable import NodeResourcesAllocatable
from scheduler_plugins.preemption.settings import PreemptionSettings
from scheduler_plugins.profile import DEFAULT_PROFILE, Profile, ProfileError, load_profile, parse_profile, text
from scheduler_plugins.quota.charge import Charging
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.requeue.settings import RequeueSettings

ALLOCATABLE = "{name: NodeResourcesAllocatable, args: {mode: %s}}"
HEAD = "apiVersion: headroom.dev/v1alpha1\nkind: HeadroomSchedulerConfiguration\n"


def _written(folder: Path, text: str) -> Path:
    path = folder / "profile.yaml"
    path.write_text(HEAD + text)
    return path


def test_default_profile_is_all_defaults() -> None:
    """The shipped profile equals the defaults, except where the peers' design texts are safer."""
    profile = load_profile(DEFAULT_PROFILE)
    assert profile.answering == Answering()
    assert profile.in_flight_seconds == Profile([]).in_flight_seconds
    assert profile.requeue == RequeueSettings()
    low_risk = LowRiskOverCommitment(best_effort_may_fill_node=True)
    assert [(part.name, part.weight, part.plugin) for part in profile.enabled] == [
        ("CapacityScheduling", 1.0, CapacityScheduling(MaxMissing.INFINITE, Charging.SCHEDULER)),
        ("LoadAwareScheduling", 10.0, LoadAware().defaulted()),
        ("MidResources", 1.0, MidResources()),
        ("LowRiskOverCommitment", 1.0, low_risk.defaulted()),
    ]


def test_listed_extra_is_a_default() -> None:
    text = re.sub(r"^  # (- name:|  weight:|  args:)", r"  \1", DEFAULT_PROFILE.read_text(), flags=re.MULTILINE)
    extra = parse_profile(text, "It").enabled[-1]
    assert (extra.name, extra.plugin) == ("NodeResourcesAllocatable", NodeResourcesAllocatable().defaulted())


def test_default_profile_writes_every_requeue_setting() -> None:
    assert set(yaml.safe_load(DEFAULT_PROFILE.read_text())["requeue"]) == set(encode(RequeueSettings()))


def test_profile_is_read(tmp_path: Path) -> None:
    path = _written(
        tmp_path,
        "mode: weighted\nshortlist: {size: 4, share: 0.25}\ninFlightSeconds: 5\n"
        "plugins: [{name: LoadAwareScheduling, weight: 2.5, args: {usageThresholds: {cpu: 50}}}]\n",
    )
    profile = load_profile(path)
    assert profile.answering == Answering(Mode.WEIGHTED, Shortlist(4, 0.25))
    assert profile.in_flight_seconds == 5
    assert profile.enabled == (
        Enabled("LoadAwareScheduling", 2.5, LoadAware(usage_thresholds={"cpu": 50}).defaulted()),
    )
    assert profile.load_rules.factors == {"cpu": 85, "memory": 70}


def test_durations_are_gos(tmp_path: Path) -> None:
    args = "{aggregated: {usageThresholds: {cpu: 65}, usageAggregationType: p95, usageAggregatedDuration: 300s}}"
    profile = load_profile(_written(tmp_path, f"plugins: [{{name: LoadAwareScheduling, args: {args}}}]"))
    assert encode(profile.enabled[0].plugin)["aggregated"]["usageAggregatedDuration"] == "5m0s"


def test_absent_plugins_are_the_built_in_ones(tmp_path: Path) -> None:
    profile = load_profile(_written(tmp_path, "requeue: {eventsPerSecond: 10}\n"))
    assert profile.enabled == load_profile(DEFAULT_PROFILE).enabled
    assert profile.requeue.events_per_second == 10
    assert profile.notes == ("plugins: not listed, so those of the built-in profile",)


def test_arguments_override_built_in_ones(tmp_path: Path) -> None:
    arguments = {
        "CapacityScheduling": {"reclaim": {"dryRun": True}},
        "LoadAwareScheduling": {"usageThresholds": {"cpu": 70}},
    }
    profile = load_profile(_written(tmp_path, yaml.dump({"arguments": arguments})))
    shipped = load_profile(DEFAULT_PROFILE)
    assert [part.name for part in profile.enabled] == [part.name for part in shipped.enabled]
    quotas, load = profile.enabled[0].plugin, profile.enabled[1].plugin
    settings = PreemptionSettings(dry_run=True)
    assert quotas == CapacityScheduling(MaxMissing.INFINITE, Charging.SCHEDULER, settings)
    assert load == LoadAware(usage_thresholds={"cpu": 70, "memory": 95}).defaulted()
    assert profile.enabled[2:] == shipped.enabled[2:]


def test_arguments_override_listed_ones(tmp_path: Path) -> None:
    text = f"plugins: [{ALLOCATABLE % 'Most'}]\narguments: {{NodeResourcesAllocatable: {{mode: Least}}}}\n"
    (part,) = load_profile(_written(tmp_path, text)).enabled
    assert part.plugin == NodeResourcesAllocatable(mode=End.LEAST).defaulted()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("arguments: 5", "arguments: 5 is not an object"),
        ("arguments: {MidResources: 5}", "arguments.MidResources: 5 is not an object"),
        (
            "arguments: {MidResource: {}}",
            'arguments.MidResource: unknown; did you mean "MidResources"?',
        ),
        (
            "plugins: [{name: MidResources}]\narguments: {CapacityScheduling: {}}",
            "arguments.CapacityScheduling: unknown; known are MidResources",
        ),
        (
            "arguments: {CapacityScheduling: {maxMissing: none}}",
            "arguments.CapacityScheduling.maxMissing: ",
        ),
        (
            "arguments: {CapacityScheduling: {reclaim: {dryrun: true}}}",
            'arguments.CapacityScheduling.reclaim.dryrun: unknown; did you mean "dryRun"?',
        ),
        ("plugins:", "plugins: must be a list of at least one plugin"),
        ("plugins: []", "plugins: must be a list of at least one plugin"),
        (
            "plugins: [{name: LoadAware}]",
            'plugins[0].name: "LoadAware" is not a plugin; did you mean "LoadAwareScheduling"?',
        ),
        ("plugins: [5]", "plugins[0]: 5 is not an object"),
        ("mod: x", 'mod: unknown; did you mean "mode"?'),
        ("mode: fast", "mode: 'fast': must be shortlist or weighted"),
        ("shortlist: {size: 65}", "shortlist.size: 65: must be a whole number from 1 to 64"),
        ("shortlist: {size: 1.5}", "shortlist.size: 1.5: must be a whole number"),
        ("shortlist: 4", "shortlist: 4 is not an object"),
        ("requeue: {patchPerSecond: 5}", 'requeue.patchPerSecond: unknown; did you mean "patchesPerSecond"?'),
        ("requeue: {patchBurst: 0}", "requeue.patchBurst: 0 is not in the range 1 to 10000"),
        ("requeue: {enabled: 1}", "requeue.enabled: 1 is not true or false"),
        ("requeue: 5", "requeue: 5 is not an object"),
        ("mode: [weighted]", "mode: ['weighted']: must be shortlist or weighted"),
        ("plugins: [{name: [x]}]", "plugins[0].name: \"['x']\" is not a plugin"),
        (
            "plugins: [{name: LowRiskOverCommitment, args: {riskLimitWeights: {cpu: .nan}}}]",
            "plugins[0].args.riskLimitWeights.cpu: nan is not a number",
        ),
        (
            "plugins: [{name: NodeResourcesAllocatable, args: {resources: [{weight: 1}, {name: cpu, weight: x}]}}]",
            "plugins[0].args.resources[0].name: is missing",
        ),
        (
            "plugins: [{name: LoadAwareScheduling, args: {usageThresholds: {cpu: 99999999999999999999}}}]",
            "plugins[0].args.usageThresholds.cpu: 99999999999999999999 is not an integer",
        ),
        (
            f"plugins: [{', '.join(ALLOCATABLE % mode for mode in ('Least', 'Most'))}]",
            "plugins: NodeResourcesAllocatable is listed twice with mode Least and Most",
        ),
        ("plugins: [{name: LoadAwareScheduling, name: MidResources}]", "line 3: 'name' is a duplicate key"),
        ("inFlightSeconds: true", "inFlightSeconds: True: must be a number"),
        ("plugins: [{name: LoadAwareScheduling, weight: -1}]", "plugins[0].weight: -1: must be a number from 0 to 100"),
        ("plugins: [{name: LoadAwareScheduling}, {name: LoadAwareScheduling}]", "LoadAwareScheduling is listed twice"),
        (
            "plugins: [{name: LoadAwareScheduling, args: {usageThreshold: {cpu: 1}}}]",
            'plugins[0].args.usageThreshold: unknown; did you mean "usageThresholds"?',
        ),
        (
            "plugins: [{name: LoadAwareScheduling, args: {usageThresholds: {cpu: 1.5}}}]",
            "plugins[0].args.usageThresholds.cpu: 1.5 is not an integer",
        ),
        (
            "plugins: [{name: LoadAwareScheduling, args: {filterExpiredNodeMetrics: 1}}]",
            "plugins[0].args.filterExpiredNodeMetrics: 1 is not true or false",
        ),
        (
            "plugins: [{name: LoadAwareScheduling, args: {aggregated: {scoreAggregatedDuration: 5}}}]",
            "plugins[0].args.aggregated.scoreAggregatedDuration: 5 is not a duration",
        ),
        (
            "plugins: [{name: LoadAwareScheduling, args: {dominantResourceWeight: 101}}]",
            "plugins[0].args.dominantResourceWeight: 101: must be 0..100",
        ),
    ],
)
def test_mistake_prevents_start(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ProfileError) as caught:
        load_profile(_written(tmp_path, text))
    assert says in str(caught.value)


def test_mistakes_of_type_hide_no_others(tmp_path: Path) -> None:
    arguments = {
        "filterExpiredNodeMetrics": "false",
        "usageThresholds": {"cpu": 165},
        "aggregated": {"usageAggregationType": "p42"},
        "estimatedScalingFactors": {"x.io/gpu": "1"},
        "resourceWeights": {"x.io/gpu": 1},
        "nodeMetricExpirationSecond": 0,
    }
    with pytest.raises(ProfileError) as error:
        load_profile(_written(tmp_path, yaml.dump({"plugins": [{"name": "LoadAwareScheduling", "args": arguments}]})))
    texts = str(error.value)
    for name in ("filterExpired", "usageThresholds", "aggregated.usageAggregationType", "nodeMetricExpirationSecond:"):
        assert texts.count(f"args.{name}") == 1
    assert texts.count("estimatedScalingFactors") == 1


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    path.write_text("mode: x\nplugins: [{name: y, weight: z}]\n")
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert len(str(caught.value).splitlines()) == 1 + 5  # apiVersion, kind, mode, weight, name


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff\xfe", "cannot be read"),
        (b"a: [", "is not YAML"),
        (b"", "not an object"),
    ],
)
def test_unreadable_profile_is_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "profile.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProfileError, match=says) as caught:
        load_profile(path)
    assert str(path) in str(caught.value)


@dataclasses.dataclass(frozen=True)
class _Even:
    low: int = 1
    high: int = 0

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ValueError("low must be below high")


@pytest.mark.parametrize(
    ("given", "mistakes"),
    [
        ({"low": 1, "high": 2}, []),
        ({"low": 3}, ["args: low must be below high"]),
        ({"low": 1, "high": "2"}, ["args.high: '2' is not an integer"]),
    ],
)
def test_invalid_value_is_reported_alone(given: object, mistakes: list[str]) -> None:
    """Checks between arguments skip a default that replaces a wrong value."""
    result: list[str] = []
    read(_Even, given, "args", result)
    assert result == mistakes


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("a: 1\nb: {c: 1, c: 2}", "line 2: 'c' is a duplicate key"),
        ("a: &x {b: *x}", "an anchor contains itself"),
        ("[" * 100_000, "line 1: objects are nested deeper than 32"),
        ("{a: " * 40 + "}" * 40, "nested deeper than 32"),
        ("a: 1\n---\nb: 2", "expected a single document"),
        ("a: !!python/object:os.system {}", "could not determine a constructor"),
        ("a: 2001-99-99", "is not YAML"),
        ("? {a: 1}\n: 2", "is not YAML"),
        ("a: b: c", "is not YAML"),
        ("\x1f", "is not YAML"),
        ("x" * (text.LONGEST + 1), "characters, and may have"),
    ],
)
def test_text_is_refused(given: str, says: str) -> None:
    with pytest.raises(text.TextError, match=says.replace("(", r"\(")) as caught:
        text.read(given)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("first", "further", "aliases", "count", "says"),
    [
        ("[x]", "[{}]", 10, 11, "more than 20000 values"),  # they expand to ten thousand million values
        ("[x]", "[{}]", 1, 40, "32 objects deep"),  # they nest as deep as the brackets
        ("{k: v}", "{{<<: [{}]}}", 10, 9, "more than 20000 values"),  # merged objects count as often as they are merged
    ],
)
def test_anchors_are_bounded(first: str, further: str, aliases: int, count: int, says: str) -> None:
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{n}: &a{n} {further.format(', '.join([f'*a{n - 1}'] * aliases))}" for n in range(1, count)]
    with pytest.raises(text.TextError, match=says):
        text.read("\n".join(lines))


def test_anchors_are_read() -> None:
    document = "base: &b {x: 1, y: 2}\nother: &o {<<: *b, y: 3}\nlast: {<<: *o, z: *b}"
    assert text.read(document) == {
        "base": {"x": 1, "y": 2},
        "other": {"x": 1, "y": 3},
        "last": {"x": 1, "y": 3, "z": {"x": 1, "y": 2}},
    }
    assert text.read("") is None
    assert text.read('{"a": [1, 2.5, true, null]}') == {"a": [1, 2.5, True, None]}
