"""Which prediction policy is in force: the requested one when it can be followed, else the last good one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from agent.prediction.stated_risk import StatedRisk, risk_of
from agent.predictors import PolicyError, build, window_days
from agent.predictors.base import DAY_SECONDS, Model
from agent.samples import CPU, MEMORY
from crds.codec import to_json
from crds.predict_policy import DEFAULTS, RANGES, PredictPolicy, Resource, effective, faults, with_defaults
from crds.ranges import problems

PATH: Final = "spec.predictPolicy"  # the path of the policy in a NodeMetric


@dataclass(frozen=True, slots=True)
class ResourceModel:
    """The model of one resource with its arguments."""

    name: str  # its name in the policy
    model: Model
    margin: float  # factor for measured usage; 1.1 for 10 percent
    system_model: Model  # the model of the system: the same, unless that one reads requests alone
    cold_start_seconds: float  # evidence below this is too little. [s]

    @property
    def for_system(self) -> "ResourceModel":
        return replace(self, model=self.system_model)

    @property
    def risk(self) -> StatedRisk:
        """Return for how long a prediction has to hold, and how often it may be too low."""
        return risk_of(self.model, f"{self.model!r}, margin {self.margin:g}")


@dataclass(frozen=True, slots=True)
class WorkloadHistoryRule:
    """The factor and the evidence with which a cold pod counts by the history of its workload."""

    margin: float  # factor for the workload's highest usage; 1.1 for 10 percent
    pod_seconds: float  # observed time of its pods, added up, from which on a workload is known. [s]
    nodes: int  # nodes that have observed it for `LEAST_HOURS`, from which on a workload is known


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy that can be followed, nothing left open."""

    policy: PredictPolicy  # the policy with its defaults
    models: Mapping[str, ResourceModel]  # by resource
    cold_start_seconds: float  # A pod with less evidence counts at its request. [s]
    reclaim_ratio: float  # share of the warm Prod pods' requests that is reclaimable, 0..1
    problem: str = ""  # why the requested policy is not the one in force; empty when it is

    @property
    def workload_history(self) -> WorkloadHistoryRule | None:
        """The rule for cold pods of known workloads; None for a policy without it."""
        policy = self.policy
        if not policy.use_workload_history:
            return None
        margin = (100 + (policy.workload_history_margin_percent or 0)) / 100
        days, nodes = policy.workload_history_pod_days or 0, policy.workload_history_nodes or 0
        return WorkloadHistoryRule(margin, days * DAY_SECONDS, nodes)

    @property
    def window_days(self) -> float:
        """Return the longest window of its models. [days]"""
        return max(
            window_days(model) for resource in self.models.values() for model in (resource.model, resource.system_model)
        )


def in_force(requested: PredictPolicy | None, last_good: PredictPolicy | None) -> Policy:
    """The requested policy, else the last good one, else the default."""
    try:
        return resolve(requested)
    except PolicyError as error:
        reason = str(error)
    for fallback in (last_good, DEFAULTS):
        try:
            return resolve(fallback, problem=reason)
        except PolicyError:  # a model that was installed at the last check, and has been removed
            continue
    raise AssertionError("the default policy can be followed")  # pragma: no cover - a test resolves it


def resolve(policy: PredictPolicy | None, problem: str = "") -> Policy:
    """The policy with its models; PolicyError if a number is out of range, or a model or parameter unknown."""
    full = with_defaults(policy)
    wrong = problems(to_json(full), RANGES, PATH)
    wrong += [f"{PATH}.{where}: {message}".replace(".:", ":") for where, message in faults(to_json(full))]
    for part in ("cpu", "memory"):
        value = getattr(full, part)
        if value is not None:
            wrong += problems(to_json(value), RANGES, f"{PATH}.{part}")
    if wrong:
        raise PolicyError(wrong[0])
    cold_start = float(full.cold_start_period_seconds or 0)
    return Policy(
        policy=full,
        models={metric: _model(full, metric, cold_start) for metric in (CPU, MEMORY)},
        cold_start_seconds=cold_start,
        reclaim_ratio=(full.reclaim_ratio_percent or 0) / 100,
        problem=problem,
    )


def _model(policy: PredictPolicy, metric: str, cold_start: float) -> ResourceModel:
    part = policy.cpu if metric == CPU else policy.memory
    overrides = part is not None and (part.model is not None or part.parameters is not None or part.of is not None)
    chosen = effective(policy, cast("Resource", metric))
    model = build(chosen, f"{PATH}.{metric}" if overrides else PATH)
    system = model if model.measured else build(effective(DEFAULTS, cast("Resource", metric)), PATH)
    return ResourceModel(chosen.model, model, (100 + chosen.safety_margin_percent) / 100, system, cold_start)
