"""The extender's settings: flags, and the profile that they name. Everything is checked at start."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from headroom.kube.lease import LeaseName
from headroom.runtime import logs, options
from headroom.runtime.http import ServerTls
from headroom.runtime.option_types import ADDRESS, FILE, PEM, SWITCH, TEXT, Kind, choice, duration
from headroom.runtime.options import WrongSetting, setting
from scheduler_plugins.extender.service import Mode
from scheduler_plugins.profile import DEFAULT_PROFILE, Profile, ProfileError, load_profile

PROG: Final = "headroom-scheduler"
ABOUT: Final = "An extender of kube-scheduler, in its pod: filters and scores nodes by real load."
MORE: Final = "Every flag can also be an environment variable: --stale-after is HEADROOM_SCHEDULER_STALE_AFTER."


def _lease(text: str) -> LeaseName:
    namespace, _, name = text.partition("/")
    if not (namespace and name) or "/" in name:
        raise ValueError("must be a namespace and a name, as in kube-system/kube-scheduler")
    return LeaseName(namespace, name)


_LEASE: Final = Kind("NAMESPACE/NAME", _lease)
_NAMES: Final = Kind("NAMES", lambda text: tuple(filter(None, map(str.strip, text.split(",")))), ",".join)


@dataclass(frozen=True, slots=True)
class Settings:
    """General."""

    kubeconfig: str | None = setting(
        None, flag="kubeconfig", kind=FILE, shown="the pod's service account, else $KUBECONFIG or ~/.kube/config"
    )
    """Login to the API server."""
    profile_file: Path = setting(DEFAULT_PROFILE, flag="profile", kind=Kind("FILE", Path), shown="the built-in one")
    """YAML file of kind HeadroomSchedulerConfiguration or KubeSchedulerConfiguration."""
    scheduler_name: str | None = setting(None, flag="scheduler-name", kind=TEXT)
    """Which of the profiles of a KubeSchedulerConfiguration; not needed when it has one."""
    mode: str | None = setting(None, flag="mode", kind=choice(*Mode, metavar="MODE"))
    """``shortlist`` or ``weighted``, in place of the profile's."""
    check: bool = setting(False, flag="check", kind=SWITCH)
    """Only print the resulting profile; exit code 2 if it is wrong."""
    listen: tuple[str, int] = setting(("127.0.0.1", 9820), flag="listen", kind=ADDRESS)
    """Address and port for kube-scheduler's requests, /healthz and /metrics. Loopback, because any client learns
    about the load of all nodes."""
    metrics_listen: tuple[str, int] | None = setting(None, flag="metrics-listen", kind=ADDRESS)
    """Address and port for /metrics and /healthz alone, as in :9821; off without."""
    watcher: bool = setting(False, flag="watcher", kind=SWITCH)
    """Serve load-watcher's protocol, GET /watcher, at the address of --metrics-listen, too."""
    stale_seconds: float = setting(180.0, flag="stale-after", kind=duration(1.0))
    """Fail /healthz after this time without a response of the API server. [s]"""
    http_timeout: float = setting(1.0, flag="http-timeout", kind=duration(0.1))
    """kube-scheduler's timeout: httpTimeout of its configuration. A request that takes longer is
    counted, and /healthz fails for five minutes. [s]"""
    leader_lease: LeaseName | None = setting(None, flag="leader-lease", kind=_LEASE)
    """kube-scheduler's Lease: this replica evicts and writes status of quotas only while its own kube-scheduler holds
    it; without it, always."""
    leader_identity: str = setting(flag="leader-identity", kind=TEXT, factory=socket.gethostname, shown="ours")
    """Host name under which this replica's kube-scheduler holds the Lease."""
    reclaim_for: tuple[str, ...] = setting(("headroom-scheduler",), flag="reclaim-for", kind=_NAMES)
    """Names of the schedulers whose pods reclaim borrowed resources, by commas; ``reclaim.schedulerNames`` of the
    profile goes before."""
    certificate: Path | None = setting(None, flag="tls-cert-file", kind=PEM)
    """PEM file with the certificate to serve HTTPS with, read again when it changes."""
    key: Path | None = setting(None, flag="tls-private-key-file", kind=PEM)
    """PEM file with its private key."""
    client_ca: Path | None = setting(None, flag="tls-client-ca-file", kind=PEM)
    """PEM file with the CA of client certificates; needs the two above."""
    log_format: str = setting("text", flag="log-format", kind=choice(*logs.FORMS, metavar="FORMAT"))
    """Form of the log on standard error: ``text`` or ``json``, one event per line."""
    log_level: str = setting("info", flag="log-level", kind=choice(*logs.LEVELS, metavar="LEVEL"))
    """The least severe message that is logged: ``debug``, ``info``, ``warning`` or ``error``."""
    profile: Profile = field(default_factory=lambda: Profile(()))
    """The subcommand."""

    def __post_init__(self) -> None:
        if (self.certificate or self.key or self.client_ca) and not (self.certificate and self.key):
            raise ValueError("give --tls-cert-file and --tls-private-key-file for HTTPS, or neither for HTTP")
        if self.watcher and self.metrics_listen is None:
            raise ValueError("--watcher needs --metrics-listen: that is where /watcher is served")

    @property
    def tls(self) -> ServerTls | None:
        """Certificates to serve with; None: plain HTTP."""
        return ServerTls(self.certificate, self.key, self.client_ca) if self.certificate and self.key else None


def load(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from the command line, else from the environment, else the defaults; and the profile.

    Raises WrongSetting: a value or the profile cannot be used; of the profile, every mistake; SystemExit: `--help`.
    """
    environment = os.environ if environment is None else environment
    settings, _ = options.load(Settings, PROG, arguments, environment, description=ABOUT, epilog=MORE)
    try:
        return replace(settings, profile=load_profile(settings.profile_file, settings.mode, settings.scheduler_name))
    except ProfileError as error:
        raise WrongSetting(str(error)) from error
