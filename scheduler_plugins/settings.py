"""The extender's settings: flags and the profile. Everything is checked at start, and all mistakes are told at once."""

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from headroom.kube.lease import LeaseName
from headroom.runtime import logs
from headroom.runtime.http import ServerTls
from headroom.runtime.text import joined
from scheduler_plugins.extender.service import Mode
from scheduler_plugins.profile import DEFAULT_PROFILE, KIND, Profile, ProfileError, load_profile
from scheduler_plugins.profile.upstream import KIND as UPSTREAM_KIND

_HIGHEST_PORT: Final = 65535


class SettingsError(ValueError):
    """Settings that cannot be used; the message names each mistake."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the flags say."""

    kubeconfig: str | None
    """Path of a kubeconfig; None: the pod's service account, else $KUBECONFIG or ~/.kube/config."""
    profile: Profile
    """What to do."""
    host: str
    """Address to listen on. Loopback by default: whoever can ask the extender learns about the load of all nodes."""
    port: int
    """Port to listen on."""
    stale_seconds: float
    """Health fails when the API server has not been heard for this long. [s]"""
    log_format: str
    """text or json."""
    log_level: str
    """The least severe message that is logged: debug, info, warning or error."""
    tls: ServerTls | None = None
    """Certificates to serve with; None: plain HTTP."""
    watcher: tuple[str, int] | None = None
    """Address and port to serve load-watcher's protocol on; None: it is not served."""
    metrics: tuple[str, int] | None = None
    """Address and port to serve /metrics and the health pages on besides; None: `host` and `port` alone have them."""
    leader_lease: LeaseName | None = None
    """kube-scheduler's own Lease: who holds it decides for the whole cluster; None: this is the only replica."""
    leader_identity: str = ""
    """Under which name this replica's kube-scheduler holds the Lease, up to the underscore: its host name."""
    reclaim_for: tuple[str, ...] = ("headroom-scheduler",)
    """For the pods of which schedulers borrowed resources are given back, where the profile names none."""
    check: bool = False
    """Whether only to say what the profile comes to, and end."""


def parse_flags(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Read flags, and environment variables `HEADROOM_SCHEDULER_<FLAG>` in place of those not given.

    Raises:
        SettingsError: a value or the profile cannot be used.
        SystemExit: argparse's own, for --help and unknown flags.
    """
    flags = _parser(environment).parse_args(joined(arguments))
    host, port = _address("--listen", flags.listen)
    if flags.mode not in (None, *Mode):
        raise SettingsError(f"--mode {flags.mode}: must be {' or '.join(Mode)}")
    for flag, given, allowed in (
        ("--log-format", flags.log_format, logs.FORMS),
        ("--log-level", flags.log_level, logs.LEVELS),
    ):
        if given not in allowed:
            raise SettingsError(f"{flag} {given}: must be {', '.join(allowed[:-1])} or {allowed[-1]}")
    try:
        profile = load_profile(Path(flags.profile), flags.mode, flags.scheduler_name)
    except ProfileError as error:
        raise SettingsError(str(error)) from error
    return Settings(
        kubeconfig=flags.kubeconfig,
        profile=profile,
        host=host,
        port=port,
        stale_seconds=_seconds("--stale-after", flags.stale_after),
        log_format=flags.log_format,
        log_level=flags.log_level,
        tls=_tls(flags.tls_cert_file, flags.tls_private_key_file, flags.tls_client_ca_file),
        watcher=_address("--watcher-listen", flags.watcher_listen) if flags.watcher_listen else None,
        metrics=_address("--metrics-listen", flags.metrics_listen) if flags.metrics_listen else None,
        leader_lease=_lease(flags.leader_lease),
        leader_identity=flags.leader_identity or socket.gethostname(),
        reclaim_for=tuple(filter(None, map(str.strip, flags.reclaim_for.split(",")))),
        check=flags.check,
    )


class _OneLine(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = _OneLine(
        prog="headroom-scheduler",
        description="Answers kube-scheduler: which nodes have the headroom for a pod. Runs beside it as an extender.",
        epilog="Every flag can also be an environment variable: --stale-after is HEADROOM_SCHEDULER_STALE_AFTER.",
        allow_abbrev=False,
    )

    def add(flag: str, default: str | None, text: str) -> None:
        variable = "HEADROOM_SCHEDULER_" + flag.strip("-").replace("-", "_").upper()
        shown = f" (default {default})" if default else ""
        parser.add_argument(flag, default=environment.get(variable, default), help=text + shown)

    add("--kubeconfig", None, "kubeconfig file; without it the pod's service account, $KUBECONFIG or ~/.kube/config")
    add("--profile", str(DEFAULT_PROFILE), f"YAML file of kind {KIND} or {UPSTREAM_KIND}")
    add("--scheduler-name", None, f"which of the profiles of a {UPSTREAM_KIND}; not needed when it has one")
    parser.add_argument("--check", action="store_true", help="only say what the profile comes to; 2 if it is wrong")
    add("--listen", "127.0.0.1:9820", "address and port for kube-scheduler's requests, /healthz and /metrics")
    add("--metrics-listen", None, "address and port for /metrics and /healthz alone, as in :9821; off without")
    add("--mode", None, "shortlist or weighted, in place of the profile's")
    add("--stale-after", "180s", "fail /healthz when the API server has not been heard for this long")
    add(
        "--watcher-listen", None, "address and port for GET /watcher, load-watcher's protocol, as in :2020; off without"
    )
    add(
        "--leader-lease",
        None,
        "kube-scheduler's Lease as NAMESPACE/NAME: this replica evicts and writes status of quotas only while its own "
        "kube-scheduler holds it; without it, always",
    )
    add(
        "--reclaim-for",
        "headroom-scheduler",
        "names of the schedulers whose pods get back what others borrowed, by commas; reclaim.schedulerNames of the "
        "profile goes before",
    )
    add("--leader-identity", None, "host name under which this replica's kube-scheduler holds the Lease; default: ours")
    add("--tls-cert-file", None, "PEM file with the certificate to serve HTTPS with, read again when it changes")
    add("--tls-private-key-file", None, "PEM file with its private key")
    add("--tls-client-ca-file", None, "PEM file with the CA whose certificates clients must show; needs the two above")
    add("--log-format", "text", "text or json")
    add("--log-level", "info", "the least severe message that is logged: debug, info, warning or error")
    return parser


def _address(flag: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) <= _HIGHEST_PORT:
        raise SettingsError(f"{flag} {text}: must be an address and a port, as in 127.0.0.1:9820")
    return host.strip("[]"), int(port)


def _tls(certificate: str | None, key: str | None, client_ca: str | None) -> ServerTls | None:
    if not (certificate or key or client_ca):
        return None
    if not (certificate and key):
        raise SettingsError("--tls-cert-file and --tls-private-key-file: give both for HTTPS, or neither for HTTP")
    return ServerTls(Path(certificate), Path(key), Path(client_ca) if client_ca else None)


def _lease(text: str | None) -> LeaseName | None:
    if not text:
        return None
    namespace, _, name = text.partition("/")
    if not (namespace and name) or "/" in name:
        raise SettingsError(f"--leader-lease {text}: must be a namespace and a name, as in kube-system/kube-scheduler")
    return LeaseName(namespace, name)


def _seconds(flag: str, text: str) -> float:
    number = text.removesuffix("s")
    if not number.isdecimal() or int(number) == 0:
        raise SettingsError(f"{flag} {text}: must be a number of seconds, as in 180s")
    return float(number)
