"""The next step for a cluster without Mid resources in use, with its numbers. Pure."""

from typing import Any, Final

from crds.colocation import ColocationConfig
from crds.duration import short_age
from crds.quantity import short_bytes, short_milli_cores
from manager.config.merge import effective_strategy
from manager.web.history import Series
from manager.web.overview import Overview
from manager.web.recorder import READY
from manager.web.state import State

_GUIDE: Final = "docs/write-a-mid-workload.md"

Json = dict[str, Any]


def next_step(found: Overview, edit: str, config: ColocationConfig) -> Json | None:
    """Return {"text", "command"}, or None when pods request Mid; the command may be null.

    Args:
        found: the cluster.
        edit: the command that edits the colocation config.
        config: the colocation config in force.
    """
    published = found.number(Series.MID, "cpu"), found.number(Series.MID, "memory")
    if any(published):
        requested = found.number(Series.MID_REQUESTED, "cpu") or found.number(Series.MID_REQUESTED, "memory")
        return None if requested else _step(_unrequested(*published))
    if found.nodes and not found.reporting:
        return _step(f"None of {found.nodes} nodes reports usage. Find the reason:", "kubectl headroom doctor")
    return _unpublished(found, edit, config)


def _unpublished(found: Overview, edit: str, config: ColocationConfig) -> Json | None:
    states = found.states
    if states.get(State.OFF):
        text = f"Colocation is disabled, so nothing is published. {_gain(found)}. To calculate without publishing, set"
        return _step(f'{text} "enable": true and "mode": "shadow":', edit)
    if states.get(State.SHADOW):
        text = f'Mode is shadow, so nothing is published. {_gain(found)}. To publish, set "mode": "active" when this'
        return _step(f"{text} is seldom too much:", "kubectl headroom shadow")
    if states.get(State.LEARNING) or states.get(State.NEW):
        return _step(_cold(found, config), "kubectl headroom explain node NAME")
    if zeros := states.get(State.NOTHING):
        text = f"The formula yields 0 on {zeros} of {found.nodes} nodes. Find the operand that is zero:"
        return _step(text, "kubectl headroom explain node NAME")
    return None


def _step(text: str, command: str | None = None) -> Json:
    return {"text": text, "command": command}


def _unrequested(cpu: float | None, memory: float | None) -> str:
    return f"Nodes publish {_pair(cpu, memory)} of Mid, and no pod requests it. To write such a pod, read {_GUIDE}."


def _gain(found: Overview) -> str:
    ready, pods = found.predictions.get(READY, 0), found.warm + found.cold
    if not ready:
        return f"No node has a prediction yet: {found.warm} of {pods} Prod pods are warm"
    return f"{ready} of {found.nodes} nodes have a prediction; publishing would add about {_pair(*found.waste)}"


def _cold(found: Overview, config: ColocationConfig) -> str:
    policy = effective_strategy(config).strategy.node_predict_policy
    period = short_age((policy and policy.cold_start_period_seconds) or 0)
    return (
        f"Wait: {found.warm} of {found.warm + found.cold} Prod pods are warm. A pod is warm after {period} of "
        "observation (coldStartPeriodSeconds); until then it counts at its request. Find the pod that is closest:"
    )


def _pair(cpu: float | None, memory: float | None) -> str:
    return f"{short_milli_cores(round((cpu or 0) * 1000))} CPU and {short_bytes(round((memory or 0) * 2**30))} memory"
