"""Flags and environment."""

import dataclasses
from pathlib import Path

import pytest

from agent import settings as agent_settings
from agent.settings import AgentSettings, WrongSetting, load, parser

NO_ENVIRONMENT = {"NODE_NAME": "worker"}


def test_defaults() -> None:
    """Every default, so that none changes unnoticed."""
    settings = load([], NO_ENVIRONMENT)
    assert settings.node_name == "worker"
    assert settings.data_dir == Path("/var/lib/headroom")
    assert settings.database == Path("/var/lib/headroom/agent.db")
    assert settings.collect.paths.proc == Path("/proc")
    assert settings.collect.paths.cgroup == Path("/sys/fs/cgroup")
    assert settings.collect.interval_seconds == 1.0
    assert settings.collect.collectors == ("node", "pod", "pressure")
    assert settings.collect.pods_from == "api"
    assert settings.learn.interval_seconds == 30.0
    assert settings.learn.checkpoint_seconds == 60.0
    assert settings.report.first_after_seconds == 10.0
    assert settings.report.jitter == 0.1
    assert settings.report.longest_backoff_seconds == 30.0
    assert (settings.store.raw_seconds, settings.store.minute_days, settings.store.daily_days) == (14400, 8, 31)
    assert (settings.store.max_bytes, settings.store.block_ticks) == (256 << 20, 600)
    assert settings.store.wal_checkpoint_seconds == 5.0
    assert settings.listen == ("127.0.0.1", 9316)
    assert (settings.standalone, settings.once, settings.inspect_store) == (False, False, False)
    assert (settings.log_format, settings.log_level, settings.kubeconfig) == ("text", "info", None)


def test_flags_win_over_environment() -> None:
    """A flag wins over its variable, and a variable over the default."""
    environment = {**NO_ENVIRONMENT, "HEADROOM_AGENT_DATA_DIR": "/a", "HEADROOM_AGENT_COLLECT_INTERVAL": "2s"}
    settings = load(["--data-dir", "/b", "--listen", ":9316", "--standalone"], environment)
    assert settings.data_dir == Path("/b")
    assert settings.collect.interval_seconds == 2.0
    assert settings.listen == ("", 9316)
    assert settings.standalone
    assert settings.collect.pods_from == "cgroups"


def test_paths_of_machine() -> None:
    """A root moves both file systems; each can be given on its own; a replayed tree is a root."""
    paths = load(["--host-root", "/host", "--proc", "/p"], NO_ENVIRONMENT).collect.paths
    assert (paths.proc, paths.cgroup) == (Path("/p"), Path("/host/sys/fs/cgroup"))
    assert load(["--replay", "/r"], NO_ENVIRONMENT).collect.paths.proc == Path("/r/proc")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--collect-interval", "fast"],
        ["--collect-interval", "1ms"],
        ["--training-interval=-3s"],
        ["--training-interval"],
        ["--no-such-flag"],
        ["--listen", "nowhere"],
        ["--listen", ":99999"],
        ["--pods-from", "heaven"],
        ["--collectors", "node,gpu"],
        ["--collectors", ""],
        ["--store-max-mib", "1"],
        ["--store-max-mib", "x"],
        ["--store-max-mib", "²"],
        ["--listen", ":²"],
        ["--data-dir", ""],
        ["--once"],
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


def test_wrong_variable_is_named() -> None:
    """A variable that cannot be used is named like its flag."""
    with pytest.raises(WrongSetting, match="HEADROOM_AGENT_STANDALONE"):
        load([], {**NO_ENVIRONMENT, "HEADROOM_AGENT_STANDALONE": "maybe"})


def test_empty_variable_is_none() -> None:
    """A variable that is set but empty leaves the default, so that nothing is written to the current folder."""
    assert load([], {**NO_ENVIRONMENT, "HEADROOM_AGENT_DATA_DIR": ""}) == load([], NO_ENVIRONMENT)


def test_every_setting_is_read() -> None:
    """Every flag is one that `load` asks for."""
    source = Path(agent_settings.__file__).read_text()
    flags = {action.dest for action in parser()._actions} - {"help"}
    unread = [flag for flag in flags if f'"{flag}"' not in source]
    assert not unread


def test_every_setting_is_documented() -> None:
    """Each field of each settings class has a docstring under it."""
    source = Path(agent_settings.__file__).read_text()
    for field in dataclasses.fields(AgentSettings):
        assert f"    {field.name}: " in source
        assert source.split(f"    {field.name}: ", 1)[1].split("\n")[1].strip().startswith('"""'), field.name
