"""The extender's settings: flags and the profile. Everything is checked at start, and all mistakes are told at once."""

import argparse
import os
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml

from scheduler_plugins.arguments import ArgumentError, decode, nearest
from scheduler_plugins.extender.service import Answering, Mode
from scheduler_plugins.framework.cycle import Enabled
from scheduler_plugins.framework.plugin import Configurable, LoadAccounting
from scheduler_plugins.plugins import PLUGINS
from scheduler_plugins.snapshot.estimate import LoadRules
from service import logs

API_VERSION: Final = "headroom.dev/v1alpha1"
"""Version of the profile's format."""
KIND: Final = "HeadroomSchedulerConfiguration"
"""Kind of the profile."""
DEFAULT_PROFILE: Final = Path(__file__).with_name("profile.yaml")
"""The profile that is in force when none is given."""

_LONGEST_SHORTLIST: Final = 64
_LONGEST_FOR_PREFERENCES: Final = 1000
_HIGHEST_PORT: Final = 65535


class SettingsError(ValueError):
    """Settings that cannot be used; the message names each mistake."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What the extender does."""

    enabled: Sequence[Enabled]
    """The plugins, in the order in which they filter."""
    answering: Answering = field(default_factory=Answering)
    """Mode and sizes of the answers."""
    in_flight_seconds: float = 30.0
    """How long a pod that was answered for and then not heard of stays charged. [s]"""

    @property
    def load_rules(self) -> LoadRules:
        """How load is counted: as the plugin says that does, else by default."""
        return next(
            (part.plugin.load_rules() for part in self.enabled if isinstance(part.plugin, LoadAccounting)), LoadRules()
        )


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


