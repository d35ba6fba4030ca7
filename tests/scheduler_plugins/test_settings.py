"""Flags and the profile."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
import yaml

from scheduler_plugins import settings
from scheduler_plugins.arguments import encode
from scheduler_plugins.extender.service import Answering, Mode
from scheduler_plugins.framework.cycle import Enabled
from scheduler_plugins.plugins.load_aware import LoadAware
from scheduler_plugins.settings import Profile, Settings, SettingsError, load_profile, parse_flags
from scheduler_plugins.snapshot.estimate import LoadRules

HEAD = "apiVersion: headroom.dev/v1alpha1\nkind: HeadroomSchedulerConfiguration\n"


def _written(folder: Path, text: str) -> Path:
    path = folder / "profile.yaml"
    path.write_text(HEAD + text)
    return path


def test_default_profile_is_all_defaults() -> None:
    """The profile that ships says what holds without it."""
    profile = load_profile(settings.DEFAULT_PROFILE)
    assert profile.answering == Answering()
    assert profile.in_flight_seconds == Profile([]).in_flight_seconds
    assert [(part.name, part.weight) for part in profile.enabled] == [("LoadAwareScheduling", 1.0)]
    assert encode(profile.enabled[0].plugin) == encode(LoadAware().defaulted())


def test_profile_is_read(tmp_path: Path) -> None:
    """Names, weights, arguments, mode and sizes come from the file."""
    path = _written(
        tmp_path,
        "mode: weighted\nshortlist: {size: 4, sizeForPreferences: 100}\ninFlightSeconds: 5\n"
        "plugins: [{name: LoadAwareScheduling, weight: 2.5, args: {usageThresholds: {cpu: 50}}}]\n",
    )
    profile = load_profile(path)
    assert profile.answering == Answering(Mode.WEIGHTED, 4, 100)
    assert profile.in_flight_seconds == 5
    assert profile.enabled == (
        Enabled("LoadAwareScheduling", 2.5, LoadAware(usage_thresholds={"cpu": 50}).defaulted()),
    )
    assert profile.load_rules.factors == {"cpu": 85, "memory": 70}


def test_durations_are_gos(tmp_path: Path) -> None:
    """Durations are written as in Go and come back so."""
    args = "{aggregated: {usageThresholds: {cpu: 65}, usageAggregationType: p95, usageAggregatedDuration: 300s}}"
    profile = load_profile(_written(tmp_path, f"plugins: [{{name: LoadAwareScheduling, args: {args}}}]"))
    assert encode(profile.enabled[0].plugin)["aggregated"]["usageAggregatedDuration"] == "5m0s"


@pytest.mark.parametrize(
    ("text", "says"),
    [
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
def test_mistake_refuses_to_start(tmp_path: Path, text: str, says: str) -> None:
    """A mistake in the profile is named with its place and what is allowed."""
    with pytest.raises(SettingsError) as caught:
        load_profile(_written(tmp_path, text))
    assert says in str(caught.value)


def test_all_mistakes_come_together(tmp_path: Path) -> None:
    """One look shows everything that is wrong."""
    path = tmp_path / "profile.yaml"
    path.write_text("mode: x\nplugins: [{name: y, weight: z}]\n")
    with pytest.raises(SettingsError) as caught:
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
    """A file that is no profile is named."""
    path = tmp_path / "profile.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=says) as caught:
        load_profile(path)
    assert str(path) in str(caught.value)


def test_flags_have_defaults() -> None:
    """Without flags the extender listens on loopback with the profile that ships."""
    parsed = parse_flags([], {})
    assert (parsed.host, parsed.port, parsed.stale_seconds, parsed.log_format) == ("127.0.0.1", 9820, 180.0, "text")
    assert parsed.log_level == "info"
    assert parsed.profile.answering.mode is Mode.SHORTLIST
    assert parsed.kubeconfig is None


def test_flags_win_over_environment() -> None:
    """A variable stands in for a flag that is not given."""
    environment = {"HEADROOM_SCHEDULER_MODE": "weighted", "HEADROOM_SCHEDULER_LISTEN": "[::1]:1"}
    parsed = parse_flags(["--listen", ":7"], environment)
    assert (parsed.profile.answering.mode, parsed.host, parsed.port) == (Mode.WEIGHTED, "", 7)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--listen", "9820"], "--listen 9820: must be an address and a port"),
        (["--listen", "127.0.0.1:99999"], "must be an address and a port"),
        (["--mode", "fast"], "--mode fast: must be shortlist or weighted"),
        (["--stale-after", "1m"], "--stale-after 1m: must be a number of seconds"),
        (["--stale-after", "0s"], "must be a number of seconds"),
        (["--log-format", "xml"], "--log-format xml: must be text or json"),
        (["--log-level", "loud"], "--log-level loud: must be debug, info, warning or error"),
    ],
)
def test_bad_flag_is_named(flags: list[str], says: str) -> None:
    """A flag's value that cannot be used is named with what is allowed."""
    with pytest.raises(SettingsError, match=says):
        parse_flags(flags, {})


def test_unknown_flag_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown flag is told in one line, without the whole usage."""
    with pytest.raises(SystemExit) as caught:
        parse_flags(["--frob"], {})
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert told == "headroom-scheduler: unrecognized arguments: --frob; see headroom-scheduler --help\n"


@pytest.mark.parametrize("kind", [Settings, Profile, Answering, LoadRules])
def test_every_setting_is_documented(kind: type) -> None:
    """Below each setting stands what it means."""
    source = inspect.getsource(kind)
    for field in dataclasses.fields(kind):
        after = source.split(f"\n    {field.name}:", 1)[1].split("\n", 1)[1]
        assert after.lstrip().startswith('"""'), field.name


def test_scheduler_configuration_fits_profile() -> None:
    """The reference configuration of kube-scheduler asks for what the default mode answers."""
    text = settings.DEFAULT_PROFILE.with_name("kube-scheduler-configuration.yaml").read_text()
    (extender,) = yaml.safe_load(text)["extenders"]
    assert extender["filterVerb"] == "filter"
    assert extender["nodeCacheCapable"]
    assert "prioritizeVerb" not in extender
    assert extender["urlPrefix"].endswith("127.0.0.1:9820")


def test_chart_weighs_like_reference() -> None:
    """The chart multiplies the same in-tree weights as the reference configuration."""
    reference = settings.DEFAULT_PROFILE.with_name("kube-scheduler-configuration.yaml")
    template = reference.parents[1] / "charts/headroom/templates/scheduler-config.yaml"
    weights = [set(re.findall(r"\{name: (\w+), weight: (\d+)\}", path.read_text())) for path in (reference, template)]
    assert weights[0] == weights[1]
    assert len(weights[0]) == 8
