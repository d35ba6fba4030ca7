"""Flags and the profile."""

import dataclasses
import inspect
import re
import socket
from pathlib import Path

import pytest
import yaml

from headroom.kube.lease import LeaseName
from scheduler_plugins.__main__ import main
from scheduler_plugins.extender.service import Answering, Mode
from scheduler_plugins.profile import DEFAULT_PROFILE, Profile
from scheduler_plugins.settings import Settings, SettingsError, parse_flags
from scheduler_plugins.snapshot.estimate import LoadRules


def test_flags_have_defaults() -> None:
    """Without flags the extender listens on loopback with the profile that ships."""
    parsed = parse_flags([], {})
    assert (parsed.host, parsed.port, parsed.stale_seconds, parsed.log_format) == ("127.0.0.1", 9820, 180.0, "text")
    assert parsed.log_level == "info"
    assert parsed.profile.answering.mode is Mode.SHORTLIST
    assert parsed.kubeconfig is None


def test_who_decides_and_for_whom() -> None:
    """Without a Lease this is the only replica; kube-scheduler holds one by its host name, by default ours."""
    parsed = parse_flags([], {})
    assert (parsed.leader_lease, parsed.leader_identity) == (None, socket.gethostname())
    assert parsed.reclaim_for == ("headroom-scheduler",)
    flags = ["--leader-lease", "system/scheduler", "--leader-identity", "host", "--reclaim-for", "one, two,"]
    parsed = parse_flags(flags, {})
    assert (parsed.leader_lease, parsed.leader_identity) == (LeaseName("system", "scheduler"), "host")
    assert parsed.reclaim_for == ("one", "two")


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
        (["--leader-lease", "headroom"], "--leader-lease headroom: must be a namespace and a name"),
        (["--leader-lease", "a/b/c"], "--leader-lease a/b/c: must be a namespace and a name"),
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
    text = DEFAULT_PROFILE.with_name("kube-scheduler-configuration.yaml").read_text()
    (extender,) = yaml.safe_load(text)["extenders"]
    assert extender["filterVerb"] == "filter"
    assert extender["nodeCacheCapable"]
    assert "prioritizeVerb" not in extender
    assert extender["urlPrefix"].endswith("127.0.0.1:9820")


def test_chart_weighs_like_reference() -> None:
    """The chart multiplies the same in-tree weights as the reference configuration."""
    reference = DEFAULT_PROFILE.with_name("kube-scheduler-configuration.yaml")
    template = reference.parents[1] / "charts/headroom/templates/scheduler-config.yaml"
    weights = [set(re.findall(r"\{name: (\w+), weight: (\d+)\}", path.read_text())) for path in (reference, template)]
    assert weights[0] == weights[1]
    assert len(weights[0]) == 8


def test_check_says_what_profile_comes_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check needs no cluster: it prints every argument with its default, and no token."""
    path = tmp_path / "profile.yaml"
    args = "{metricProvider: {type: Prometheus, address: 'https://p', token: s3cret}}"
    head = "apiVersion: headroom.dev/v1alpha1\nkind: HeadroomSchedulerConfiguration\n"
    path.write_text(f"{head}plugins: [{{name: LowRiskOverCommitment, args: {args}}}]\n")
    assert main(["--check", "--profile", str(path), "--mode", "weighted"]) == 0
    told = capsys.readouterr().out
    assert told.startswith('Plugin LowRiskOverCommitment, weight 1, {"watcherAddress": ')
    assert '"token": "..."' in told
    assert "s3cret" not in told
    assert told.endswith("\nMode weighted\n")


def test_check_refuses_wrong_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check of a wrong profile ends with the status of wrong use, and every mistake."""
    path = tmp_path / "profile.yaml"
    path.write_text("kind: HeadroomSchedulerConfiguration\n")
    assert main(["--check", "--profile", str(path)]) == 2
    assert "apiVersion: None: must be headroom.dev/v1alpha1" in capsys.readouterr().err
