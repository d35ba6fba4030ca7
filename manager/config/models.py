"""Peak models in a prediction policy: whether they exist, and whether their parameters are ones they accept."""

import re
from collections.abc import Mapping
from typing import Any, Final

from crds.models import COMBINING, DEEPEST, MODELS
from crds.predict_policy import MOST_MODELS, ModelChoice
from crds.predict_policy import faults as policy_faults
from manager.config.document import UnusableNumber
from manager.config.fields import Fields
from manager.config.findings import ConfigFinding, join, nearest, shown

PART: Final = "nodePredictPolicy"
"""The field that holds a policy."""
_MOST_UNKNOWN: Final = 10
_SEPARATORS: Final = re.compile(r"[\W_]+")
_VERSION: Final = re.compile(r"\d+")


def check(policy: Mapping[str, Any], path: str, fields: Fields, inherited: str | None) -> None:
    """Record the faults of a policy beyond its single fields.

    Args:
        policy: the policy, or the part of it that one layer has; its fields have the right types.
        path: its path.
        fields: where faults are noted.
        inherited: the model that applies when the policy names none; `None` when that is not known.
    """
    model = policy.get("model") or inherited
    _choice(policy, model, path, fields, 0)
    for name in ("cpu", "memory"):
        part = policy.get(name)
        if isinstance(part, Mapping):
            _choice(part, part.get("model") or model, join(path, name), fields, 0)
    for where, message in policy_faults(policy):
        fields.error(f"{path}.{where}" if where else path, message)


def faults_together(policy: Mapping[str, Any]) -> list[ConfigFinding]:
    """Return the faults of a whole policy with valid layers, such as parameters of another layer's model."""
    fields = Fields([_MOST_UNKNOWN])
    check(policy, PART, fields, None)
    return fields.errors


def _choice(choice: Mapping[str, Any], model: str | None, path: str, fields: Fields, depth: int) -> None:
    """A model with its parameters and those that it combines."""
    named, parameters, listed = choice.get("model"), choice.get("parameters"), choice.get("of")
    if isinstance(named, str) and named not in MODELS:
        _unknown(named, join(path, "model"), fields)
    if model is None or model not in MODELS:
        return
    if isinstance(parameters, Mapping):
        _parameters(parameters, model, join(path, "parameters"), fields)
    if model not in COMBINING:
        if listed:
            fields.error(join(path, "of"), f"model {model} combines no others: remove it, or use model max")
    elif listed:
        for index, each in enumerate(listed[:MOST_MODELS]):
            listed[index] = _part(each, join(join(path, "of"), index), fields, depth + 1)
    elif named is not None or listed is not None:
        fields.error(join(path, "of"), f"model {model} needs a list of models to take the largest of")


def _part(choice: Any, path: str, fields: Fields, depth: int) -> Any:  # noqa: ANN401 - JSON
    """A model that is one of several, its fields by their right names."""
    if depth > DEEPEST:
        fields.error(path, f"models may be nested {DEEPEST} times")
        return choice
    read = fields.read(ModelChoice, choice, path) if depth > 1 else choice  # the first level has been read
    if not isinstance(read, Mapping):
        return choice
    _choice(read, read.get("model"), path, fields, depth)
    return read


def _unknown(model: str, path: str, fields: Fields) -> None:
    same = next((known for known in MODELS if _plain(known) == _plain(model)), None)
    if same is not None:
        fields.error(path, f"no model is named {shown(model)}: write {same}")
    elif model.isspace():
        fields.error(path, "must be the name of a model, such as nsigma-v2")
    elif model and fields.may_inspect(path):  # an empty name is a fault of any policy
        meant = nearest(model, MODELS)
        guess = f"; did you mean {meant}?" if meant else ""
        if meant and _VERSION.sub("", meant) != _VERSION.sub("", model):  # another version may be in the agents
            fields.error(path, f"no model is named {shown(model)}{guess}")
        else:
            known = ", ".join(MODELS)
            fields.warn(path, f"model {shown(model)} is not built in ({known}): the agents must have it{guess}")


def _plain(name: str) -> str:
    return _SEPARATORS.sub("", name).lower()


def _parameters(parameters: Mapping[str, Any], model: str, path: str, fields: Fields) -> None:
    defaults = MODELS[model]
    for name, value in parameters.items():
        rule, where = defaults.get(name), join(path, name)
        if rule is None:
            if not fields.may_inspect(path):
                return
            allowed = f"it has {', '.join(defaults)}" if defaults else "it has none"
            guess = f"; did you mean {meant}?" if (meant := nearest(name, defaults)) else ""
            owners = " or ".join(other for other, rules in MODELS.items() if name in rules)
            owner = f"; to set it, state the model: {owners}" if owners else ""
            fields.error(where, f"model {model} has no such parameter: {allowed}{guess or owner}")
        elif not isinstance(value, UnusableNumber) and not rule.allows(value):
            fields.error(where, f"must be {rule} for model {model}, got {shown(value)}")
