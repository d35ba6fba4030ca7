"""The prediction policy: `nodePredictPolicy` in the ConfigMap, `spec.predictPolicy` in a NodeMetric."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from crds.codec import Part, below
from crds.models import DEEPEST
from crds.ranges import Allowed, Flag, Range

Resource = Literal["cpu", "memory"]


@dataclass(frozen=True, slots=True)
class ModelChoice(Part):
    """A model by name, with its parameters."""

    model: str
    """Name of the model."""
    parameters: Mapping[str, Any] | None = None
    """Its parameters; absent means the model's own defaults."""
    of: tuple[Mapping[str, Any], ...] | None = None
    """The models that it combines, if it combines others: objects of the same form."""


@dataclass(frozen=True, slots=True)
class ResourceOverride(Part):
    """Overrides for one resource."""

    model: str | None = None
    """Name of the model; with it, `parameters` and `of` of the general part no longer apply."""
    parameters: Mapping[str, Any] | None = None
    """Parameters of the model."""
    of: tuple[ModelChoice, ...] | None = None
    """The models that `max` combines."""
    safety_margin_percent: int | None = None
    """Added to the measured usage. [percent]"""


@dataclass(frozen=True, slots=True)
class PredictPolicy(Part):
    """All keys of the policy; an absent one takes its default from `DEFAULTS`."""

    resource_diff_threshold_percent: int | None = None
    """A fast report is sent when the prediction has moved by more than this. [percent]"""
    check_interval_seconds: int | None = None
    """The interval at which the agent compares the prediction with the one it last sent. [s]"""
    force_update_interval_seconds: int | None = None
    """A fast report is sent at the latest after this time. [s]"""
    cold_start_period_seconds: int | None = None
    """A pod counts at its request until it was observed this long. [s]"""
    reclaim_ratio_percent: int | None = None
    """Share of the warm Prod pods' requests that may be reclaimed. [percent]"""
    safety_margin_percent: int | None = None
    """Added to the measured usage; absent is 0 for coincidence and diversity, 10 for any other model. [percent]"""
    use_workload_history: bool | None = None
    """A cold pod of a known workload counts at the usage of that workload instead of its request."""
    workload_history_margin_percent: int | None = None
    """Added to the workload's highest usage per pod. [percent]"""
    workload_history_pod_days: int | None = None
    """A workload is known after its pods were observed for this long, added up. [days]"""
    workload_history_nodes: int | None = None
    """A workload is known after its pods were observed on this many nodes, for 3 hours on each and a day on one."""
    model: str | None = None
    """Name of the model."""
    parameters: Mapping[str, Any] | None = None
    """Parameters of the model."""
    of: tuple[ModelChoice, ...] | None = None
    """The models that `max` combines."""
    cpu: ResourceOverride | None = None
    """Overrides for CPU."""
    memory: ResourceOverride | None = None
    """Overrides for memory."""


DEFAULTS: Final = PredictPolicy(
    resource_diff_threshold_percent=5,
    check_interval_seconds=20,
    force_update_interval_seconds=600,
    cold_start_period_seconds=86400,
    reclaim_ratio_percent=100,
    use_workload_history=True,
    workload_history_margin_percent=0,
    workload_history_pod_days=3,
    workload_history_nodes=2,
    model="coincidence",
)
"""The policy where nothing is configured. Its safety margin is `usual_margin`; its parameters are the model's own."""
_WITHOUT_MARGIN: Final = frozenset({"coincidence", "diversity"})
_OTHER_MARGIN_PERCENT: Final = 10


RANGES: Final[Mapping[str, Allowed]] = {
    "resourceDiffThresholdPercent": Range(1, 100),
    "checkIntervalSeconds": Range(5, 600),
    "forceUpdateIntervalSeconds": Range(60, 3600),
    "coldStartPeriodSeconds": Range(0, 2592000),
    "reclaimRatioPercent": Range(0, 100),
    "safetyMarginPercent": Range(0, 100),
    "useWorkloadHistory": Flag(),
    "workloadHistoryMarginPercent": Range(0, 400),
    "workloadHistoryPodDays": Range(1, 100),
    "workloadHistoryNodes": Range(2, 100),
}
"""Allowed values by JSON name; `cpu` and `memory` parts share `safetyMarginPercent`."""

LONGEST_NAME: Final = 63
"""A model's name has at most so many characters, and at least one."""
MOST_MODELS: Final = 16
"""A list `of` holds at most so many models."""
LONGEST_POLICY: Final = 16 * 1024
"""The largest size of a policy as JSON: each node's NodeMetric carries it twice, the second time in `managedFields`."""
_LARGEST_NUMBER: Final = 2**53  # beyond it, the API server stores another number


@dataclass(frozen=True, slots=True)
class ResourcePolicy:
    """The policy as it applies to one resource, nothing left open."""

    model: str
    """Name of the model."""
    parameters: Mapping[str, Any]
    """Its parameters; a missing one has the model's default."""
    of: tuple[ModelChoice, ...]
    """The models that `max` combines; empty for all others."""
    safety_margin_percent: int
    """Added to the measured usage. [percent]"""


