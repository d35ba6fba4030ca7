import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from agent.settings import PROG, AgentSettings, load
from crds.predict_policy import PredictPolicy
from headroom.runtime import options
from headroom.runtime.options import WrongSetting

NO_ENVIRONMENT = {"NODE_NAME": "worker", "HOME": "/home/user"}


def _help(capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        load(["--help"], NO_ENVIRONMENT)
    assert stopped.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_each_field_has_a_flag_of_its_own_that_the_help_explains(capsys: pytest.CaptureFixture[str]) -> None:
    """The table of flags in docs/agent.md, which a test compares with the settings, pins every default."""
    stages: tuple[Any, ...] = tuple(options.stages(AgentSettings))
    text, names = _help(capsys), []
    for stage in stages:
        flags, documented = options.flags_of(stage), options.docstrings(stage)
        assert {field.name for field in fields(stage) if field.default_factory not in stages} == flags.keys()
        for name, one in flags.items():
            names.append(one.flag)
            assert f"--{one.flag}" in text
            assert documented[name].replace("``", "") in text, one.flag
    assert len(names) == len(set(names))
    assert not any(name.startswith(("port", "service-")) for name in names)  # like a Service's variables
    assert "(default: 4h)" in text
    assert "$NODE_NAME, else the host's name" in text


def test_flag_wins_over_variable_and_variable_over_default() -> None:
    """Times, sizes, addresses, names and switches are read as people write them; an empty variable is none."""
    variables = {
        "DATA_DIR": "/a",
        "COLLECT_INTERVAL": "2s",
        "STANDALONE": "1",
        "LOG_LEVEL": "DEBUG",
        "STORE_MINUTE_DAYS": "",
    }
    environment = {**NO_ENVIRONMENT, **{f"HEADROOM_AGENT_{name}": value for name, value in variables.items()}}
    flags = ["--store-raw", "90m", "--store-max-mib=64", "--listen", "[::1]:0", "--collectors", "pod, node"]
    settings = load(["--data-dir", "/b", *flags], environment)
    assert (settings.data_dir, settings.database) == (Path("/b"), Path("/b/agent.db"))
    collect, serve, store = settings.collect, settings.serve, settings.store
    assert (collect.interval_seconds, collect.collectors, collect.pods_from) == (2.0, ("pod", "node"), "cgroups")
    assert (serve.listen, serve.log_level, settings.display.standalone) == (("::1", 0), "debug", True)
    assert (store.raw_seconds, type(store.raw_seconds), store.max_bytes) == (5400, int, 64 << 20)
    assert store.minute_days == load([], NO_ENVIRONMENT).store.minute_days
    assert load(["--collect-interval", "0.25", "--listen", ":9316"], NO_ENVIRONMENT).serve.listen == ("", 9316)


def test_node_has_a_name_from_flag_variable_downward_api_or_host() -> None:
    assert load(["--node-name", "a"], {"NODE_NAME": "b"}).node_name == "a"
    assert load([], {"NODE_NAME": "b", "HEADROOM_AGENT_NODE_NAME": "c"}).node_name == "c"
    assert load([], {"NODE_NAME": "b"}).node_name == "b"
    assert load([], {}).node_name


def test_root_moves_both_file_systems_and_each_can_be_given() -> None:
    paths = load(["--host-root", "/host", "--proc", "/p"], NO_ENVIRONMENT).collect.paths
    assert (paths.proc, paths.cgroup) == (Path("/p"), Path("/host/sys/fs/cgroup"))


HOME, SET = {"HOME": "/home/user"}, {"HEADROOM_AGENT_DATA_DIR": "/d"}


@pytest.mark.parametrize(
    ("arguments", "environment", "folder"),
    [
        ([], HOME, "/home/user/.local/state/headroom"),
        ([], {**HOME, "XDG_STATE_HOME": "/x"}, "/x/headroom"),
        ([], {**HOME, "XDG_STATE_HOME": "x"}, "/home/user/.local/state/headroom"),  # the standard ignores it
        ([], {}, "/.local/state/headroom"),
        (["--data-dir", "/d"], HOME, "/d"),
        ([], {**HOME, **SET}, "/d"),
    ],
)
def test_standalone_keeps_its_data_where_a_persons_programs_do(
    arguments: list[str], environment: dict[str, str], folder: str
) -> None:
    assert load(["--standalone", *arguments], environment).data_dir == Path(folder)


@pytest.mark.parametrize("arguments", [["--collect-interval", "-1s"], ["--collect-interval=-1s"]])
def test_negative_value_is_refused_with_the_range(arguments: list[str]) -> None:
    with pytest.raises(WrongSetting, match=r"--collect-interval .* must be between 50ms and 1h, got: '-1s'"):
        load(arguments, NO_ENVIRONMENT)


WRONG = """
--collect-interval fast|--collect-interval 1ms|--collect-interval nan|--training-interval=-3s|--training-interval
--training-interval 10s --collect-interval 20s|--no-such-flag|--listen nowhere|--listen :99999|--listen :²
--pods-from heaven|--collectors node,gpu|--collectors ''|--collectors ,|--store-max-mib 31|--store-max-mib x
--store-max-mib ²|--store-raw 1.5s|--store-minute-days 0|--store-memory-ticks 100|--report-jitter 2|--refresh 0s
--report-jitter nan|--most-workloads -1|--data-dir ''|--once|--output json|--output xml --standalone
--output json -o xml --standalone|--pods-from api --standalone|--pods-from kubelet|--node-name a/b?c
--log-format xml|--log-level loud|--workload-labels a+|--workload-labels a/b/c|--workload-labels 'a b'"""


@pytest.mark.parametrize("given", [*WRONG.strip().replace("\n", "|").split("|"), "--store-max-mib " + "9" * 5000])
def test_wrong_value_is_one_line_with_its_flag(given: str) -> None:
    arguments = shlex.split(given)
    with pytest.raises(WrongSetting) as caught:
        load(arguments, NO_ENVIRONMENT)
    assert arguments[0].partition("=")[0] in str(caught.value)
    assert "\n" not in str(caught.value)


FLAGS = [entry.flag for stage in options.stages(AgentSettings) for entry in options.flags_of(stage).values()]
PATHS = {"KUBECONFIG", "DATA_DIR", "HOST_ROOT", "PROC", "CGROUP_ROOT", "KUBELET_CA"}  # these may be anything


VARIABLES = {options.variable(PROG, flag) for flag in FLAGS} - {f"HEADROOM_AGENT_{path}" for path in PATHS}


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_wrong_variable_is_named_like_its_flag(name: str) -> None:
    with pytest.raises(WrongSetting, match=name):
        load([], {**NO_ENVIRONMENT, name: "maybe so"})


def test_misspelled_variable_is_named_and_service_variables_are_not() -> None:
    environment = {
        "HEADROOM_AGENT_COLECT_INTERVAL": "2s",
        "HEADROOM_AGENT_PORT": "tcp://10.0.0.7:9316",
        "HEADROOM_AGENT_SERVICE_HOST": "10.0.0.7",
        "HEADROOM_AGENT_PORT_9316_TCP_ADDR": "10.0.0.7",
        "HEADROOM_AGENT_LISTEN": ":0",
    }
    (sentence,) = options.misspelled(AgentSettings, PROG, environment)
    assert "HEADROOM_AGENT_COLECT_INTERVAL" in sentence
    assert "HEADROOM_AGENT_COLLECT_INTERVAL" in sentence


@pytest.mark.parametrize(
    ("text", "problem"),
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
def test_own_policy_can_be_followed_or_nothing_starts(text: str, problem: str) -> None:
    with pytest.raises(WrongSetting, match=f"--predict-policy .*{problem}"):
        load(["--predict-policy", text], NO_ENVIRONMENT)
    inputs = '{"model": "recent-max", "reclaimRatioPercent": 50}'
    policy = load([], {**NO_ENVIRONMENT, "HEADROOM_AGENT_PREDICT_POLICY": inputs}).train.predict_policy
    assert policy == PredictPolicy(model="recent-max", reclaim_ratio_percent=50)
