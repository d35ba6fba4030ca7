"""A plugin's name -> its class -> a checked object of it: our own plugins, and those that others have installed.

Another distribution announces a plugin as an entry point of the group ``headroom.scheduler_plugins``: a frozen
dataclass with its arguments as fields, which implements protocols of `framework.plugin`.
"""

import dataclasses
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from scheduler_plugins.arguments import ArgumentError, nearest, read, shown
from scheduler_plugins.framework.plugin import (
    Configurable,
    FilterPlugin,
    PostFilterPlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from scheduler_plugins.plugins import PLUGINS

ENTRY_POINT_GROUP: Final = "headroom.scheduler_plugins"  # where other distributions announce plugins

_TAKES_PART: Final = (PreFilterPlugin, FilterPlugin, ScorePlugin, PostFilterPlugin, ReservePlugin)
_ROOT: Final = re.compile(r"[.\[:]")  # ends the name of an argument in a path into it
_UPSTREAM_ARGS: Final = "kubescheduler.config.k8s.io/"


def known() -> list[str]:
    return [*PLUGINS, *sorted(_announced().keys() - PLUGINS.keys())]


@cache
def _announced() -> Mapping[str, EntryPoint]:
    """Return the plugins of other distributions; reading all distributions takes a while."""
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def build(name: str, arguments: object, path: str) -> Any:  # noqa: ANN401 - a class that only the registry knows
    """The plugin of that name with these arguments, defaults filled in.

    Raises ArgumentError: the arguments do not fit, or the plugin itself cannot be used; all mistakes.
    """
    kind, origin = _resolve(name, path)
    mistakes: list[str] = []
    arguments = _without_head(name, arguments, path, mistakes)
    try:
        plugin = read(kind, arguments, path, mistakes)
        if isinstance(plugin, Configurable):
            plugin = plugin.defaulted()
            # An unreadable argument has its default, and causes no further errors.
            unread = {_ROOT.split(mistake.removeprefix(f"{path}."))[0] for mistake in mistakes}
            problems = [problem for problem in plugin.problems() if _ROOT.split(problem.field)[0] not in unread]
            mistakes += [f"{path}.{problem.field}: {problem.message}" for problem in problems]
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ArgumentError([*mistakes, f"{path}: plugin {name}{origin} fails with these arguments: {why}"]) from error
    if plugin is not None and not isinstance(plugin, _TAKES_PART):
        mistakes.append(f"{path}: plugin {name}{origin} has neither of filter, score, pre_filter, post_filter, reserve")
    if mistakes:
        raise ArgumentError(mistakes)
    return plugin


def _without_head(name: str, arguments: object, path: str, mistakes: list[str]) -> object:
    """Return the arguments without upstream's `apiVersion` and `kind`; wrong ones of those are mistakes."""
    if not isinstance(arguments, Mapping):
        return arguments
    version, kind = arguments.get("apiVersion"), arguments.get("kind")
    if version is not None and not (isinstance(version, str) and version.startswith(_UPSTREAM_ARGS)):
        mistakes.append(f"{path}.apiVersion: {shown(version)}: must be {_UPSTREAM_ARGS}v1, or left out")
    if kind is not None and kind != f"{name}Args":
        mistakes.append(f"{path}.kind: {shown(kind)}: must be {name}Args, or left out")
    return {key: value for key, value in arguments.items() if key not in ("apiVersion", "kind")}


def _resolve(name: str, path: str) -> tuple[type[Any], str]:
    """A plugin's class, and where it comes from if it is not ours."""
    target = PLUGINS.get(name)
    if target is not None:
        return pkgutil.resolve_name(target), ""
    announced = _announced().get(name)
    if announced is None:
        raise ArgumentError([f'{path}: "{name}" is not a plugin; {nearest(name, known())}'])
    distribution = f" of {announced.dist.name}" if announced.dist else ""
    origin = f" ({announced.value}{distribution})"
    try:
        kind = announced.load()
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ArgumentError([f"{path}: plugin {name}{origin} cannot be loaded: {why}"]) from error
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        raise ArgumentError([f"{path}: plugin {name}{origin} is not a dataclass"])
    return kind, origin
