"""The agent's settings, one dataclass per stage. Flags, variables, checks and help are made from their fields."""

import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.collectors import COLLECTORS
from agent.host.procfs import HostPaths
from agent.prediction.policy import PATH, resolve
from agent.predictors import PolicyError
from agent.tsdb.settings import StoreSettings
from crds.codec import CodecError, from_json, to_json
from crds.predict_policy import PredictPolicy
from headroom.cluster.templates import Template
from headroom.runtime import options
from headroom.runtime.option_types import (
    ADDRESS,
    FILE,
    FOLDER,
    NAME,
    SWITCH,
    Kind,
    choice,
    duration,
    names,
    number,
    whole,
)
from headroom.runtime.options import WrongSetting, setting

PROG = "headroom-agent"
USAGE = f"{PROG} [FLAG ...]\n       {PROG} COMMAND ..."
ABOUT = "Measures this node and its pods, predicts their peak, and reports it as a NodeMetric."
MORE = """\
Every flag can also be set in the environment: --data-dir as HEADROOM_AGENT_DATA_DIR, and so on; a flag wins.
Commands, each with a --help of its own:
"""
SYSTEM_DATA_DIR = Path("/var/lib/headroom")
_DAY = 86400.0
_HOUR = 3600.0
_LABEL = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def _policy(text: str) -> PredictPolicy:
    try:
        policy = from_json(PredictPolicy, json.loads(text))
        resolve(policy)
        unknown = {name for part in (policy, policy.cpu, policy.memory) if part is not None for name in part.unknown}
    except CodecError as error:
        raise ValueError(f"must be a prediction policy: {error}") from None
    except PolicyError as error:
        raise ValueError(f"cannot be followed: {str(error).removeprefix(f'{PATH}.')}") from None
    except (ValueError, RecursionError):
        raise ValueError('must be a prediction policy as JSON, such as {"model": "recent-max"}') from None
    if unknown:
        raise ValueError(f"must be a prediction policy, which has no {', '.join(sorted(unknown))}")
    return policy


POLICY = Kind("JSON", _policy, lambda policy: json.dumps(to_json(policy)))
"""A prediction policy that can be followed."""


def _templates(text: str) -> tuple[Template, ...]:
    parts = [tuple(key.strip() for key in part.split("+")) for part in text.split(",") if part.strip()]
    wrong = next((key for part in parts for key in part if not _LABEL.fullmatch(key)), None)
    if wrong is not None:
        raise ValueError(f"must name labels of pods, such as example.com/pipeline+example.com/step; {wrong!r} is none")
    return tuple(Template(part[0], part) for part in parts)