def faults(policy: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the violations of a policy that the NodeMetric's schema reports beside `RANGES`.

    Args:
        policy: the policy as JSON, or the part of it that one layer states; its fields have the right types.

    Yields:
        Path within the policy, empty for all of it, and the error.
    """
    check, force = policy.get("checkIntervalSeconds"), policy.get("forceUpdateIntervalSeconds")
    if check is not None and force is not None and check > force:
        longer = f"must not be longer than forceUpdateIntervalSeconds ({force}), got {check}"
        yield "checkIntervalSeconds", f"{longer}: lower it, or raise the other"
    refused = _unwritable(policy)
    if refused:
        yield "", refused
        return
    yield from _choice_faults(policy, "", 0)
    for name in ("cpu", "memory"):
        if isinstance(policy.get(name), Mapping):
            yield from _choice_faults(policy[name], name, 0)


def _unwritable(policy: Mapping[str, Any]) -> str:
    """Return why the API server would refuse a policy; empty when it accepts it."""
    try:
        size = len(json.dumps(policy, ensure_ascii=False, separators=(",", ":"), default=str).encode())
    except (RecursionError, ValueError):  # of values that hold themselves, and of halves of characters
        return "is nested too deeply, or holds a text that is no Unicode"
    return "" if size <= LONGEST_POLICY else f"must be at most {LONGEST_POLICY} bytes of JSON, got {size}"


def _choice_faults(choice: Mapping[str, Any], path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Return the faults of a model and of the models that it combines."""
    model, of, parameters = choice.get("model"), choice.get("of"), choice.get("parameters")
    if depth and model is None:
        yield path, "model is missing: name one, such as nsigma-v2"
    elif model == "":
        yield below(path, "model"), "must be the name of a model, such as nsigma-v2"
    elif isinstance(model, str) and len(model) > LONGEST_NAME:
        yield below(path, "model"), f"must have at most {LONGEST_NAME} characters, got {len(model)}"
    for name, value in parameters.items() if isinstance(parameters, Mapping) else ():
        if _holds_large_number(value):
            where = below(below(path, "parameters"), name)
            yield where, f"must hold no number beyond {_LARGEST_NUMBER}, which an API server does not store exactly"
    if not isinstance(of, list | tuple):
        return
    if len(of) > MOST_MODELS:
        yield below(path, "of"), f"must list at most {MOST_MODELS} models, got {len(of)}"
    for index, each in enumerate(of[:MOST_MODELS] if depth <= DEEPEST else ()):
        if isinstance(each, Mapping):
            yield from _choice_faults(each, f"{below(path, 'of')}[{index}]", depth + 1)


def _holds_large_number(value: Any) -> bool:  # noqa: ANN401 - a parameter of a model that only the agents know
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            left += each.values()
        elif isinstance(each, list | tuple):
            left += each
        elif isinstance(each, int | float) and not abs(each) <= _LARGEST_NUMBER:
            return True
    return False


def usual_margin(model: str | None) -> int:
    """The safety margin of a model where none is set. [percent]

    `coincidence` and `diversity` have none: their addition for unobserved load
    is a margin of its own. The other models state observed usage only.
    """
    return 0 if model in _WITHOUT_MARGIN else _OTHER_MARGIN_PERCENT


def with_defaults(policy: PredictPolicy | None) -> PredictPolicy:
    """The policy with every absent key filled in; a margin stated nowhere is that of each one's model."""
    policy = policy or PredictPolicy()
    missing = {f.name: getattr(DEFAULTS, f.name) for f in fields(DEFAULTS) if getattr(policy, f.name) is None}
    if policy.safety_margin_percent is None:
        margin = usual_margin(policy.model or DEFAULTS.model)
        missing["safety_margin_percent"] = margin
        for name in ("cpu", "memory"):
            value = getattr(policy, name)
            if value is not None and value.model is not None and value.safety_margin_percent is None:
                own_margin = usual_margin(value.model)
                missing[name] = replace(value, safety_margin_percent=own_margin) if own_margin != margin else value
    return replace(policy, **missing)


def effective(policy: PredictPolicy | None, resource: Resource) -> ResourcePolicy:
    """The model, parameters and margin for one resource: its own part first, then the general one, then defaults."""
    general = with_defaults(policy)
    part = (general.cpu if resource == "cpu" else general.memory) or ResourceOverride()
    margin = part.safety_margin_percent if part.safety_margin_percent is not None else general.safety_margin_percent
    if part.model is not None and part.model != general.model:
        parameters, of = part.parameters, part.of
    else:
        parameters = part.parameters if part.parameters is not None else general.parameters
        of = part.of if part.of is not None else general.of
    return ResourcePolicy(
        model=part.model or general.model or "",
        parameters=parameters or {},
        of=of or (),
        safety_margin_percent=margin or 0,
    )
