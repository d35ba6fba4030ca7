"""`kind: KubeSchedulerConfiguration`: a file for kube-scheduler with these plugins built in, read unchanged.

Ours are taken from `profiles[].plugins` and `pluginConfig`; kube-scheduler's own plugins and settings are ignored,
because kube-scheduler itself has them in its own configuration.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from headroom.runtime.removed import removed
from scheduler_plugins.arguments import nearest, shown
from scheduler_plugins.framework.cycle import Enabled
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.profile import registry
from scheduler_plugins.profile.fields import ValidationErrors
from scheduler_plugins.profile.model import Profile

KIND: Final = "KubeSchedulerConfiguration"  # kind of kube-scheduler's configuration
API_VERSIONS: Final = tuple(f"kubescheduler.config.k8s.io/{version}" for version in ("v1", "v1beta3", "v1beta2"))
"""The supported versions; they do not differ in the fields that are read here."""
DEFAULT_NAME: Final = "default-scheduler"  # name of a profile that has none
ALL: Final = "*"  # all plugins, in a list of disabled ones
MULTI_POINT: Final = "multiPoint"  # every extension point

POINTS: Final[Mapping[str, str]] = {
    "preFilter": "pre_filter",
    "filter": "filter",
    "score": "score",
    "postFilter": "post_filter",
}
"""kube-scheduler's extension points that an extender has, and our names for them."""
_OTHER_POINTS: Final = (
    *("preEnqueue", "queueSort", "preScore", "reserve", "permit", "preBind", "bind", "postBind"),
    *("placementGenerate", "placementScore"),
)
_TOP: Final = {
    *("apiVersion", "kind", "parallelism", "leaderElection", "clientConnection", "healthzBindAddress"),
    *("metricsBindAddress", "enableProfiling", "enableContentionProfiling", "percentageOfNodesToScore"),
    *("podInitialBackoffSeconds", "podMaxBackoffSeconds", "profiles", "extenders", "delayCacheUntilActive"),
}
_PROFILE: Final = {"schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"}
IN_TREE: Final = frozenset(
    (
        *("PrioritySort", "SchedulingGates", "DefaultBinder", "DefaultPreemption", "DynamicResources", "ImageLocality"),
        *("InterPodAffinity", "NodeAffinity", "NodeName", "NodePorts", "NodeResourcesFit", "NodeUnschedulable"),
        *("NodeResourcesBalancedAllocation", "NodeVolumeLimits", "PodTopologySpread", "TaintToleration"),
        *("VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeDeclaredFeatures", "GangScheduling"),
        *("PodGroupPodsCount", "TopologyPlacementGenerator"),
        # Of the versions before.
        *("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits", "SelectorSpread", "ServiceAffinity"),
        *("NodeLabel", "NodePreferAvoidPods", "NodeResourcesLeastAllocated", "NodeResourcesMostAllocated"),
        "RequestedToCapacityRatio",
    )
)
"""kube-scheduler's own plugins."""
_HEAVIEST: Final = 2**31 - 1
_PORT: Final = re.compile(r":9820(/|$)")  # where the extender listens by default


@dataclass(slots=True)
class _Listed:
    """Where one of our plugins is enabled."""

    everywhere: bool = False
    weight: float = 1.0
    points: dict[str, float] = field(default_factory=dict)  # extension point -> weight there


def parse(data: Mapping[str, Any], scheduler_name: str | None, errors: ValidationErrors) -> Profile:
    """Decode a configuration of this kind; its errors go to `errors`."""
    errors.unknown(data, _TOP, "")
    if data.get("apiVersion") not in API_VERSIONS:
        versions = ", ".join(API_VERSIONS)
        errors.mistakes.append(f"apiVersion: {shown(data.get('apiVersion'))}: must be one of {versions}")
    _check_extenders(data.get("extenders"), errors)
    profiles = errors.as_list(data.get("profiles"), "profiles")
    chosen = _choose(profiles, scheduler_name, errors)
    if chosen is None:
        return Profile(())
    path, profile = chosen
    errors.unknown(profile, _PROFILE, f"{path}.")
    sections = errors.as_object(profile.get("plugins"), f"{path}.plugins")
    errors.unknown(sections, {MULTI_POINT, *POINTS, *_OTHER_POINTS}, f"{path}.plugins.")
    reader = _Reader(f"{path}.plugins", errors)
    for point in (MULTI_POINT, *(name for name in sections if name != MULTI_POINT)):
        reader.section(point, sections.get(point))
    arguments = _plugin_config(profile.get("pluginConfig"), f"{path}.pluginConfig", errors)
    names, groups = _ignored(profile.get("pluginConfig"), data.get("extenders"))
    return Profile(tuple(_with_ignored(part, names, groups) for part in _enabled(reader, arguments, errors)))


