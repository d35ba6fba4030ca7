"""A plugin's name -> its class -> a checked object of it: our own plugins, and those that others have installed.

Another distribution announces a plugin as an entry point of the group ``headroom.scheduler_plugins``: a frozen
dataclass whose fields are its arguments, and which takes part in something of `framework.plugin`.
"""

import dataclasses
import pkgutil
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from scheduler_plugins.arguments import ArgumentError, decode, nearest, shown
from scheduler_plugins.framework.plugin import (
    Configurable,
    FilterPlugin,
    PostFilterPlugin,
    PreFilterPlugin,
    Problem,
    ReservePlugin,
    ScorePlugin,
)
from scheduler_plugins.plugins import PLUGINS

ENTRY_POINT_GROUP: Final = "headroom.scheduler_plugins"
"""Where other distributions announce plugins."""

_TAKES_PART: Final = (PreFilterPlugin, FilterPlugin, ScorePlugin, PostFilterPlugin, ReservePlugin)
_ROOT: Final = re.compile(r"[.\[]")
"""Ends the name of an argument in a path into it."""
_UPSTREAM_ARGS: Final = "kubescheduler.config.k8s.io/"


def known() -> list[str]:
    """The names of all plugins: ours, then others'."""
    return [*PLUGINS, *sorted(_announced().keys() - PLUGINS.keys())]


@cache
def _announced() -> Mapping[str, EntryPoint]:
    """What other distributions announce; looking through all that are installed takes a while."""
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def build(name: str, arguments: object, path: str) -> Any:  # noqa: ANN401 - a class that only the registry knows
    """The plugin of that name with these arguments, defaults filled in.

    Args:
        name: its name; one of `known`.
        arguments: its arguments as JSON; upstream's `apiVersion` and `kind` may head them.
        path: where they stand, for messages.

    Raises:
        ArgumentError: the arguments do not fit, or the plugin itself cannot be used; all mistakes.
    """
    kind, origin = _resolve(name, path)
    arguments, mistakes = _without_head(name, arguments, path)
    try:
        plugin = decode(kind, arguments, path)
        if isinstance(plugin, Configurable):
            plugin = plugin.defaulted()
            mistakes += _told(plugin.problems(), path)
    except ArgumentError as error:
        raise ArgumentError([*mistakes, *error.mistakes, *_of_the_rest(kind, arguments, path)]) from error
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ArgumentError([*mistakes, f"{path}: plugin {name}{origin} fails with these arguments: {why}"]) from error
    if not isinstance(plugin, _TAKES_PART):
        mistakes.append(f"{path}: plugin {name}{origin} has neither of filter, score, pre_filter, post_filter, reserve")
    if mistakes:
        raise ArgumentError(mistakes)
    return plugin


def _told(problems: Sequence[Problem], path: str) -> list[str]:
    return [f"{path}.{problem.field}: {problem.message}" for problem in problems]


def _of_the_rest(kind: type[Any], arguments: object, path: str) -> list[str]:
    """What else is wrong, with the arguments that can be read: all mistakes are told at once."""
    if not isinstance(arguments, Mapping):
        return []
    readable = {name: value for name, value in arguments.items() if _can_be_read(kind, {name: value})}
    if not _can_be_read(kind, readable):
        return []
    plugin = decode(kind, readable, path)
    problems = plugin.defaulted().problems() if isinstance(plugin, Configurable) else ()
    return _told([problem for problem in problems if _ROOT.split(problem.field)[0] in readable], path)


def _can_be_read(kind: type[Any], arguments: Mapping[Any, object]) -> bool:
    try:
        decode(kind, arguments, "")
    except ArgumentError:
        return False
    return True


def _without_head(name: str, arguments: object, path: str) -> tuple[object, list[str]]:
    """The arguments without upstream's `apiVersion` and `kind`, and what is wrong with those."""
    if not isinstance(arguments, Mapping):
        return arguments, []
    mistakes = []
    version, kind = arguments.get("apiVersion"), arguments.get("kind")
    if version is not None and not (isinstance(version, str) and version.startswith(_UPSTREAM_ARGS)):
        mistakes.append(f"{path}.apiVersion: {shown(version)}: must be {_UPSTREAM_ARGS}v1, or left out")
    if kind is not None and kind != f"{name}Args":
        mistakes.append(f"{path}.kind: {shown(kind)}: must be {name}Args, or left out")
    return {key: value for key, value in arguments.items() if key not in ("apiVersion", "kind")}, mistakes


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
