"""Results for programs and for tables: one JSON document, rows of text. No files, no terminals.

The JSON is a stable contract: fields are added, never renamed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from agent.api import PREDICTORS, resolve
from crds.codec import json_name
from crds.duration import format_span
from crds.predict_policy import effective
from kubectl_headroom.backtest import policies
from kubectl_headroom.backtest.durations import format_timestamp
from kubectl_headroom.backtest.engine import ORACLE, NamedPolicy, Plan
from kubectl_headroom.backtest.score import Result
from kubectl_headroom.backtest.trace import Resource, Trace

KIND: Final = "Backtest"
VERSION: Final = 1
DEFINITIONS: Final[Mapping[str, str]] = {
    "oracle": "the highest sum of the usage of the series on the machine at a step, from then to the end of the "
    "horizon, at most their limits",
    "violationPercent": "share of the steps at which the predicted peak was below the oracle's; mean, median and 90th "
    "percentile over the machines of all seeds",
    "severityPercent": "mean over all steps and machines of max(0, oracle - predicted) / oracle",
    "savingsPercent": "(limits - predicted) / limits, summed over steps and machines",
    "margin": "figures include the policy's margin; a series observed for less than the policy's cold period counts "
    "at its limit",
}
"""The meaning of the figures."""
_DIGITS: Final = 6
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Report:
    """Results of a backtest."""

    choices: tuple[NamedPolicy, ...]  # the policies, without the oracle
    traces: tuple[Trace, ...]
    plan: Plan
    results: tuple[Result, ...]  # one for each policy and the oracle, resource and horizon
    notes: tuple[str, ...] = ()  # assumptions, one sentence each, beside the notes of the traces

    @property
    def all_notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(note for trace in self.traces for note in trace.notes), *self.notes]))


def document(report: Report) -> dict[str, Any]:
    """Return everything for programs: `results` as in the contract, and the inputs that repeat them."""
    plan, churn = report.plan, report.plan.churn
    return {
        "kind": KIND,
        "version": VERSION,
        "results": [_result(result) for result in report.results],
        "policies": {choice.name: policies.as_json(choice) for choice in report.choices},
        "traces": [_trace(trace) for trace in report.traces],
        "plan": {
            "warmUpSeconds": plan.warm_up_seconds,
            "workloadHistory": plan.workload_history != "none",
            "workloadHistoryOf": plan.workload_history,
            "churn": churn
            and {
                "meanLifeSeconds": churn.mean_life_seconds,
                "slotsPerMachine": churn.slots_per_machine,
                "comesBackPercent": churn.comes_back_percent,
                "comesBackOnAny": churn.comes_back_on_any,
            },
        },
        "notes": list(report.all_notes),
        "definitions": dict(DEFINITIONS),
    }


def ranked(results: Sequence[Result]) -> list[Result]:
    """Results as people compare them: by resource and horizon, and there the safest first, the oracle before all."""
    resources = list(dict.fromkeys(result.resource for result in results))
    return sorted(
        results,
        key=lambda each: (
            resources.index(each.resource),
            each.horizon_seconds,
            each.policy != ORACLE,
            each.violation_percent.mean,
            -each.savings_percent,
        ),
    )


def dominating_policy(result: Result, others: Sequence[Result]) -> str:
    """The policy that dominates this one, of this resource and horizon; the one that saves most of several; else "".

    It violates no more and saves no less, and is strictly better in one. The oracle does not count.
    """
    if result.policy == ORACLE:
        return ""
    violated, saved = _point(result)
    cells = [
        (theirs, other.policy)
        for other in others
        if other.policy != ORACLE
        and (other.resource, other.horizon_seconds) == (result.resource, result.horizon_seconds)
        and (theirs := _point(other)) != (violated, saved)
        and theirs[0] <= violated
        and theirs[1] >= saved
    ]
    return max(cells, key=lambda cell: cell[0][1])[1] if cells else ""


def _point(result: Result) -> tuple[float, float]:
    """Violation and savings, as they are shown. [percent]"""
    return _rounded(result.violation_percent.mean), _rounded(result.savings_percent)


def always_cold(choices: Sequence[NamedPolicy], trace: Trace, plan: Plan) -> list[str]:
    """A note about policies that predicted nothing, because all that counts lies within their cold period."""
    longest = trace.steps * trace.step_seconds - min(plan.horizons_seconds)
    colds = {choice.name: resolve(choice.policy).cold_start_seconds for choice in choices}
    names = [name for name, cold in colds.items() if cold > longest]
    if not names:
        return []
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    shortest = format_span(min(colds[name] for name in names))
    why = f"the trace is too short for a cold period of {shortest}"
    return [f"Every series is cold with {shown}: {why}. A shorter one is written cold=2h."]


def margin_percent(choice: NamedPolicy, resource: Resource) -> int:
    """The margin that is in a policy's figures. [percent]"""
    return effective(choice.policy, resource).safety_margin_percent


def description(choice: NamedPolicy) -> str:
    """A policy in one line, nothing left open: model and parameters of each resource, margin, cold period."""
    policy = resolve(choice.policy)
    parts = {
        resource: f"{_model(each.name, each.model)}, margin {round(100 * (each.margin - 1))} %"
        for resource, each in policy.models.items()
    }
    same = len(set(parts.values())) == 1
    text = parts["cpu"] if same else "; ".join(f"{resource}: {part}" for resource, part in parts.items())
    return f"{text}; cold for {format_span(policy.cold_start_seconds)}"


def _model(name: str, model: object) -> str:
    """A model with all its parameters, default ones included."""
    values = {field.name: getattr(model, field.name) for field in fields(model) if field.init}  # type: ignore[arg-type]
    inner = values.pop("of", ())
    of = f"({', '.join(_model(_name(model), model) for model in inner)})" if inner else ""
    parameters = [f"{json_name(key)} {_value(value)}" for key, value in values.items() if value is not None]
    if len(parameters) < len(values):  # the model chooses by the resource
        parameters.append("the rest as usual" if parameters else "as usual")
    return f"{name}{of}{' ' if parameters else ''}{', '.join(parameters)}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _name(model: object) -> str:
    # That of its class for one of a third party.
    kind = f"{type(model).__module__}:{type(model).__qualname__}"
    return next((name for name, target in PREDICTORS.items() if target == kind), type(model).__qualname__)


def _result(result: Result) -> dict[str, Any]:
    seeds: int | list[int] | None = list(result.seeds)
    if len(result.seeds) < 2:  # noqa: PLR2004 - one seed is a number, none is the real placement
        seeds = result.seeds[0] if result.seeds else None
    return {
        "policy": result.policy,
        "resource": result.resource,
        "horizonSeconds": result.horizon_seconds,
        "machines": result.machines,
        "seed": seeds,
        "violationPercent": {name: _rounded(value) for name, value in result.violation_percent._asdict().items()},
        "severityPercent": _rounded(result.severity_percent),
        "savingsPercent": _rounded(result.savings_percent),
    }


def _trace(trace: Trace) -> dict[str, Any]:
    return {
        "resource": trace.resource,
        "source": trace.source,
        "series": trace.series,
        "steps": trace.steps,
        "stepSeconds": trace.step_seconds,
        "from": format_timestamp(trace.times[0]),
        "until": format_timestamp(trace.times[-1]),
        "notes": list(trace.notes),
    }


def _rounded(value: float) -> float:
    return round(float(value), _DIGITS)