def _ignored(plugin_config: object, extenders: object) -> tuple[Sequence[str], Sequence[str]]:
    """Return the resources, and the groups of them, that kube-scheduler's NodeResourcesFit ignores.

    kube-scheduler checks these fields: entries of another shape are left out.
    """
    names: list[str] = []
    groups: list[str] = []
    for part in _objects(plugin_config):
        args = part.get("args")
        if part.get("name") == "NodeResourcesFit" and isinstance(args, Mapping):
            names += _texts(args.get("ignoredResources"))
            groups += _texts(args.get("ignoredResourceGroups"))
    managed = (resource for extender in _objects(extenders) for resource in _objects(extender.get("managedResources")))
    names += _texts([resource.get("name") for resource in managed if resource.get("ignoredByScheduler") is True])
    return names, groups


def _objects(data: object) -> Iterator[Mapping[str, Any]]:
    return (entry for entry in (data if isinstance(data, list) else ()) if isinstance(entry, Mapping))


def _texts(data: object) -> Iterator[str]:
    return (entry for entry in (data if isinstance(data, list) else ()) if isinstance(entry, str))


def _with_ignored(part: Enabled, names: Sequence[str], groups: Sequence[str]) -> Enabled:
    plugin = part.plugin
    if not isinstance(plugin, CapacityScheduling):
        return part
    names = tuple(dict.fromkeys((*plugin.ignored_resources, *names)))
    groups = tuple(dict.fromkeys((*plugin.ignored_resource_groups, *groups)))
    return replace(part, plugin=replace(plugin, ignored_resources=names, ignored_resource_groups=groups))


def _check_extenders(data: object, errors: ValidationErrors) -> None:
    """Report an extender at Headroom's port that is sent full Node objects."""
    for index, entry in enumerate(errors.as_list(data, "extenders")):
        extender = errors.as_object(entry, f"extenders[{index}]")
        ours = _PORT.search(str(extender.get("urlPrefix") or ""))
        if ours and extender.get("nodeCacheCapable") is not True:
            path = f"extenders[{index}].nodeCacheCapable"
            errors.mistakes.append(f"{path}: {removed('argument', 'extenders.nodeCacheCapable')}")


def _choose(
    profiles: Sequence[Any], wanted: str | None, errors: ValidationErrors
) -> tuple[str, Mapping[str, Any]] | None:
    """The path and content of the profile of that name, else of the only one."""
    named = [errors.as_object(profile, f"profiles[{index}]") for index, profile in enumerate(profiles)]
    names = [str(profile.get("schedulerName") or DEFAULT_NAME) for profile in named]
    if not named:
        errors.mistakes.append("profiles: must be a list of at least one profile that enables a plugin of Headroom")
        return None
    if wanted is None:
        if len(named) > 1:
            listed = ", ".join(names)
            errors.mistakes.append(f"profiles: there are {len(named)} ({listed}): choose one by --scheduler-name")
            return None
        return "profiles[0]", named[0]
    places = [index for index, name in enumerate(names) if name == wanted]
    if len(places) != 1:
        how = "none" if not places else f"{len(places)} profiles"
        hint = "leave one" if places else nearest(wanted, names)
        errors.mistakes.append(f'profiles: {how} with schedulerName "{wanted}" (--scheduler-name); {hint}')
        return None
    passed = [name for name in names if name != wanted]
    if passed:
        errors.notes.append(f"profiles {', '.join(passed)}: ignored; --scheduler-name is {wanted}")
    return f"profiles[{places[0]}]", named[places[0]]


