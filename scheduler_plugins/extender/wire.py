"""The JSON of `k8s.io/kube-scheduler/extender/v1`. Its Go structs carry no tags, so the keys are Go names."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler_plugins.framework.cycle import MAX_SCORE
from scheduler_plugins.snapshot.arrays import IntArray


class BadRequest(ValueError):  # noqa: N818 - it is what HTTP calls it
    """A body that is no request of an extender; the message says why."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What kube-scheduler asks about (ExtenderArgs)."""

    pod: Mapping[str, Any]
    """The pod, as Kubernetes JSON."""
    names: Sequence[str]
    """The nodes in question."""
    nodes: Mapping[str, Mapping[str, Any]] | None
    """The Node objects by name, when they were sent in full (nodeCacheCapable: false): so is the answer."""


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The answer to filter (ExtenderFilterResult)."""

    names: Sequence[str] = ()
    """The nodes that the pod may be bound to."""
    failed: Mapping[str, str] | None = None
    """Refused nodes with their reasons, on which evicting pods may help."""
    unresolvable: Mapping[str, str] | None = None
    """Refused nodes with their reasons, on which it does not."""
    error: str = ""
    """Why there is no answer."""


def parse(body: bytes) -> Arguments:
    """Read a request.

    Raises:
        BadRequest: it is not one.
    """
    try:
        data = json.loads(body)
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply") from error
    if not isinstance(data, dict):
        raise BadRequest("the body is not an object with Pod and NodeNames")
    pod = data.get("Pod")
    if not isinstance(pod, dict) or not isinstance(pod.get("metadata"), dict) or not isinstance(pod.get("spec"), dict):
        raise BadRequest("Pod: is missing, or has no metadata and spec")
    if data.get("NodeNames") is not None:
        return Arguments(pod, _names(data["NodeNames"]), None)
    if data.get("Nodes") is not None:
        nodes = _nodes(data["Nodes"])
        return Arguments(pod, list(nodes), nodes)
    raise BadRequest("NodeNames and Nodes: both are missing, one has to be there")


def _names(names: object) -> Sequence[str]:
    if not isinstance(names, list) or not set(map(type, names)) <= {str}:
        raise BadRequest("NodeNames: is not a list of names")
    return names


def _nodes(nodes: object) -> dict[str, Mapping[str, Any]]:
    items = nodes.get("items") if isinstance(nodes, dict) else None
    if items is None:
        items = []
    try:
        return {str(node["metadata"]["name"]): node for node in items}
    except (TypeError, KeyError) as error:
        raise BadRequest("Nodes: is not a list of nodes with names") from error


def filter_reply(result: FilterResult, asked: Arguments) -> dict[str, Any]:
    """The JSON of a filter result.

    Raises:
        ValueError: it names a node that was not asked about, which would make kube-scheduler fail the pod.
    """
    strangers = {*result.names, *(result.failed or ()), *(result.unresolvable or ())} - set(asked.names)
    if strangers:
        raise ValueError(f"the answer names nodes that were not sent: {', '.join(sorted(strangers))}")
    full = asked.nodes
    return {
        "Nodes": None if full is None else {"metadata": {}, "items": [full[name] for name in result.names]},
        "NodeNames": list(result.names) if full is None else None,
        "FailedNodes": dict(result.failed or {}),
        "FailedAndUnresolvableNodes": dict(result.unresolvable or {}),
        "Error": result.error,
    }


def prioritize_reply(names: Sequence[str], scores: IntArray) -> list[dict[str, Any]]:
    """The JSON of a HostPriorityList.

    Raises:
        ValueError: a score is out of range, which kube-scheduler would not notice.
    """
    listed: list[int] = scores.tolist()
    if listed and not (min(listed) >= 0 and max(listed) <= MAX_SCORE):
        raise ValueError(f"a score is outside of 0..{MAX_SCORE:.0f}: {min(listed)}..{max(listed)}")
    return [{"Host": name, "Score": score} for name, score in zip(names, listed, strict=True)]