WORKLOAD_LABELS = Kind(
    "LABELS", _templates, lambda rows: ",".join("+".join(row.keys) for row in rows), may_be_empty=True
)
"""Labels that name the templates of pods."""


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """Collecting."""

    interval_seconds: float = setting(1.0, flag="collect-interval", kind=duration(0.05, _HOUR))
    """Time between two ticks (CollectInterval). [s]"""
    collectors: tuple[str, ...] = setting(tuple(COLLECTORS), flag="collectors", kind=names(tuple(COLLECTORS)))
    """Which collectors run, separated by commas."""
    pods_from: str = setting("api", flag="pods-from", kind=choice("api", "cgroups", metavar="SOURCE"))
    """Where the pods come from: ``api`` (a watch) or ``cgroups`` (the tree alone; always so when standalone)."""
    host_root: Path = setting(Path("/"), flag="host-root", kind=FOLDER)
    """Where the machine's /proc and /sys are: a mount of the host, or a recorded machine that moves."""
    proc: Path | None = setting(None, flag="proc", kind=FOLDER)
    """The machine's /proc, if it is not below --host-root."""
    cgroup_root: Path | None = setting(None, flag="cgroup-root", kind=FOLDER)
    """The machine's /sys/fs/cgroup, if it is not below --host-root."""

    @property
    def paths(self) -> HostPaths:
        usual = HostPaths.under(self.host_root)
        return HostPaths(self.proc or usual.proc, self.cgroup_root or usual.cgroup)


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Learning."""

    interval_seconds: float = setting(30.0, flag="training-interval", kind=duration(0.05, _HOUR))
    """Time between two training rounds (HistogramUpdateInterval); at least the collect interval. [s]"""
    checkpoint_seconds: float = setting(60.0, flag="checkpoint-interval", kind=duration(0.05, _DAY))
    """Interval of checkpoints. [s] A crash costs this much learning, which the samples make up for."""
    catch_up_seconds: float = setting(_HOUR, flag="training-catch-up", kind=duration(0.05, 7 * _DAY))
    """After a restart, this much of the store is learned again; older seconds are left out. [s]"""
    pod_grace_seconds: float = setting(900.0, flag="pod-grace", kind=duration(0.05, _DAY))
    """A pod that is gone counts this long in its class's recent sums. [s]"""
    workload_seconds: float = setting(7 * _DAY, flag="remember-workloads", kind=duration(1.0))
    """A workload without a pod on this node is remembered this long. [s]"""
    workloads: int = setting(200, flag="most-workloads", kind=whole(0, 10_000))
    """At most so many workloads without a pod are remembered. Those that started on one day alone, and were observed
    for less than a day, are forgotten first; then the ones longest gone."""
    workload_labels: tuple[Template, ...] = setting((), flag="workload-labels", kind=WORKLOAD_LABELS, shown="")
    """Labels that name the template of pods that run once, besides the known ones (Argo, Tekton, CI runners); the first
    that a pod has is its workload. Separated by commas, and ``+`` between labels that name a template together."""
    predict_policy: PredictPolicy | None = setting(None, flag="predict-policy", kind=POLICY, shown="the built-in one")
    """The prediction policy while no spec.predictPolicy was ever seen, or it is {}: JSON with the same keys."""


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Reporting."""

    first_after_seconds: float = setting(10.0, flag="report-after", kind=duration(0.0, _HOUR))
    """Time from the start to the first report, up to twice that: each node at its own moment. [s]"""
    jitter: float = setting(0.1, flag="report-jitter", kind=number(0.0, 0.5))
    """Each wait after a failure is longer or shorter by up to this share: agents do not come back together."""
    longest_backoff_seconds: float = setting(30.0, flag="report-longest-backoff", kind=duration(1.0, _HOUR))
    """The longest wait between two tries while the API server is away or the NodeMetric does not exist. [s]"""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Health, metrics, log."""

    listen: tuple[str, int] = setting(("127.0.0.1", 9316), flag="listen", kind=ADDRESS)
    """Address of /healthz, /readyz, /livez and /metrics; port 0 for any that is free."""
    unhealthy_after_seconds: float = setting(15.0, flag="unhealthy-after", kind=duration(1.0, _HOUR))
    """/healthz fails when no tick was made for this long (at least three ticks' time). [s]"""
    unready_after_seconds: float = setting(300.0, flag="unready-after", kind=duration(0.0, _DAY))
    """/readyz fails when samples could not be written for this long: a restart would lose the samples in memory. [s]"""
    log_format: str = setting("text", flag="log-format", kind=choice("text", "json", metavar="FORMAT"))
    """Form of the log on standard error: ``text`` or ``json``, one event per line."""
    log_level: str = setting(
        "info", flag="log-level", kind=choice("debug", "info", "warning", "error", metavar="LEVEL")
    )
    """The least severe message that is logged: ``debug``, ``info``, ``warning`` or ``error``."""


