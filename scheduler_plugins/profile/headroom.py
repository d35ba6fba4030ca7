"""`kind: HeadroomSchedulerConfiguration`: the profile's own format."""

from collections.abc import Mapping
from typing import Any, Final

from scheduler_plugins.arguments import nearest, read, shown
from scheduler_plugins.extender.service import Answering, Mode
from scheduler_plugins.framework.cycle import Enabled
from scheduler_plugins.framework.shortlist import Shortlist
from scheduler_plugins.profile import registry, text
from scheduler_plugins.profile.fields import ValidationErrors
from scheduler_plugins.profile.model import API_VERSION, DEFAULT_PROFILE, Profile
from scheduler_plugins.requeue.settings import RequeueSettings

_TOP: Final = {"apiVersion", "kind", "mode", "shortlist", "inFlightSeconds", "plugins", "arguments", "requeue"}
_LONGEST_SHORTLIST: Final = 64
_MOST_OF_A_GROUP: Final = 1000
_FORMER_SIZE: Final = "sizeForPreferences"
_LONGEST_IN_FLIGHT: Final = 3600


def parse(data: Mapping[str, Any], errors: ValidationErrors) -> Profile:
    """Decode a configuration of this kind; its errors go to `errors`."""
    errors.unknown(data, _TOP, "")
    if data.get("apiVersion") != API_VERSION:
        errors.mistakes.append(f"apiVersion: {shown(data.get('apiVersion'))}: must be {API_VERSION}")
    listed = data["plugins"] if "plugins" in data else _built_in(errors)
    return Profile(
        enabled=_plugins(listed, errors.as_object(data.get("arguments"), "arguments"), errors),
        answering=_answering(data, errors),
        in_flight_seconds=errors.number(data, "inFlightSeconds", 30.0, (1, _LONGEST_IN_FLIGHT), ""),
        requeue=_requeue(data.get("requeue"), errors),
    )


def _answering(data: Mapping[str, Any], errors: ValidationErrors) -> Answering:
    mode = data.get("mode", Mode.SHORTLIST.value)
    if not isinstance(mode, str) or mode not in list(Mode):
        errors.mistakes.append(f"mode: {shown(mode)}: must be {' or '.join(Mode)}")
        mode = Mode.SHORTLIST
    sizes, path = errors.as_object(data.get("shortlist"), "shortlist"), "shortlist."
    errors.unknown(sizes, {"size", "share", "most", _FORMER_SIZE}, path)
    if _FORMER_SIZE in sizes:
        errors.notes.append(f"{path}{_FORMER_SIZE}: has no effect, a list has nodes of all that a pod may prefer")
    shortlist = Shortlist()
    size = errors.number(sizes, "size", shortlist.size, (1, _LONGEST_SHORTLIST), path, whole=True)
    share = errors.number(sizes, "share", shortlist.share, (0, 1), path)
    most = errors.number(sizes, "most", shortlist.most, (1, _MOST_OF_A_GROUP), path, whole=True)
    return Answering(Mode(mode), Shortlist(int(size), share, int(most)))


def _requeue(data: object, errors: ValidationErrors) -> RequeueSettings:
    settings = read(RequeueSettings, {} if data is None else data, "requeue", errors.mistakes) or RequeueSettings()
    errors.mistakes.extend(f"requeue.{problem.field}: {problem.message}" for problem in settings.problems())
    return settings


def _built_in(errors: ValidationErrors) -> object:
    """The list of the profile that ships, for one that has none."""
    errors.notes.append("plugins: not listed, so those of the built-in profile")
    return text.read(DEFAULT_PROFILE.read_text(encoding="utf-8"))["plugins"]


def _plugins(data: object, arguments: Mapping[str, Any], errors: ValidationErrors) -> tuple[Enabled, ...]:
    if not isinstance(data, list) or not data:
        errors.mistakes.append("plugins: must be a list of at least one plugin, as in - name: LoadAwareScheduling")
        return ()
    parts = (_plugin(entry, f"plugins[{index}]", arguments, errors) for index, entry in enumerate(data))
    result = [part for part in parts if part]
    by_name: dict[str, list[Any]] = {}
    for part in result:
        by_name.setdefault(part.name, []).append(part.plugin)
    for name, plugins in by_name.items():
        if len(plugins) > 1:
            errors.twice(name, plugins, "plugins")
    errors.unknown(arguments, by_name, "arguments.")
    return tuple(part for part in result if part.plugin is not None)


def _plugin(entry: object, path: str, arguments: Mapping[str, Any], errors: ValidationErrors) -> Enabled | None:
    if not isinstance(entry, Mapping):
        errors.mistakes.append(f"{path}: {shown(entry)} is not an object with a name")
        return None
    errors.unknown(entry, {"name", "weight", "args"}, f"{path}.")
    weight = errors.number(entry, "weight", 1.0, (0, 100), f"{path}.")
    name = entry.get("name")
    if not isinstance(name, str) or name not in registry.known():
        texts = name if isinstance(name, str) else shown(name)
        errors.mistakes.append(f'{path}.name: "{texts}" is not a plugin; {nearest(texts, registry.known())}')
        return None
    args, place = entry.get("args"), f"{path}.args"
    if name in arguments:
        place = f"arguments.{name}"
        args = _over(args, errors.as_object(arguments[name], place))
    return Enabled(name, weight, errors.plugin(name, args, place))


def _over(below: object, above: Mapping[str, Any]) -> Mapping[str, Any]:
    """Arguments with others laid over them: objects are joined, everything else is replaced."""
    if not isinstance(below, Mapping):
        return above
    joined = dict(below)
    for name, value in above.items():
        joined[name] = _over(joined.get(name), value) if isinstance(value, Mapping) else value
    return joined