def load_profile(path: Path, mode: str | None = None) -> Profile:
    """Read a profile.

    Args:
        path: the YAML file.
        mode: overrides the profile's mode.

    Raises:
        SettingsError: it cannot be read, or says something that is not understood; names every mistake.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SettingsError(f"The profile {path} cannot be read: {why}") from error
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())
        raise SettingsError(f"The profile {path} is not YAML: {where}") from error
    mistakes: list[str] = []
    profile = _profile(data, mistakes)
    if mistakes or profile is None:
        lines = "".join(f"\n  {mistake}" for mistake in mistakes)
        raise SettingsError(f"The profile {path} cannot be used:{lines}")
    return profile if mode is None else replace(profile, answering=replace(profile.answering, mode=Mode(mode)))


_TOP: Final = {"apiVersion", "kind", "mode", "shortlist", "inFlightSeconds", "plugins"}


def _profile(data: object, mistakes: list[str]) -> Profile | None:
    if not isinstance(data, Mapping):
        mistakes.append(f"it is not an object with apiVersion: {API_VERSION} and kind: {KIND}")
        return None
    _known(data, _TOP, "", mistakes)
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if data.get(key) != expected:
            mistakes.append(f"{key}: {data.get(key)!r}: must be {expected}")
    return Profile(
        enabled=_plugins(data.get("plugins"), mistakes),
        answering=_answering(data, mistakes),
        in_flight_seconds=_number(data, "inFlightSeconds", 30.0, (1, 3600), "", mistakes),
    )


def _answering(data: Mapping[str, Any], mistakes: list[str]) -> Answering:
    mode = data.get("mode", Mode.SHORTLIST.value)
    if mode not in list(Mode):
        mistakes.append(f"mode: {mode!r}: must be {' or '.join(Mode)}")
        mode = Mode.SHORTLIST
    sizes = data.get("shortlist") or {}
    if not isinstance(sizes, Mapping):
        mistakes.append(f"shortlist: {sizes!r} is not an object")
        sizes = {}
    _known(sizes, {"size", "sizeForPreferences"}, "shortlist.", mistakes)
    size = _number(sizes, "size", 8, (1, _LONGEST_SHORTLIST), "shortlist.", mistakes, whole=True)
    larger = _number(sizes, "sizeForPreferences", 64, (1, _LONGEST_FOR_PREFERENCES), "shortlist.", mistakes, whole=True)
    return Answering(Mode(mode), int(size), int(larger))


def _plugins(data: object, mistakes: list[str]) -> tuple[Enabled, ...]:
    if not isinstance(data, list) or not data:
        mistakes.append("plugins: must be a list of at least one plugin, as in - name: LoadAwareScheduling")
        return ()
    enabled = [part for index, entry in enumerate(data) if (part := _plugin(entry, f"plugins[{index}]", mistakes))]
    named = [part.name for part in enabled]
    mistakes.extend(f"plugins: {name} is listed twice" for name in sorted({n for n in named if named.count(n) > 1}))
    return tuple(enabled)


def _plugin(entry: object, path: str, mistakes: list[str]) -> Enabled | None:
    if not isinstance(entry, Mapping):
        mistakes.append(f"{path}: {entry!r} is not an object with a name")
        return None
    _known(entry, {"name", "weight", "args"}, f"{path}.", mistakes)
    weight = _number(entry, "weight", 1.0, (0, 100), f"{path}.", mistakes)
    name = str(entry.get("name"))
    if name not in PLUGINS:
        mistakes.append(f'{path}.name: "{name}" is not a plugin; {nearest(name, PLUGINS)}')
        return None
    try:
        plugin = decode(pkgutil.resolve_name(PLUGINS[name]), entry.get("args") or {}, f"{path}.args")
    except ArgumentError as error:
        mistakes.extend(error.mistakes)
        return None
    if isinstance(plugin, Configurable):
        plugin = plugin.defaulted()
        mistakes.extend(f"{path}.args.{problem.field}: {problem.message}" for problem in plugin.problems())
    return Enabled(name, weight, plugin)


def _known(data: Mapping[str, Any], names: set[str], path: str, mistakes: list[str]) -> None:
    mistakes.extend(f"{path}{name}: unknown; {nearest(str(name), names)}" for name in data if name not in names)


def _number(
    data: Mapping[str, Any],
    name: str,
    default: float,
    allowed: tuple[float, float],
    path: str,
    mistakes: list[str],
    *,
    whole: bool = False,
) -> float:
    value = data.get(name, default)
    low, high = allowed
    if type(value) not in ((int,) if whole else (int, float)) or not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        mistakes.append(f"{path}{name}: {value!r}: must be {kind} from {low:g} to {high:g}")
        return default
    return float(value)


def parse_flags(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Read flags, and environment variables `HEADROOM_SCHEDULER_<FLAG>` in place of those not given.

    Raises:
        SettingsError: a value or the profile cannot be used.
        SystemExit: argparse's own, for --help and unknown flags.
    """
    flags = _parser(environment).parse_args(arguments)
    host, port = _address(flags.listen)
    if flags.mode not in (None, *Mode):
        raise SettingsError(f"--mode {flags.mode}: must be {' or '.join(Mode)}")
    for flag, given, allowed in (
        ("--log-format", flags.log_format, logs.FORMS),
        ("--log-level", flags.log_level, logs.LEVELS),
    ):
        if given not in allowed:
            raise SettingsError(f"{flag} {given}: must be {', '.join(allowed[:-1])} or {allowed[-1]}")
    return Settings(
        kubeconfig=flags.kubeconfig,
        profile=load_profile(Path(flags.profile), flags.mode),
        host=host,
        port=port,
        stale_seconds=_seconds("--stale-after", flags.stale_after),
        log_format=flags.log_format,
        log_level=flags.log_level,
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
    add("--profile", str(DEFAULT_PROFILE), f"YAML file of kind {KIND}")
    add("--listen", "127.0.0.1:9820", "address and port for kube-scheduler's requests, /healthz and /metrics")
    add("--mode", None, "shortlist or weighted, in place of the profile's")
    add("--stale-after", "180s", "fail /healthz when the API server has not been heard for this long")
    add("--log-format", "text", "text or json")
    add("--log-level", "info", "the least severe message that is logged: debug, info, warning or error")
    return parser


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) <= _HIGHEST_PORT:
        raise SettingsError(f"--listen {text}: must be an address and a port, as in 127.0.0.1:9820")
    return host.strip("[]"), int(port)


def _seconds(flag: str, text: str) -> float:
    number = text.removesuffix("s")
    if not number.isdecimal() or int(number) == 0:
        raise SettingsError(f"{flag} {text}: must be a number of seconds, as in 180s")
    return float(number)
