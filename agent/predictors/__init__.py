"""Peak models by name. A model reads the history of a class and of its warm pods, and returns a number; no I/O.

A new model is one file and one line of `PREDICTORS`; others are found as entry points of the group
``headroom.predictors``. A model's parameters are its dataclass fields, written in camelCase in the policy.
"""

import pkgutil
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any, Final

from agent.predictors.base import MODEL_FAILURES, Model, quoted, window_days
from crds.codec import CodecError, from_json
from crds.predict_policy import ModelChoice, ResourcePolicy

__all__ = ["ENTRY_POINT_GROUP", "PREDICTORS", "PolicyError", "build", "window_days"]

PREDICTORS: Final[Mapping[str, str]] = {
    "borg-default": "agent.predictors.borg_default:BorgDefault",
    "coincidence": "agent.predictors.coincidence:Coincidence",
    "diversity": "agent.predictors.diversity:Diversity",
    "max": "agent.predictors.max_of:MaxOf",
    "nsigma-v1": "agent.predictors.nsigma_v1:NSigmaV1",
    "nsigma-v2": "agent.predictors.nsigma_v2:NSigmaV2",
    "percentile": "agent.predictors.percentile:Percentile",
    "recent-max": "agent.predictors.recent_max:RecentMax",
    "resource-central": "agent.predictors.resource_central:ResourceCentral",
    "sum-max": "agent.predictors.sum_max:SumMax",
}
"""Name in the policy -> path of the model's class."""
ENTRY_POINT_GROUP: Final = "headroom.predictors"
"""Where other distributions announce models."""
_DEEPEST: Final = 4


class PolicyError(ValueError):
    """A prediction policy that cannot be used; the message names the field and the allowed values."""


def build(policy: ResourcePolicy, path: str = "predictPolicy") -> Model:
    """Return the model in the policy of one resource, whose path is given.

    Raises PolicyError: the model or one of its parameters is unknown or out of range.
    """
    return _build(policy.model, policy.parameters, policy.of, path)


def _build(
    name: str, parameters: Mapping[str, Any], of: Sequence[ModelChoice | Mapping[str, Any]], path: str, depth: int = 0
) -> Model:
    kind = _resolve(name, path)
    names_by_json = {_json_name(field.name): field.name for field in fields(kind) if field.init}
    composes = names_by_json.pop("of", None) is not None
    for parameter in parameters:
        if parameter not in names_by_json:
            allowed = ", ".join(names_by_json) or "none"
            raise PolicyError(
                f"{path}.parameters.{quoted(parameter)[1:-1]}: model {name} has no such parameter; it has: {allowed}"
            )
    arguments = {names_by_json[parameter]: value for parameter, value in parameters.items()}
    if composes:
        arguments["of"] = tuple(_build_part(part, f"{path}.of[{index}]", depth) for index, part in enumerate(of))
    elif of:
        raise PolicyError(f"{path}.of: model {name} combines no others; remove it, or use model max")
    try:
        model = kind(**arguments)
    except MODEL_FAILURES as error:
        raise PolicyError(f"{path}.{error}" if composes else f"{path}.parameters.{error}") from error
    if not isinstance(model, Model):
        raise PolicyError(f"{path}.model: model {name} has no method peak(view, margin), or no attribute `measured`")
    return model


def _build_part(part: ModelChoice | Mapping[str, Any], path: str, depth: int) -> Model:
    """A model of the list `of`, which may combine others itself."""
    if depth >= _DEEPEST:
        raise PolicyError(f"{path}: models may be nested {_DEEPEST} times")
    if not isinstance(part, ModelChoice):
        try:
            part = from_json(ModelChoice, part)
        except CodecError as error:
            raise PolicyError(f"{path}.{error}") from error
    return _build(part.model, part.parameters or {}, part.of or (), path, depth + 1)


def _resolve(name: str, path: str) -> Any:  # noqa: ANN401 - a class that only the registry knows
    target = PREDICTORS.get(name)
    if target is not None:
        return pkgutil.resolve_name(target)
    plugins = {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in plugins:
        raise PolicyError(
            f"{path}.model: no model is named {quoted(name)}; known are {', '.join([*PREDICTORS, *plugins])}"
        )
    try:
        kind = plugins[name].load()
    except MODEL_FAILURES as error:
        why = " ".join(str(error).split()) or type(error).__name__
        where = f"{path}.model: model {name} is announced by {plugins[name].value}"
        raise PolicyError(f"{where}, which fails: {why}") from error
    if not is_dataclass(kind):
        raise PolicyError(f"{path}.model: model {name} ({plugins[name].value}) is not a dataclass")
    return kind


def _json_name(field_name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), field_name)
