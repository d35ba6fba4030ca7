"""Key `colocation-config` of the ConfigMap: strict, with one sentence for each bad field, all at once.

A fault in the cluster's part refuses the whole text (the last good one stays in force); a fault in an entry of
`nodeConfigs` disables that entry alone. An unknown name that resembles a known one is a fault, any other a warning.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from crds.codec import from_json
from crds.colocation import ColocationConfig, ColocationStrategy, MetricAggregatePolicy, NodeStrategy
from crds.duration import DurationError, format_duration, parse_duration
from crds.predict_policy import PredictPolicy
from manager.config import selector
from manager.config.fields import MISSING, Fields
from manager.config.findings import Finding, join, shown
from manager.config.overlaps import by_selectors

BUILT_IN_MODELS: Final = frozenset(
    {
        "nsigma-v1",
        "nsigma-v2",
        "percentile",
        "borg-default",
        "resource-central",
        "recent-max",
        "sum-max",
        "diversity",
        "max",
    }
)
"""Models that every agent has; another name may be a third party's, so it is a warning."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What came of one text."""

    config: ColocationConfig | None
    """The configuration; `None` when the text cannot be used."""
    errors: tuple[Finding, ...] = ()
    """Why it cannot be used."""
    entry_errors: tuple[Finding, ...] = ()
    """Why entries of `nodeConfigs` are disabled."""
    warnings: tuple[Finding, ...] = ()
    """What is ignored, or probably not meant."""
    hints: tuple[Finding, ...] = ()
    """What is worth a word while it is being edited, and no alarm: entries that some node may both match."""


@dataclass(frozen=True, slots=True)
class StrategyJudgement:
    """What came of one strategy on its own, such as a node's annotation."""

    strategy: ColocationStrategy | None
    """The strategy; `None` when it cannot be used."""
    errors: tuple[Finding, ...] = ()
    """Why not."""
    warnings: tuple[Finding, ...] = ()
    """What is ignored, or probably not meant."""


class _NotJsonError(ValueError):
    """The text is not JSON; the message says where."""


@dataclass(slots=True)
class _Twice:
    names: list[str] = field(default_factory=list)

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) < len(pairs):
            seen = [name for name, _ in pairs]
            self.names += sorted({name for name in seen if seen.count(name) > 1})
        return read


def parse_config(text: str | None) -> Judgement:
    """Judge the text of `colocation-config`; an absent or empty one means the defaults."""
    if not text:
        return Judgement(ColocationConfig())
    fields = Fields()
    data = _document(text, fields)
    if data is None:
        return Judgement(None, tuple(fields.errors))
    entries: list[dict[str, Any]] = []
    entry_errors: list[Finding] = []

    def node_configs(value: Any, path: str) -> Any:  # noqa: ANN401
        if not isinstance(value, list):
            fields.error(path, f"must be a list, got {shown(value)}")
            return MISSING
        for index, item in enumerate(value):
            entries.append(_entry(item, join(path, index), fields.warnings, entry_errors))
        return MISSING

    clean = fields.read(ColocationConfig, data, "", {**_special(fields), "nodeConfigs": node_configs})
    _check_models(clean, "", fields)
    competition = by_selectors(entries)
    found = tuple(entry_errors), (*fields.warnings, *competition.warnings), competition.hints
    if fields.errors:
        return Judgement(None, tuple(fields.errors), *found)
    if entries:
        clean["nodeConfigs"] = entries
    return Judgement(from_json(ColocationConfig, clean), (), *found)


def parse_strategy(text: str) -> StrategyJudgement:
    """Judge a strategy on its own; any fault refuses it as a whole."""
    fields = Fields()
    data = _document(text, fields)
    clean = fields.read(ColocationStrategy, data, "", _special(fields)) if data is not None else {}
    _check_models(clean, "", fields)
    if fields.errors:
        return StrategyJudgement(None, tuple(fields.errors), tuple(fields.warnings))
    return StrategyJudgement(from_json(ColocationStrategy, clean), (), tuple(fields.warnings))


