"""Policies on a command line and in files: text to a policy that the agent would follow.

    POLICY := MODEL [":" KEY "=" VALUE {"," KEY "=" VALUE}] | "default" [":" KEYS] | JSON of a nodePredictPolicy

Keys are the parameters of the model, `margin` [percent] and `cold` (`coldStartPeriodSeconds`, such as 12h); absent
ones are as in the agent.
"""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import PurePath
from typing import Any, Final

from agent.api import ENTRY_POINT_GROUP, PREDICTORS, PolicyError, resolve
from agent.api import POLICY_PATH as PATH
from crds.codec import CodecError, from_json, json_fields, to_json
from crds.duration import format_span
from crds.models import COMBINING
from crds.predict_policy import DEFAULTS, PredictPolicy, ResourceOverride, with_defaults
from kubectl_headroom.backtest.durations import parse_span
from kubectl_headroom.backtest.engine import ORACLE, NamedPolicy

DEFAULT: Final = "default"  # the policy that the agent ships with
ALL: Final = "all"  # every model with its own parameters, and the default policy
_MARGIN, _COLD = "margin", "cold"
_INSIDE: Final = "nodePredictPolicy"
_LONGEST: Final = 80


class NamedPolicyError(ValueError):
    """A policy that cannot be backtested; the message names it, the reason, and the valid choices."""


def names() -> tuple[str, ...]:
    """Return the names of policies: the default policy, the models, and the entry points of other distributions."""
    discovered = sorted(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP) if entry.name not in PREDICTORS)
    return (DEFAULT, *PREDICTORS, *discovered)


def parse(texts: Sequence[str]) -> list[NamedPolicy]:
    """Return the policies of a command line, each once, in the order given; "all" is every independent model.

    Raises:
        NamedPolicyError: one of them is no policy.
    """
    result: dict[str, NamedPolicy] = {}
    for text in map(str.strip, texts):
        for model in (name for name in names() if name not in COMBINING) if text == ALL else (text,):
            result.setdefault(model, _of_json(model, model) if model.startswith("{") else _of_keys(model))
    return list(result.values())


def targets(percents: Sequence[float], horizons_seconds: Sequence[int]) -> list[NamedPolicy]:
    """Return `coincidence` with each target, for each horizon alone. [percent, s]"""
    result = []
    for seconds in horizons_seconds:
        for percent in percents:
            parameters = {"targetViolationPercent": percent, "horizonHours": seconds / 3600}
            name = f"target:{percent:g},{format_span(seconds)}"
            policy = resolve(PredictPolicy(model="coincidence", parameters=parameters)).policy
            result.append(NamedPolicy(name, policy, seconds))
    return result


def of_file(text: str, place: str) -> NamedPolicy:
    """The policy of a file: JSON of a `nodePredictPolicy`, or of a colocation config or an object with one in it.

    The file's name without its ending is the name of the policy. Raises NamedPolicyError as `parse` does.
    """
    name = PurePath(place).stem or place
    choice = _of_json(text, place, name)
    if name in (DEFAULT, ORACLE):
        raise NamedPolicyError(
            f"{place}: a policy is called by its file's name, and {name} means another; rename the file"
        )
    return choice


def as_json(choice: NamedPolicy) -> dict[str, Any]:
    return to_json(with_defaults(choice.policy))


