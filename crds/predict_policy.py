"""The prediction policy: `nodePredictPolicy` in the ConfigMap, `spec.predictPolicy` in a NodeMetric."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from crds.codec import Part
from crds.ranges import Allowed, Range

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
    """What differs for one resource."""

    model: str | None = None
    """Name of the model; with it, `parameters` and `of` of the general part no longer apply."""
    parameters: Mapping[str, Any] | None = None
    """Parameters of the model."""
    of: tuple[ModelChoice, ...] | None = None
    """The models that `max` combines."""
    safety_margin_percent: int | None = None
    """Added to what was measured. [percent]"""


@dataclass(frozen=True, slots=True)
class PredictPolicy(Part):
    """All keys of the policy; an absent one takes its default from `DEFAULTS`."""

    resource_diff_threshold_percent: int | None = None
    """A fast report is sent when the prediction has moved by more than this. [percent]"""
    check_interval_seconds: int | None = None
    """How often the prediction is compared with the one last sent. [s]"""
    force_update_interval_seconds: int | None = None
    """A fast report is sent at the latest after this time. [s]"""
    cold_start_period_seconds: int | None = None
    """A pod counts at its request until it was observed this long. [s]"""
    reclaim_ratio_percent: int | None = None
    """Share of the warm Prod pods' requests that may be resold. [percent]"""
    safety_margin_percent: int | None = None
    """Added to what was measured; absent is 0 for the default model, 10 for any other. [percent]"""
    model: str | None = None
    """Name of the model."""
    parameters: Mapping[str, Any] | None = None
    """Parameters of the model."""
    of: tuple[ModelChoice, ...] | None = None
    """The models that `max` combines."""
    cpu: ResourceOverride | None = None
    """What differs for CPU."""
    memory: ResourceOverride | None = None
    """What differs for memory."""


DEFAULTS: Final = PredictPolicy(
    resource_diff_threshold_percent=5,
    check_interval_seconds=20,
    force_update_interval_seconds=600,
    cold_start_period_seconds=86400,
    reclaim_ratio_percent=100,
    model="load-profile",
)
"""The policy when nobody says otherwise. Its safety margin is `usual_margin`; its parameters are the model's own."""
_OTHER_MARGIN_PERCENT: Final = 10

RANGES: Final[Mapping[str, Allowed]] = {
    "resourceDiffThresholdPercent": Range(1, 100),
    "checkIntervalSeconds": Range(5, 600),
    "forceUpdateIntervalSeconds": Range(60, 3600),
    "coldStartPeriodSeconds": Range(0, 2592000),
    "reclaimRatioPercent": Range(0, 100),
    "safetyMarginPercent": Range(0, 100),
}
"""Allowed values by JSON name; `cpu` and `memory` parts share the last."""


@dataclass(frozen=True, slots=True)
class ResourcePolicy:
    """The policy as it applies to one resource, nothing left open."""

    model: str
    """Name of the model."""
    parameters: Mapping[str, Any]
    """Its parameters; what is missing is the model's own default."""
    of: tuple[ModelChoice, ...]
    """The models that `max` combines; empty for all others."""
    safety_margin_percent: int
    """Added to what was measured. [percent]"""


def usual_margin(model: str | None) -> int:
    """The safety margin of a model where nobody states one. [percent]

    The default model was chosen with the margin that it ships with, none: what it adds for what was not seen yet is a
    margin of its own. The others are plain statements about what was seen.
    """
    return 0 if model == DEFAULTS.model else _OTHER_MARGIN_PERCENT


def with_defaults(policy: PredictPolicy | None) -> PredictPolicy:
    """The policy with every absent key filled in; a margin stated nowhere is that of each one's model."""
    policy = policy or PredictPolicy()
    missing = {f.name: getattr(DEFAULTS, f.name) for f in fields(DEFAULTS) if getattr(policy, f.name) is None}
    if policy.safety_margin_percent is None:
        margin = usual_margin(policy.model or DEFAULTS.model)
        missing["safety_margin_percent"] = margin
        for name in ("cpu", "memory"):
            own = getattr(policy, name)
            if own is not None and own.model is not None and own.safety_margin_percent is None:
                own_margin = usual_margin(own.model)
                missing[name] = replace(own, safety_margin_percent=own_margin) if own_margin != margin else own
    return replace(policy, **missing)


def effective(policy: PredictPolicy | None, resource: Resource) -> ResourcePolicy:
    """The model, parameters and margin for one resource: its own part first, then the general one, then defaults."""
    general = with_defaults(policy)
    own = (general.cpu if resource == "cpu" else general.memory) or ResourceOverride()
    margin = own.safety_margin_percent if own.safety_margin_percent is not None else general.safety_margin_percent
    if own.model is not None and own.model != general.model:
        parameters, of = own.parameters, own.of
    else:
        parameters = own.parameters if own.parameters is not None else general.parameters
        of = own.of if own.of is not None else general.of
    return ResourcePolicy(
        model=own.model or general.model or "",
        parameters=parameters or {},
        of=of or (),
        safety_margin_percent=margin or 0,
    )