@dataclass(frozen=True, slots=True)
class DisplaySettings:
    """Without a cluster."""

    standalone: bool = setting(False, flag="standalone", kind=SWITCH)
    """No API server: show the usage of this machine and its pods, the prediction, and the reclaimable amounts."""
    once: bool = setting(False, flag="once", kind=SWITCH)
    """With --standalone: stop after the first report, in YAML with the Node; nothing is served."""
    output: str = setting("table", flag="output", kind=choice("table", "json", "yaml", metavar="FORMAT"), letter="o")
    """With --standalone: ``table`` for people, ``json`` or ``yaml`` for the NodeMetric."""
    refresh_seconds: float | None = setting(
        None, flag="refresh", kind=duration(0.1, _DAY), shown="1s on a terminal, else 1m"
    )
    """With --standalone: interval of the output. [s]"""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """General."""

    node_name: str = setting(
        flag="node-name",
        kind=NAME,
        factory=socket.gethostname,
        shown="$NODE_NAME, else the host's name",
        variables=("NODE_NAME",),
    )
    """Name of this node, and of its NodeMetric."""
    kubeconfig: str | None = setting(
        None, flag="kubeconfig", kind=FILE, shown="the pod's service account, else $KUBECONFIG or ~/.kube/config"
    )
    """Login to the API server."""
    data_dir: Path = setting(
        SYSTEM_DATA_DIR,
        flag="data-dir",
        kind=FOLDER,
        shown=f"{SYSTEM_DATA_DIR}; with --standalone $XDG_STATE_HOME/headroom or ~/.local/state/headroom",
    )
    """The one folder that is written to."""
    stop_seconds: float = setting(1.8, flag="stop-within", kind=duration(0.05, 300.0))
    """A clean stop that takes longer is cut short; the samples are safe then, too. [s]"""
    display: DisplaySettings = field(default_factory=DisplaySettings)
    """Without a cluster."""
    collect: CollectSettings = field(default_factory=CollectSettings)
    """Collecting."""
    store: StoreSettings = field(default_factory=StoreSettings)
    """Keeping."""
    train: TrainSettings = field(default_factory=TrainSettings)
    """Learning."""
    report: ReportSettings = field(default_factory=ReportSettings)
    """Reporting."""
    serve: ServeSettings = field(default_factory=ServeSettings)
    """Health, metrics, log."""

    @property
    def database(self) -> Path:
        return self.data_dir / "agent.db"


def load(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None, commands: str = ""
) -> AgentSettings:
    """Settings from the command line, else from the environment, else the defaults.

    Raises WrongSetting: one of them cannot be used. SystemExit: ``--help``.
    """
    environment = os.environ if environment is None else environment
    settings, given = options.load(
        AgentSettings, PROG, arguments, environment, usage=USAGE, description=ABOUT, epilog=MORE + commands
    )
    _check(settings)
    return _standalone(settings, given, environment) if settings.display.standalone else settings


def state_dir(environment: Mapping[str, str]) -> Path:
    """Return the folder for the data of a user's own programs: $XDG_STATE_HOME, else ~/.local/state."""
    stated = environment.get("XDG_STATE_HOME", "")
    home = Path(environment.get("HOME") or "/")
    return (Path(stated) if Path(stated).is_absolute() else home / ".local/state") / "headroom"


def _check(settings: AgentSettings) -> None:
    """Checks across fields."""
    display = settings.display
    if display.once and not display.standalone:
        raise WrongSetting(f"{_named('once')} stops after what --standalone shows: give both")
    if display.output != "table" and not display.standalone:
        raise WrongSetting(f"{_named('output')} is about what --standalone shows: give both")
    if settings.train.interval_seconds < settings.collect.interval_seconds:
        raise WrongSetting(
            f"{_named('training-interval')} must be at least --collect-interval "
            f"({settings.collect.interval_seconds:g}s), got: '{settings.train.interval_seconds:g}s'"
        )


def _standalone(settings: AgentSettings, given: AbstractSet[str], environment: Mapping[str, str]) -> AgentSettings:
    """The defaults of an agent without a cluster: it needs no rights and disturbs no agent that serves one."""
    if "pods-from" in given and settings.collect.pods_from != "cgroups":
        raise WrongSetting(
            f"{_named('pods-from')} must be cgroups with --standalone, got: {settings.collect.pods_from!r}"
        )
    data_dir = settings.data_dir if "data-dir" in given else state_dir(environment)
    return replace(settings, collect=replace(settings.collect, pods_from="cgroups"), data_dir=data_dir)


def _named(flag: str) -> str:
    return options.named(PROG, flag)