def _of_json(text: str, place: str, name: str = "") -> NamedPolicy:
    place = place if len(place) <= _LONGEST else f"{place[:_LONGEST]}…"
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NamedPolicyError(f"{place} is not JSON: {error}") from error
    if not isinstance(data, Mapping):
        raise NamedPolicyError(f'{place}: a policy is an object, such as {{"model": "diversity"}}')
    try:
        policy = from_json(PredictPolicy, data.get(_INSIDE, data))
    except CodecError as error:
        raise NamedPolicyError(f"{place}: {error}") from error
    # A key that no agent knows would change nothing, and the figures would be those of another policy.
    parts = [("", policy, PredictPolicy), ("cpu.", policy.cpu, ResourceOverride)]
    for prefix, part, kind in [*parts, ("memory.", policy.memory, ResourceOverride)]:
        for key in part.unknown if part is not None else ():
            parameters = [*json_fields(kind)]
            close = difflib.get_close_matches(key, parameters, n=1)
            guess = f"did you mean {prefix}{close[0]}?" if close else f"it has: {', '.join(parameters)}"
            raise NamedPolicyError(f"{place}: a prediction policy has no key {prefix}{key[:_LONGEST]}; {guess}")
    return _resolved(name or text, policy, place)


def _of_keys(text: str) -> NamedPolicy:
    model, colon, rest = (part.strip() for part in text.partition(":"))
    if not model:
        raise NamedPolicyError(f"{text[:_LONGEST]!r} is no policy: the name of a model is missing")
    if model not in names():
        raise NamedPolicyError(f"{text[:_LONGEST]}: {_unknown(model)}")
    parameters: dict[str, Any] = {}
    for pair in rest.split(",") if colon else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        why = ""
        if not key or not equals:
            why = f"behind {model}: write keys and values, such as windowDays=7"
        elif not value:
            why = f"{key} has no value"
        elif key in parameters:
            why = f"{key} is there twice"
        if why:
            raise NamedPolicyError(f"{text[:_LONGEST]!r} is no policy: {why}")
        parameters[key] = _value(value)
    keys = {key: parameters.pop(key) for key in (_MARGIN, _COLD) if key in parameters}
    if model == DEFAULT and parameters:
        raise NamedPolicyError(f"{text}: default has its own parameters; it takes {_MARGIN} and {_COLD} alone")
    policy = DEFAULTS if model == DEFAULT else PredictPolicy(model=model, parameters=parameters)
    return _resolved(text, _with_keys(policy, keys, text), text)


def _with_keys(policy: PredictPolicy, keys: Mapping[str, Any], text: str) -> PredictPolicy:
    if _MARGIN in keys:
        margin = keys[_MARGIN]
        if not isinstance(margin, int) or isinstance(margin, bool):
            raise NamedPolicyError(f"{text}: margin must be a whole number of percent from 0 to 100, got {margin}")
        cpu, memory = (part and replace(part, safety_margin_percent=None) for part in (policy.cpu, policy.memory))
        policy = replace(policy, safety_margin_percent=margin, cpu=cpu, memory=memory)
    if _COLD in keys:
        try:
            seconds = parse_span(str(keys[_COLD]))
        except ValueError as error:
            raise NamedPolicyError(f"{text}: cold: {error}") from error
        policy = replace(policy, cold_start_period_seconds=round(seconds))
    return policy


def _resolved(name: str, policy: PredictPolicy, place: str) -> NamedPolicy:
    """The policy, validated by the agent's own rules."""
    try:
        return NamedPolicy(name, resolve(policy).policy)
    except PolicyError as error:
        why = str(error).removeprefix(PATH).removeprefix(".").removeprefix(":").strip()
        raise NamedPolicyError(f"{place}: {why}") from error


def _unknown(model: str) -> str:
    if model == ORACLE:
        return "the oracle is no policy: it is always shown beside the others"
    if "(" in model:
        return 'models are combined in JSON: {"model": "max", "of": [{"model": …}, …]}'
    if "," in model:
        return "give --policy once for each"
    models = [*names(), ALL]
    close = difflib.get_close_matches(model, models, n=1)
    guess = f"did you mean {close[0]}? " if close else ""
    return f"no model is named {model[:_LONGEST]!r}; {guess}known are {', '.join(models)}"


def _value(text: str) -> bool | int | float | str:
    try:
        result = json.loads(text)
    except ValueError:
        return text
    return result if isinstance(result, bool | int | float) else text
