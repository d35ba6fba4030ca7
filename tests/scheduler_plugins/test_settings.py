"""Flags and the profile."""

import dataclasses
import inspect
import re
import socket
from pathlib import Path

import pytest
import yaml

from headroom.kube.lease import LeaseName
from headroom.runtime.options import WrongSetting
from scheduler_plugins.__main__ import main
from scheduler_plugins.extender.service import Answering, Mode
from scheduler_plugins.plugins.load_aware_arguments import Aggregated, LoadAwareArguments
from scheduler_plugins.profile import DEFAULT_PROFILE
from scheduler_plugins.settings import load
from scheduler_plugins.snapshot.estimate import LoadRules


def test_flags_have_defaults() -> None:
    parsed = load([], {})
    assert (parsed.listen, parsed.stale_seconds, parsed.log_format) == (("127.0.0.1", 9820), 180.0, "text")
    assert parsed.log_level == "info"
    assert parsed.profile.answering.mode is Mode.SHORTLIST
    assert parsed.kubeconfig is None


def test_leader_and_reclaim_settings() -> None:
    parsed = load([], {})
    assert (parsed.leader_lease, parsed.leader_identity) == (None, socket.gethostname())
    assert parsed.reclaim_for == ("headroom-scheduler",)
    flags = ["--leader-lease", "system/scheduler", "--leader-identity", "host", "--reclaim-for", "one, two,"]
    parsed = load(flags, {})
    assert (parsed.leader_lease, parsed.leader_identity) == (LeaseName("system", "scheduler"), "host")
    assert parsed.reclaim_for == ("one", "two")


def test_flags_win_over_environment() -> None:
    environment = {"HEADROOM_SCHEDULER_MODE": "weighted", "HEADROOM_SCHEDULER_LISTEN": "[::1]:1"}
    parsed = load(["--listen", ":7"], environment)
    assert (parsed.profile.answering.mode, parsed.listen) == (Mode.WEIGHTED, ("", 7))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--listen", "9820"], r"--listen \(or HEADROOM_SCHEDULER_LISTEN\) must be HOST:PORT or :PORT, got: '9820'"),
        (["--mode", "fast"], "--mode .* must be one of shortlist, weighted, got: 'fast'"),
        (["--stale-after", "0s"], "--stale-after .* must be between 1s and"),
        (["--leader-lease", "headroom"], "--leader-lease .* must be a namespace and a name"),
        (["--leader-lease", "a/b/c"], "--leader-lease .* must be a namespace and a name"),
        (["--log-level", "loud"], "--log-level .* must be one of debug, info, warning, error, got: 'loud'"),
        (["--tls-cert-file", "a"], "give --tls-cert-file and --tls-private-key-file"),
        (["--frob"], "unrecognized arguments: --frob; headroom-scheduler --help lists all flags"),
    ],
)
def test_bad_flag_is_named(flags: list[str], says: str) -> None:
    with pytest.raises(WrongSetting, match=says):
        load(flags, {})


@pytest.mark.parametrize("kind", [Answering, LoadRules, LoadAwareArguments, Aggregated])
def test_every_setting_is_documented(kind: type) -> None:
    source = inspect.getsource(kind)
    for field in dataclasses.fields(kind):
        after = source.split(f"\n    {field.name}:", 1)[1].split("\n", 1)[1]
        assert after.lstrip().startswith('"""'), field.name


def test_scheduler_configuration_fits_profile() -> None:
    text = DEFAULT_PROFILE.with_name("kube-scheduler-configuration.yaml").read_text()
    (extender,) = yaml.safe_load(text)["extenders"]
    assert extender["filterVerb"] == "filter"
    assert extender["nodeCacheCapable"]
    assert "prioritizeVerb" not in extender
    assert extender["urlPrefix"].endswith("127.0.0.1:9820")


def test_chart_weighs_like_reference() -> None:
    reference = DEFAULT_PROFILE.with_name("kube-scheduler-configuration.yaml")
    template = reference.parents[1] / "charts/headroom/templates/scheduler-config.yaml"
    weights = [set(re.findall(r"\{name: (\w+), weight: (\d+)\}", path.read_text())) for path in (reference, template)]
    assert weights[0] == weights[1]
    assert len(weights[0]) == 8


def test_check_prints_effective_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile.yaml"
    args = "{metricProvider: {type: Prometheus, address: 'https://p', token: s3cret}}"
    head = "apiVersion: headroom.dev/v1alpha1\nkind: HeadroomSchedulerConfiguration\n"
    path.write_text(f"{head}plugins: [{{name: LowRiskOverCommitment, args: {args}}}]\n")
    assert main(["--check", "--profile", str(path), "--mode", "weighted"]) == 0
    texts = capsys.readouterr().out
    assert texts.startswith('Plugin LowRiskOverCommitment, weight 1, {"watcherAddress": ')
    assert '"token": "..."' in texts
    assert "s3cret" not in texts
    assert texts.endswith("\nMode weighted\n")


def test_check_refuses_wrong_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile.yaml"
    path.write_text("kind: HeadroomSchedulerConfiguration\n")
    assert main(["--check", "--profile", str(path)]) == 2
    assert "apiVersion: None: must be headroom.dev/v1alpha1" in capsys.readouterr().err