def _document(text: str, fields: Fields) -> Any:  # noqa: ANN401
    """The parsed object, or `None` after noting why there is none."""
    twice = _Twice()
    try:
        data = json.loads(text, object_pairs_hook=twice.pairs, parse_constant=_no_constant, parse_float=_finite)
    except _NotJsonError as error:
        fields.error("", str(error))
        return None
    except RecursionError:
        fields.error("", "not usable: it is nested too deeply")
        return None
    except json.JSONDecodeError as error:
        fields.error("", f"not valid JSON: {error}")
        return None
    except ValueError:  # Python reads no number of thousands of digits
        fields.error("", "not usable: a number has too many digits")
        return None
    for name in twice.names:
        fields.error(join("", name), "given twice in the same object: remove one")
    if not isinstance(data, Mapping):
        fields.error("", f'must be a JSON object such as {{"enable": true}}, got {shown(data)}')
        return None
    return data


def _no_constant(name: str) -> NoReturn:
    raise _NotJsonError(f"not valid JSON: {name} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # it could be read, but never be written to a NodeMetric
        raise _NotJsonError(f"not usable: the number {shown(text)} is too large")
    return number


def _special(fields: Fields) -> dict[str, Any]:
    def aggregate_policy(value: Any, path: str) -> Any:  # noqa: ANN401
        return fields.read(MetricAggregatePolicy, value, path, {"durations": durations})

    def durations(value: Any, path: str) -> Any:  # noqa: ANN401
        if not isinstance(value, list):
            fields.error(path, f"must be a list of durations such as 5m, got {shown(value)}")
            return MISSING
        read = [_duration(item, join(path, index), fields) for index, item in enumerate(value)]
        return [text for text in read if text is not None] or MISSING  # an empty list keeps the default

    def predict_policy(value: Any, path: str) -> Any:  # noqa: ANN401
        return fields.read(PredictPolicy, value, path, {})

    return {"metricAggregatePolicy": aggregate_policy, "nodePredictPolicy": predict_policy}


def _duration(item: Any, path: str, fields: Fields) -> str | None:  # noqa: ANN401
    try:
        seconds = parse_duration(item) if isinstance(item, str) else None
    except DurationError as error:
        fields.error(path, str(error))
        return None
    if seconds is None or seconds <= 0:
        fields.error(path, f"must be a positive duration such as 5m, got {shown(item)}")
        return None
    return format_duration(seconds)


def _entry(
    item: Any,  # noqa: ANN401
    path: str,
    warnings: list[Finding],
    errors: list[Finding],
) -> dict[str, Any]:
    """One entry of `nodeConfigs`; a disabled one keeps its place and matches no node."""
    fields = Fields()

    def node_selector(value: Any, where: str) -> Any:  # noqa: ANN401
        wrong = selector.faults(value, where)
        fields.errors += wrong
        return MISSING if wrong else dict(value)

    clean = fields.read(NodeStrategy, item, path, {**_special(fields), "nodeSelector": node_selector})
    _check_models(clean, path, fields)
    warnings += fields.warnings
    if fields.errors:
        errors += fields.errors
        return {"name": clean["name"]} if "name" in clean else {}
    if "nodeSelector" not in clean:
        warnings.append(Finding(path, "has no nodeSelector: it matches no node"))
    return clean


def _check_models(clean: Mapping[str, Any], path: str, fields: Fields) -> None:
    """What types cannot say about a predict policy: which models exist, and that `max` lists some."""
    policy = clean.get("nodePredictPolicy")
    if not isinstance(policy, Mapping):
        return
    where = join(path, "nodePredictPolicy")
    for part, at in ((policy, where), *((policy.get(name), join(where, name)) for name in ("cpu", "memory"))):
        if not isinstance(part, Mapping):
            continue
        listed = [each for each in part.get("of") or () if isinstance(each, Mapping)]
        for model in (part.get("model"), *(each.get("model") for each in listed)):
            if isinstance(model, str) and model not in BUILT_IN_MODELS:
                known = ", ".join(sorted(BUILT_IN_MODELS))
                fields.warn(at, f"model {shown(model)} is not built in ({known}): the agents must have it")
        if part.get("model") == "max" and not listed:
            fields.error(join(at, "of"), "model max needs a list of models to take the largest of")