class _Reader:
    """Reads the sections of `plugins`, one extension point after the other."""

    def __init__(self, path: str, errors: ValidationErrors) -> None:
        self.listed: dict[str, _Listed] = {}  # our plugins by name, in the order of the file
        self.path = path  # the path of the sections
        self._problems = errors
        self._disabled: dict[str, set[str]] = {}
        self._known = registry.known()

    def section(self, point: str, data: object) -> None:
        """Read the section of an extension point."""
        path = f"{self.path}.{point}"
        section = self._problems.as_object(data, path)
        self._problems.unknown(section, {"enabled", "disabled"}, f"{path}.")
        off = self._problems.as_list(section.get("disabled"), f"{path}.disabled")
        disabled = {name for name, _ in self._names(off, f"{path}.disabled", "disabled")}
        self._disabled[POINTS.get(point, point)] = disabled
        on = self._problems.as_list(section.get("enabled"), f"{path}.enabled")
        names: set[str] = set()
        for name, weight in self._names(on, f"{path}.enabled", "enabled"):
            if name in names:
                self._problems.mistakes.append(f"{path}.enabled: {name} is listed twice: leave one")
            names.add(name)
            listed = self.listed.setdefault(name, _Listed())
            if point == MULTI_POINT:
                listed.everywhere, listed.weight = True, weight or 1.0
            else:
                listed.points[POINTS.get(point, point)] = weight

    def _names(self, entries: Sequence[Any], path: str, verb: str) -> Iterator[tuple[str, float]]:
        """Our plugins in a list, with their weights."""
        for index, entry in enumerate(entries):
            at = f"{path}[{index}]"
            part = self._problems.as_object(entry, at)
            self._problems.unknown(part, {"name", "weight"}, f"{at}.")
            weight = self._problems.number(part, "weight", 0.0, (0, _HEAVIEST), f"{at}.", whole=True)
            name = part.get("name")
            if not isinstance(name, str) or not name:
                self._problems.mistakes.append(f"{at}.name: {shown(name)}: must be the name of a plugin")
            elif name in self._known or (name == ALL and verb == "disabled"):
                yield name, weight
            elif name in IN_TREE:
                self._problems.notes.append(f"{at}: {name} is kube-scheduler's own, ignored")
            elif verb == "disabled":
                self._problems.notes.append(f"{at}: {name} is not a plugin of Headroom: nothing to disable")
            else:
                self._problems.mistakes.append(
                    f'{at}.name: "{name}" is not a plugin of Headroom or kube-scheduler; {nearest(name, self._known)}'
                )

    def enabled(self, name: str) -> tuple[frozenset[str], float]:
        """Return a plugin's extension points and weight: multiPoint, less disabled points, plus enabled ones."""
        listed = self.listed[name]
        points = set(listed.points)
        if listed.everywhere:
            points |= {point for point in POINTS.values() if not self._disabled.get(point, set()) & {ALL, name}}
        return frozenset(points & set(POINTS.values())), listed.points.get("score") or listed.weight


def _plugin_config(data: object, path: str, errors: ValidationErrors) -> Mapping[str, tuple[str, object]]:
    """The arguments of our plugins, with their paths."""
    result: dict[str, tuple[str, object]] = {}
    plugins = registry.known()
    for index, entry in enumerate(errors.as_list(data, path)):
        at = f"{path}[{index}]"
        part = errors.as_object(entry, at)
        errors.unknown(part, {"name", "args"}, f"{at}.")
        name = part.get("name")
        if not isinstance(name, str) or not name:
            errors.mistakes.append(f"{at}.name: {shown(name)}: must be the name of a plugin")
        elif name in result:
            named = [errors.plugin(name, args, where) for where, args in (result[name], (at, part.get("args")))]
            errors.twice(name, named, path)
        elif name in plugins:
            result[name] = f"{at}.args", part.get("args")
        elif name in IN_TREE:
            errors.notes.append(f"{at}: {name} is kube-scheduler's own, ignored")
        else:
            errors.mistakes.append(
                f'{at}.name: "{name}" is not a plugin of Headroom or of kube-scheduler; {nearest(name, plugins)}'
            )
    return result


def _enabled(
    reader: _Reader, arguments: Mapping[str, tuple[str, object]], errors: ValidationErrors
) -> Iterator[Enabled]:
    for name in reader.listed:
        path, given = arguments.get(name, (f"{reader.path} {name}", None))
        points, weight = reader.enabled(name)
        plugin = errors.plugin(name, given, path)
        if not points:
            errors.notes.append(f"{reader.path}: {name} is enabled at no extension point of an extender")
        elif plugin is not None:
            yield Enabled(name, weight, plugin, points)
    for name in arguments.keys() - reader.listed.keys():
        path, given = arguments[name]
        errors.plugin(name, given, path)
        errors.notes.append(f"{path}: {name} is enabled nowhere in {reader.path}, so these have no effect")
    if not reader.listed:
        ours = ", ".join(registry.known())
        errors.mistakes.append(f"{reader.path}: enables no plugin of Headroom; these are {ours}")
