"""Flags and environment: made of the settings' fields, checked, documented."""

from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from agent.settings import PROG, AgentSettings, load, state_dir
from crds.predict_policy import PredictPolicy
from headroom.runtime import option_types, options
from headroom.runtime.options import WrongSetting

NO_ENVIRONMENT = {"NODE_NAME": "worker", "HOME": "/home/somebody"}


def _help(capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        load(["--help"], NO_ENVIRONMENT)
    assert stopped.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_fields_have_flags() -> None:
    """Each field of each stage can be set, no two by the same flag, and none clashes with a Service's variables.

    The table of flags in docs/agent.md, which a test compares with the settings, pins every default.
    """
    stages: tuple[object, ...] = tuple(options.stages(AgentSettings))
    every = [
        (stage, field.name, options.flags_of(stage).get(field.name))
        for stage in options.stages(AgentSettings)
        for field in fields(stage)
        if field.default_factory not in stages
    ]
    assert [f"{stage.__name__}.{name}" for stage, name, one in every if one is None] == []
    names = [one.flag for _, _, one in every if one is not None]
    assert len(names) == len(set(names))
    assert not any(name.startswith(("port", "service-")) for name in names)


def test_help_tells_all(capsys: pytest.CaptureFixture[str]) -> None:
    """The help has every flag with the docstring under its field, and the default."""
    text = _help(capsys)
    for stage in options.stages(AgentSettings):
        documented = options.docstrings(stage)
        for name, one in options.flags_of(stage).items():
            assert f"--{one.flag}" in text
            assert documented[name].replace("``", "") in text, one.flag
    assert "(default: 4h)" in text
    assert "$NODE_NAME, else the host's name" in text


def test_flags_win_over_environment() -> None:
    """A flag wins over its variable, and a variable over the default."""
    environment = {**NO_ENVIRONMENT, "HEADROOM_AGENT_DATA_DIR": "/a", "HEADROOM_AGENT_COLLECT_INTERVAL": "2s"}
    settings = load(["--data-dir", "/b", "--listen", ":9316", "--standalone"], environment)
    assert settings.data_dir == Path("/b")
    assert settings.database == Path("/b/agent.db")
    assert settings.collect.interval_seconds == 2.0
    assert settings.serve.listen == ("", 9316)
    assert settings.display.standalone
    assert settings.collect.pods_from == "cgroups"


def test_values_are_understood() -> None:
    """Times, sizes, addresses, names and switches are read as people write them."""
    settings = load(
        ["--store-raw", "90m", "--store-max-mib=64", "--listen", "[::1]:0", "--collectors", "pod, node"],
        {**NO_ENVIRONMENT, "HEADROOM_AGENT_STANDALONE": "1", "HEADROOM_AGENT_LOG_LEVEL": "DEBUG"},
    )
    assert (settings.store.raw_seconds, settings.store.max_bytes) == (5400, 64 << 20)
    assert isinstance(settings.store.raw_seconds, int)
    assert settings.serve.listen == ("::1", 0)
    assert settings.serve.log_level == "debug"
    assert settings.collect.collectors == ("pod", "node")
    assert load(["--collect-interval", "0.25"], NO_ENVIRONMENT).collect.interval_seconds == 0.25


def test_node_has_a_name() -> None:
    """The node's name comes from the flag, else our variable, else NODE_NAME, else the host."""
    assert load(["--node-name", "a"], {"NODE_NAME": "b"}).node_name == "a"
    with pytest.raises(WrongSetting, match="--node-name"):
        load(["--node-name", "a/b?c"], {})
    assert load([], {"NODE_NAME": "b", "HEADROOM_AGENT_NODE_NAME": "c"}).node_name == "c"
    assert load([], {}).node_name


def test_paths_of_machine() -> None:
    """A root moves both file systems; each can be given on its own."""
    paths = load(["--host-root", "/host", "--proc", "/p"], NO_ENVIRONMENT).collect.paths
    assert (paths.proc, paths.cgroup) == (Path("/p"), Path("/host/sys/fs/cgroup"))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", ("10.0.0.1", 10250)),
        ("worker-1:10255", ("worker-1", 10255)),
        ("fd00::1", ("fd00::1", 10250)),
        ("[fd00::1]", ("fd00::1", 10250)),
        ("[fd00::1]:1", ("fd00::1", 1)),
    ],
)
def test_kubelet_address(text: str, address: tuple[str, int]) -> None:
    """A kubelet is a host, with its usual port unless another one is named."""
    assert load(["--kubelet-address", text], NO_ENVIRONMENT).kubelet.address == address


def test_standalone_needs_no_rights() -> None:
    """Without a cluster the data goes where a person's programs keep theirs, unless set otherwise."""
    home = {"HOME": "/home/somebody"}
    assert load(["--standalone"], home).data_dir == Path("/home/somebody/.local/state/headroom")
    assert load(["--standalone"], {**home, "XDG_STATE_HOME": "/x"}).data_dir == Path("/x/headroom")
    assert load(["--standalone", "--data-dir", "/d"], home).data_dir == Path("/d")
    assert load(["--standalone"], {**home, "HEADROOM_AGENT_DATA_DIR": "/d"}).data_dir == Path("/d")
    # The standard says that a relative path is to be ignored.
    assert state_dir({**home, "XDG_STATE_HOME": "x"}) == Path("/home/somebody/.local/state/headroom")
    assert state_dir({}) == Path("/.local/state/headroom")


