"""Simulations for programs, in JSON or YAML. The shape is stable: fields are added, never renamed or removed.

kind, version       "PodSimulation", 1
profile             {"origin", "mode", "shortlistSize", "plugins": [{"name", "weight"}]}
notes               sentences: unmodelled parts, and unreadable objects
pods                per pod:
  pod               "Deployment default/web"
  band, priority, schedulerName
  estimate          {resource: estimated usage of the pod}; cpu in milli-cores, the rest in base units
  nodes             per node, those that pass first and the best of them first:
    node
    passes          whether every filter lets it pass
    refusals        [{"plugin", "reason", "binding"}]: all that refuse it; binding is one sentence with the limit
                    that binds and the numbers against it, null where the plugin gives none
    rank            1 is the best, equal totals share one; null: refused
    total           0..100, the weighted mean that ranks the node; null: refused
    score           the total as the extender sends it, rounded; null: refused
    plugins         {plugin: {"raw": 0..100, "weight", "weighted": its part of the total}}
    numbers         {plugin: {...}}: the numbers behind its verdict and score; names contain the units
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from kubectl_headroom import output as outputs
from kubectl_headroom.simulate.profile import SelectedProfile
from kubectl_headroom.simulate.simulation import Outcome, Simulation

KIND: Final = "PodSimulation"
VERSION: Final = 1


def show(chosen: SelectedProfile, simulations: Sequence[Simulation], notes: Sequence[str], output: str) -> None:
    """Print the simulations for programs."""
    outputs.show(json.loads(json.dumps(as_json(chosen, simulations, notes), default=_plain)), output)


def as_json(chosen: SelectedProfile, simulations: Sequence[Simulation], notes: Sequence[str]) -> dict[str, Any]:
    """The simulations as JSON objects; numbers of plugins may be numpy's."""
    answering = chosen.profile.answering
    return {
        "kind": KIND,
        "version": VERSION,
        "profile": {
            "origin": chosen.origin,
            "mode": str(answering.mode),
            "shortlistSize": answering.shortlist.size,
            "plugins": [{"name": part.name, "weight": part.weight} for part in chosen.profile.enabled],
        },
        "notes": list(notes),
        "pods": [_pod(simulation) for simulation in simulations],
    }


def _pod(simulation: Simulation) -> dict[str, Any]:
    request = simulation.request
    return {
        "pod": simulation.title,
        "band": str(request.band.value),
        "priority": request.priority,
        "schedulerName": simulation.scheduler_name,
        "estimate": dict(simulation.estimate),
        "nodes": [_node(outcome) for outcome in simulation.outcomes],
    }


def _node(outcome: Outcome) -> dict[str, Any]:
    return {
        "node": outcome.node,
        "passes": not outcome.refusals,
        "refusals": [
            {"plugin": plugin, "reason": reason, "binding": binding(outcome, plugin)}
            for plugin, reason in outcome.refusals.items()
        ],
        "rank": outcome.rank,
        "total": outcome.total,
        "score": outcome.answer,
        "plugins": {
            plugin: {"raw": score.raw, "weight": score.weight, "weighted": score.weighted}
            for plugin, score in outcome.scores.items()
        },
        "numbers": {plugin: dict(numbers) for plugin, numbers in outcome.numbers.items()},
    }


def binding(outcome: Outcome, plugin: str) -> str | None:
    """The sentence with the limit that binds, if the plugin gives one."""
    numbers = outcome.numbers.get(plugin)
    result = numbers.get("binding") if isinstance(numbers, Mapping) else None
    return str(result) if result else None


def _plain(value: Any) -> Any:  # noqa: ANN401 - numbers that a plugin took out of an array
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, set | frozenset | tuple) else str(value)
