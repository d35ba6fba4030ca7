"""The agent's settings, one dataclass per stage, and the command line that sets them."""

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from agent.collectors import COLLECTORS
from agent.host.paths import HostPaths
from agent.store.settings import StoreSettings
from crds.duration import parse_duration

ENV_PREFIX = "HEADROOM_AGENT_"
_MIB = 1 << 20


class WrongSetting(ValueError):  # noqa: N818 - what the user sees is the message
    """A flag or variable that cannot be used; one line that names it and the way out."""


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """Collecting."""

    paths: HostPaths
    """The machine's files."""
    interval_seconds: float = 1.0
    """Time between two ticks. [s]"""
    collectors: tuple[str, ...] = tuple(COLLECTORS)
    """Which collectors run, by name."""
    pods_from: str = "api"
    """Where the pods come from: ``api`` (a watch) or ``cgroups`` (the tree alone; always so when standalone)."""


@dataclass(frozen=True, slots=True)
class LearnSettings:
    """Learning."""

    interval_seconds: float = 30.0
    """Time between two training rounds (HistogramUpdateInterval). [s]"""
    checkpoint_seconds: float = 60.0
    """What was learned is saved this often. [s]"""


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Reporting."""

    first_after_seconds: float = 10.0
    """How long after the start the first report is made. [s]"""
    jitter: float = 0.1
    """Each wait is longer or shorter by up to this share, so that a thousand agents do not report at once."""
    longest_backoff_seconds: float = 30.0
    """The longest wait between two tries while the API server is away or the NodeMetric does not exist. [s]"""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Everything."""

    node_name: str
    """Name of the node, and of its NodeMetric."""
    collect: CollectSettings
    """Collecting."""
    data_dir: Path = Path("/var/lib/headroom")
    """The one folder that is written to."""
    store: StoreSettings = field(default_factory=StoreSettings)
    """Keeping."""
    learn: LearnSettings = field(default_factory=LearnSettings)
    """Learning."""
    report: ReportSettings = field(default_factory=ReportSettings)
    """Reporting."""
    kubeconfig: str | None = None
    """Login; None for the pod's service account, else the usual kubeconfig."""
    listen: tuple[str, int] = ("127.0.0.1", 9316)
    """Address of /healthz and /metrics. [host, port]"""
    standalone: bool = False
    """No API server: the NodeMetric is printed and served."""
    once: bool = False
    """Standalone: stop after the first report."""
    inspect_store: bool = False
    """Print what the database holds, and stop."""
    log_format: str = "text"
    """``text`` or ``json``."""
    log_level: str = "info"
    """The least severe message that is logged."""

    @property
    def database(self) -> Path:
        """The database's file."""
        return self.data_dir / "agent.db"


class _Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def error(self, message: str) -> NoReturn:
        raise WrongSetting(f"{message}; {self.prog} --help lists all flags")


def parser() -> argparse.ArgumentParser:
    """The command line. Every flag can also be given as HEADROOM_AGENT_<FLAG>."""
    result = _Parser(
        prog="headroom-agent",
        description="Measures this node and its pods, predicts their peak, and reports it as a NodeMetric.",
        epilog="Every flag can also be set in the environment: --data-dir as HEADROOM_AGENT_DATA_DIR, and so on.",
        allow_abbrev=False,
    )
    add = result.add_argument
    add("--node-name", metavar="NAME", help="name of this node (default: $NODE_NAME, else the host's name)")
    add("--kubeconfig", metavar="FILE", help="login (default: the pod's service account, else $KUBECONFIG)")
    add("--data-dir", metavar="DIR", help="the one folder that is written to (default: /var/lib/headroom)")
    add("--host-root", metavar="DIR", help="where the machine's /proc and /sys are (default: /)")
    add("--replay", metavar="DIR", help="a recorded machine that moves; the same as --host-root")
    add("--proc", metavar="DIR", help="the machine's /proc, if not below --host-root")
    add("--cgroup-root", metavar="DIR", help="the machine's /sys/fs/cgroup, if not below --host-root")
    add("--collect-interval", metavar="TIME", help="time between two ticks (default: 1s)")
    add("--collectors", metavar="NAMES", help=f"which collectors run (default: {','.join(COLLECTORS)})")
    add("--pods-from", metavar="SOURCE", help="api, or cgroups for the tree alone (default: api)")
    add("--training-interval", metavar="TIME", help="time between two training rounds (default: 30s)")
    add("--checkpoint-interval", metavar="TIME", help="how often what was learned is saved (default: 60s)")
    add("--report-after", metavar="TIME", help="time before the first report (default: 10s)")
    add("--store-raw", metavar="TIME", help="how long every sample is kept (default: 4h)")
    add("--store-max-mib", metavar="MIB", help="hard bound of the database's size (default: 256)")
    add("--listen", metavar="ADDRESS", help="address of /healthz and /metrics (default: 127.0.0.1:9316)")
    add("--standalone", action="store_const", const="true", help="no API server: print and serve the NodeMetric")
    add("--once", action="store_const", const="true", help="standalone: stop after the first report")
    add("--inspect-store", action="store_const", const="true", help="print what the database holds, and stop")
    add("--log-format", metavar="FORMAT", help="text or json (default: text)")
    add("--log-level", metavar="LEVEL", help="debug, info, warning or error (default: info)")
    return result


