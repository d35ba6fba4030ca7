"""Peak models by name. A model sees the history of a class and of its warm pods, and answers with a number; no I/O.

A new model is one file and one line of `PREDICTORS`; others are found as entry points of the group
``headroom.predictors``. A model's parameters are its dataclass fields, written in camelCase in the policy.
"""

import pkgutil
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any, Final

from agent.predictors.base import Model
from crds.predict_policy import ModelChoice, ResourcePolicy

PREDICTORS: Final[Mapping[str, str]] = {
    "borg-default": "agent.predictors.borg_default:BorgDefault",
    "max": "agent.predictors.max_of:MaxOf",
    "nsigma-v1": "agent.predictors.nsigma:NSigmaV1",
    "nsigma-v2": "agent.predictors.nsigma:NSigmaV2",
    "recent-max": "agent.predictors.recent_max:RecentMax",
    "sum-max": "agent.predictors.sum_max:SumMax",
}
"""Name in the policy -> what makes the model."""
ENTRY_POINT_GROUP: Final = "headroom.predictors"
"""Where other distributions announce models."""


class PolicyError(ValueError):
    """A prediction policy that cannot be followed; the message names the field and what is allowed."""


def build(policy: ResourcePolicy, path: str = "predictPolicy") -> Model:
    """The model that a policy asks for.

    Args:
        policy: the policy of one resource.
        path: where the policy stands, for messages.

    Raises:
        PolicyError: the model or one of its parameters is unknown or out of range.
    """
    return _build(policy.model, policy.parameters, policy.of, path)


def _build(name: str, parameters: Mapping[str, Any], of: Sequence[ModelChoice], path: str) -> Model:
    kind = _resolve(name, path)
    known = {_json_name(field.name): field.name for field in fields(kind) if field.init}
    composes = known.pop("of", None) is not None
    for parameter in parameters:
        if parameter not in known:
            allowed = ", ".join(known) or "none"
            raise PolicyError(f"{path}.parameters.{parameter}: model {name} has no such parameter; it has: {allowed}")
    arguments = {known[parameter]: value for parameter, value in parameters.items()}
    if composes:
        arguments["of"] = tuple(
            _build(choice.model, choice.parameters or {}, (), f"{path}.of[{index}]") for index, choice in enumerate(of)
        )
    elif of:
        raise PolicyError(f"{path}.of: model {name} combines no others; remove it, or use model max")
    try:
        model: Model = kind(**arguments)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{path}.{error}" if composes else f"{path}.parameters.{error}") from error
    return model


def _resolve(name: str, path: str) -> Any:  # noqa: ANN401 - a class that only the registry knows
    target = PREDICTORS.get(name)
    if target is not None:
        return pkgutil.resolve_name(target)
    others = {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in others:
        raise PolicyError(f"{path}.model: no model is named {name!r}; known are {', '.join([*PREDICTORS, *others])}")
    try:
        kind = others[name].load()
    except (ImportError, AttributeError) as error:
        raise PolicyError(
            f"{path}.model: model {name} is announced by {others[name].value}, which fails: {error}"
        ) from error
    if not is_dataclass(kind):
        raise PolicyError(f"{path}.model: model {name} ({others[name].value}) is not a dataclass")
    return kind


def _json_name(field_name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), field_name)
