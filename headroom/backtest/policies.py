"""Policies on a command line and in files: text to a policy that the agent would follow.

    POLICY := MODEL [":" KEY "=" VALUE {"," KEY "=" VALUE}] | "max(" POLICY {"," POLICY} ")" [":" KEYS] | "default"

Keys are the parameters of the model, `margin` [percent] and `cold` (`coldStartPeriodSeconds`, such as 12h); what is
left out is what the agent would take.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import PurePath
from typing import Any, Final

from agent.prediction.policy import PATH, resolve
from agent.predictors import ENTRY_POINT_GROUP, PREDICTORS, PolicyError
from crds.codec import CodecError, from_json, json_fields, to_json
from crds.models import COMBINING
from crds.predict_policy import DEFAULTS, PredictPolicy, ResourceOverride, with_defaults
from headroom.backtest.durations import parse_span
from headroom.backtest.engine import ORACLE, NamedPolicy
from headroom.backtest.policy_text import NamedPolicyError, ParsedPolicy
from headroom.backtest.policy_text import parse as parse_text

DEFAULT: Final = "default"
"""The policy that the agent ships with."""
ALL: Final = "all"
"""Every model with its own parameters, and the default policy."""
MARGIN: Final = "margin"
"""Key of a policy: its safety margin. [percent]"""
COLD: Final = "cold"
"""Key of a policy: how long a pod counts at its request."""
_OF_POLICY: Final[tuple[str, ...]] = (MARGIN, COLD)
_INSIDE: Final = "nodePredictPolicy"
_LONGEST: Final = 80


def names() -> tuple[str, ...]:
    """What can be chosen by name: the default policy, the models, and the entry points of other distributions."""
    discovered = sorted(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP) if entry.name not in PREDICTORS)
    return (DEFAULT, *PREDICTORS, *discovered)


def parse(texts: Sequence[str]) -> list[NamedPolicy]:
    """The named policies, each once, in the order given.

    Args:
        texts: each "default", "all", or a policy as above.

    Raises:
        NamedPolicyError: one of them is no policy.
    """
    found: dict[str, NamedPolicy] = {}
    for text in texts:
        for each in (name for name in names() if name not in COMBINING) if text.strip() == ALL else (text.strip(),):
            found.setdefault(each, _parse_policy(each))
    return list(found.values())


def of_file(text: str, place: str) -> NamedPolicy:
    """The policy of a file.

    Args:
        text: JSON of a `nodePredictPolicy`, or of a colocation config or an object with one in it.
        place: path of the file; its name without the ending is the name of the policy.

    Raises:
        NamedPolicyError: it is not JSON, or no policy that an agent would follow.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NamedPolicyError(f"{place} is not JSON: {error}") from error
    if not isinstance(data, Mapping):
        raise NamedPolicyError(f'{place}: a policy is an object, such as {{"model": "diversity"}}')
    inside = data.get(_INSIDE, data)
    try:
        policy = from_json(PredictPolicy, inside)
    except CodecError as error:
        raise NamedPolicyError(f"{place}: {error}") from error
    _refuse_unknown(policy, place)
    name = PurePath(place).stem or place
    if name in (DEFAULT, ORACLE):
        raise NamedPolicyError(
            f"{place}: a policy is called by its file's name, and {name} means another; rename the file"
        )
    return _resolved(name, policy, place)


def as_json(choice: NamedPolicy) -> dict[str, Any]:
    """The whole policy as JSON of `nodePredictPolicy`, nothing left out, to be stored as it is."""
    return to_json(with_defaults(choice.policy))


def _refuse_unknown(policy: PredictPolicy, place: str) -> None:
    """A key that no agent knows would change nothing, and the figures would be those of another policy."""
    parts = [
        ("", PredictPolicy, policy),
        ("cpu.", ResourceOverride, policy.cpu),
        ("memory.", ResourceOverride, policy.memory),
    ]
    for prefix, kind, part in parts:
        for key in part.unknown if part is not None else ():
            known = [*json_fields(kind)]
            close = difflib.get_close_matches(key, known, n=1)
            guess = f"did you mean {prefix}{close[0]}?" if close else f"it has: {', '.join(known)}"
            raise NamedPolicyError(f"{place}: a prediction policy has no key {prefix}{key[:_LONGEST]}; {guess}")


def _parse_policy(text: str) -> NamedPolicy:
    written = parse_text(text)
    keys = {key: written.parameters.pop(key) for key in _OF_POLICY if key in written.parameters}
    for inner in _inside(written):
        if wrong := next((key for key in _OF_POLICY if key in inner.parameters), None):
            raise NamedPolicyError(
                f"{text}: {wrong} is of the whole policy: write it behind the bracket, max(...):{wrong}=…"
            )
    if written.model == DEFAULT:
        if written.parameters:
            raise NamedPolicyError(f"{text}: default has its own parameters; it takes {' and '.join(_OF_POLICY)} alone")
        policy = DEFAULTS
    else:
        if written.model not in names():
            raise NamedPolicyError(f"{text}: {_unknown(written.model)}")
        of = tuple(each.part() for each in written.of)
        policy = PredictPolicy(model=written.model, parameters=written.parameters, of=of or None)
    return _resolved(text, _with_keys(policy, keys, text), text)


def _inside(written: ParsedPolicy) -> Iterator[ParsedPolicy]:
    for each in written.of:
        yield each
        yield from _inside(each)


def _with_keys(policy: PredictPolicy, keys: Mapping[str, Any], text: str) -> PredictPolicy:
    if MARGIN in keys:
        margin = keys[MARGIN]
        if not isinstance(margin, int) or isinstance(margin, bool):
            raise NamedPolicyError(f"{text}: margin must be a whole number of percent from 0 to 100, got {margin}")
        policy = replace(
            policy, safety_margin_percent=margin, cpu=_without_margin(policy.cpu), memory=_without_margin(policy.memory)
        )
    if COLD in keys:
        try:
            seconds = parse_span(str(keys[COLD]))
        except ValueError as error:
            raise NamedPolicyError(f"{text}: cold: {error}") from error
        policy = replace(policy, cold_start_period_seconds=round(seconds))
    return policy


def _without_margin(part: ResourceOverride | None) -> ResourceOverride | None:
    return None if part is None else replace(part, safety_margin_percent=None)


def _resolved(name: str, policy: PredictPolicy, place: str) -> NamedPolicy:
    """The policy, validated by the agent's own rules."""
    try:
        return NamedPolicy(name, resolve(policy).policy)
    except PolicyError as error:
        raise NamedPolicyError(
            f"{place}: {str(error).removeprefix(PATH).removeprefix('.').removeprefix(':').strip()}"
        ) from error


def _unknown(model: str) -> str:
    if model == ORACLE:
        return "the oracle is no policy: it is always shown beside the others"
    known = [*names(), ALL]
    close = difflib.get_close_matches(model, known, n=1)
    guess = f"did you mean {close[0]}? " if close else ""
    return f"no model is named {model[:_LONGEST]!r}; {guess}known are {', '.join(known)}"