@pytest.mark.parametrize("arguments", [["--collect-interval", "-1s"], ["--collect-interval=-1s"]])
def test_negative_value_is_told_its_range(arguments: list[str]) -> None:
    """A value below nothing is refused with what is allowed, whether or not an equals sign stands before it."""
    with pytest.raises(WrongSetting, match=r"--collect-interval .* must be between 50ms and 1h, got: '-1s'"):
        load(arguments, NO_ENVIRONMENT)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--collect-interval", "fast"],
        ["--collect-interval", "1ms"],
        ["--collect-interval", "nan"],
        ["--training-interval=-3s"],
        ["--training-interval"],
        ["--training-interval", "10s", "--collect-interval", "20s"],
        ["--no-such-flag"],
        ["--listen", "nowhere"],
        ["--listen", ":99999"],
        ["--listen", ":²"],
        ["--pods-from", "heaven"],
        ["--collectors", "node,gpu"],
        ["--collectors", ""],
        ["--collectors", ","],
        ["--store-max-mib", "31"],
        ["--store-max-mib", "x"],
        ["--store-max-mib", "²"],
        ["--store-max-mib", "9" * 5000],
        ["--store-raw", "1.5s"],
        ["--store-minute-days", "0"],
        ["--store-memory-ticks", "100"],
        ["--report-jitter", "2"],
        ["--refresh", "0s"],
        ["--report-jitter", "nan"],
        ["--most-workloads", "-1"],
        ["--data-dir", ""],
        ["--once"],
        ["--output", "json"],
        ["--output", "xml", "--standalone"],
        ["--output", "json", "-o", "xml", "--standalone"],
        ["--pods-from", "api", "--standalone"],
        ["--pods-from", "kubelet", "--standalone"],
        ["--kubelet-address", "https://10.0.0.1"],
        ["--kubelet-address", "10.0.0.1:99999"],
        ["--kubelet-address", ":10250"],
        ["--kubelet-interval", "0"],
        ["--log-format", "xml"],
        ["--log-level", "loud"],
    ],
)
def test_wrong_values_are_named(arguments: list[str]) -> None:
    """A value that cannot be is refused in one line that names flag and variable."""
    with pytest.raises(WrongSetting) as caught:
        load(arguments, NO_ENVIRONMENT)
    message = str(caught.value)
    assert arguments[0].partition("=")[0] in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "name",
    [
        options.variable(PROG, one.flag)
        for stage in options.stages(AgentSettings)
        for one in options.flags_of(stage).values()
    ],
)
def test_wrong_variable_is_named(name: str) -> None:
    """A variable that cannot be used is named like its flag; paths may be anything."""
    anything = {"HEADROOM_AGENT_" + name for name in ("KUBECONFIG", "DATA_DIR", "HOST_ROOT", "PROC")}
    if name in anything | {"HEADROOM_AGENT_CGROUP_ROOT", "HEADROOM_AGENT_KUBELET_CA"}:
        load([], {**NO_ENVIRONMENT, name: "maybe so"})
        return
    with pytest.raises(WrongSetting, match=name):
        load([], {**NO_ENVIRONMENT, name: "maybe so"})


def test_empty_variable_is_none() -> None:
    """A variable that is set but empty leaves the default, so that nothing is written to the current folder."""
    assert load([], {**NO_ENVIRONMENT, "HEADROOM_AGENT_DATA_DIR": ""}) == load([], NO_ENVIRONMENT)


def test_misspelled_variable_is_told() -> None:
    """A variable that looks like a setting is not passed over; what Kubernetes makes of a Service is."""
    given = {
        "HEADROOM_AGENT_COLECT_INTERVAL": "2s",
        "HEADROOM_AGENT_PORT": "tcp://10.0.0.7:9316",
        "HEADROOM_AGENT_SERVICE_HOST": "10.0.0.7",
        "HEADROOM_AGENT_PORT_9316_TCP_ADDR": "10.0.0.7",
        "HEADROOM_AGENT_LISTEN": ":0",
    }
    (sentence,) = options.misspelled(AgentSettings, PROG, given)
    assert "HEADROOM_AGENT_COLECT_INTERVAL" in sentence
    assert "HEADROOM_AGENT_COLLECT_INTERVAL" in sentence


def test_stage_may_refuse() -> None:
    """What a stage itself finds wrong is one line that names its flags."""

    @dataclass(frozen=True)
    class Odd:
        first: str = options.setting("a", flag="first", kind=option_types.Kind("A", str))

        def __post_init__(self) -> None:
            raise ValueError("a and b differ")

    with pytest.raises(WrongSetting, match=r"a and b differ \(one of --first\)"):
        options.load(Odd, "odd", [], {})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "must be a prediction policy as JSON"),
        ("[]", "must be a prediction policy"),
        ('{"reclaimRatioPercent": "all"}', "reclaimRatioPercent"),
        ('{"reclaimRatioPercent": 900}', "reclaimRatioPercent"),
        ('{"model": "nobodys"}', "nobodys"),
        ('{"policyModel": "recent-max"}', "has no policyModel"),
        ('{"model": "recent-max", "parameters": {"windowDays": -1}}', "parameters.windowDays"),
    ],
)
def test_policy_is_checked(text: str, complaint: str) -> None:
    """The agent's own prediction policy is one that can be followed, or nothing starts, and the field is named."""
    given = '{"model": "recent-max", "reclaimRatioPercent": 50}'
    for arguments, environment in (
        (["--predict-policy", given], NO_ENVIRONMENT),
        ([], {**NO_ENVIRONMENT, "HEADROOM_AGENT_PREDICT_POLICY": given}),
    ):
        policy = load(arguments, environment).train.predict_policy
        assert policy == PredictPolicy(model="recent-max", reclaim_ratio_percent=50)
    with pytest.raises(WrongSetting, match=f"--predict-policy .*{complaint}"):
        load(["--predict-policy", text], NO_ENVIRONMENT)