def load(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> AgentSettings:
    """Settings from the command line, else from the environment, else the defaults.

    Raises:
        WrongSetting: One of them cannot be used.
        SystemExit: ``--help``.
    """
    environment = os.environ if environment is None else environment
    given = _Given(vars(parser().parse_args(arguments)), environment)
    store = StoreSettings()
    raw_seconds = int(given.duration("store_raw", store.raw_seconds))
    standalone, once = given.flag("standalone"), given.flag("once")
    if once and not standalone:
        raise WrongSetting(f"{_flag('once')} stops after the report that --standalone prints: give both")
    try:
        store = StoreSettings(raw_seconds=raw_seconds, max_bytes=given.whole("store_max_mib", 256) * _MIB)
    except ValueError as error:
        raise WrongSetting(f"--store-max-mib or --store-raw: {error}") from error
    return AgentSettings(
        node_name=given.text("node_name", environment.get("NODE_NAME") or socket.gethostname()),
        collect=CollectSettings(
            paths=_paths(given),
            interval_seconds=given.duration("collect_interval", 1.0),
            collectors=given.names("collectors", tuple(COLLECTORS)),
            pods_from=given.choice("pods_from", "cgroups" if standalone else "api", ("api", "cgroups")),
        ),
        data_dir=Path(given.text("data_dir", "/var/lib/headroom")),
        store=store,
        learn=LearnSettings(
            interval_seconds=given.duration("training_interval", 30.0),
            checkpoint_seconds=given.duration("checkpoint_interval", 60.0),
        ),
        report=ReportSettings(first_after_seconds=given.duration("report_after", 10.0)),
        kubeconfig=given.text("kubeconfig", "") or None,
        listen=given.address("listen", ("127.0.0.1", 9316)),
        standalone=standalone,
        once=once,
        inspect_store=given.flag("inspect_store"),
        log_format=given.choice("log_format", "text", ("text", "json")),
        log_level=given.choice("log_level", "info", ("debug", "info", "warning", "error")),
    )


class _Given:
    """What the user gave, by setting; complains in one line."""

    def __init__(self, flags: Mapping[str, str | None], environment: Mapping[str, str]) -> None:
        self._flags = flags
        self._environment = environment

    def text(self, name: str, default: str) -> str:
        """What was given; an empty variable is the same as none."""
        flag = self._flags.get(name)
        if flag == "":
            raise WrongSetting(f"{_flag(name)} must not be empty")
        return flag or self._environment.get(ENV_PREFIX + name.upper()) or default

    def flag(self, name: str) -> bool:
        return self.choice(name, "false", ("true", "false", "1", "0")) in ("true", "1")

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        text = self.text(name, default).lower()
        if text not in allowed:
            raise WrongSetting(f"{_flag(name)} must be one of {', '.join(allowed)}, got: {text!r}")
        return text

    def duration(self, name: str, default: float) -> float:
        text = self.text(name, "")
        if not text:
            return default
        try:
            seconds = float(text) if text.replace(".", "", 1).isdecimal() else parse_duration(text)
        except ValueError:
            raise WrongSetting(f"{_flag(name)} must be a time such as 500ms, 1s or 5m, got: {text!r}") from None
        if not 0.05 <= seconds <= 366 * 86400:  # noqa: PLR2004 - the bounds that the message names
            raise WrongSetting(f"{_flag(name)} must be between 50ms and a year, got: {text!r}")
        return seconds

    def whole(self, name: str, default: int) -> int:
        text = self.text(name, str(default))
        if not text.isdecimal():
            raise WrongSetting(f"{_flag(name)} must be a whole number, got: {text!r}")
        return int(text)

    def names(self, name: str, known: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(part.strip() for part in self.text(name, ",".join(known)).split(",") if part.strip())
        unknown = [one for one in names if one not in known]
        if unknown or not names:
            raise WrongSetting(f"{_flag(name)} must name some of {', '.join(known)}, got: {', '.join(unknown)!r}")
        return names

    def address(self, name: str, default: tuple[str, int]) -> tuple[str, int]:
        text = self.text(name, "")
        if not text:
            return default
        host, separator, port = text.rpartition(":")
        if not separator or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the highest port
            raise WrongSetting(f"{_flag(name)} must be HOST:PORT or :PORT, got: {text!r}")
        return host.strip("[]"), int(port)


def _paths(given: _Given) -> HostPaths:
    paths = HostPaths.under(given.text("replay", "") or given.text("host_root", "/"))
    proc, cgroup = given.text("proc", ""), given.text("cgroup_root", "")
    return HostPaths(Path(proc) if proc else paths.proc, Path(cgroup) if cgroup else paths.cgroup)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')} (or {ENV_PREFIX}{name.upper()})"
