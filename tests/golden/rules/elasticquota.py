"""Rules for `elasticquota.json`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.golden.rules.rule import Deviation, Input, Rule
from tests.golden.second_opinion import quota

_EARLIER: Final = "pods that were there before the quota count"
_SEVERAL: Final = "of several quotas in a namespace the oldest is in force, then the first by name"
_RESIZED: Final = "resize is followed"
_ENDED: Final = "pods that have ended are charged nothing, however they were seen first"
_NOW: Final = "a pod is charged by its present phase: also one that has none yet, and one that runs again"
_CHARGED: Final = "status.used is what admission charges: every pod on a node, with its overhead"

_OVER: Final = ("Succeeded", "Failed", "Unknown")


def _steps(vector: Input) -> Iterator[tuple[str, Any]]:
    for step in vector["steps"]:
        yield from step.items()


def _pod_before_quota(vector: Input) -> bool:
    """Whether a pod was there while its namespace had no quota, which it got later."""
    quotas: set[tuple[str, str]] = set()
    pods: set[tuple[str, str]] = set()
    for kind, given in _steps(vector):
        item = given[1] if kind.startswith("update") else given
        metadata = (item.get("pod") or item)["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata.get("uid") or metadata["name"]
        if kind in ("addQuota", "updateQuota"):
            if namespace in {each for each, _ in pods} and namespace not in {each for each, _ in quotas}:
                return True
            quotas.add((namespace, metadata["name"]))
        elif kind == "deleteQuota":
            quotas.discard((namespace, metadata["name"]))
        elif kind == "deletePod":
            pods.discard((namespace, name))
        else:
            pods.add((namespace, name))
    return False


def _several_quotas(vector: Input) -> bool:
    names: dict[str, set[str]] = {}
    for kind, given in _steps(vector):
        if kind in ("addQuota", "updateQuota"):
            metadata = (given[1] if kind == "updateQuota" else given)["metadata"]
            names.setdefault(metadata["namespace"], set()).add(metadata["name"])
    return any(len(found) > 1 for found in names.values())


def _resized(vector: Input) -> bool:
    known: dict[str, Mapping[str, int]] = {}
    for kind, given in _steps(vector):
        if kind.endswith("Quota"):
            continue
        item = given[1] if kind == "updatePod" else given.get("pod") or given
        asked = quota.requests(item)
        if known.setdefault(item["metadata"].get("uid") or item["metadata"]["name"], asked) != asked:
            return True
    return False


def _ended(vector: Input) -> bool:
    phases = ((given.get("status") or {}).get("phase") for kind, given in _steps(vector) if kind == "addPod")
    return any(phase in _OVER for phase in phases)


def _none_or_again(vector: Input) -> bool:
    """Whether a pod was updated to no phase, or came back from one in which it is not charged."""
    updates = (given for kind, given in _steps(vector) if kind == "updatePod")
    phases = ([(pod.get("status") or {}).get("phase") for pod in given] for given in updates)
    return any(not new or (old in _OVER and new not in _OVER) for old, new in phases)


def _state(vector: Input, _theirs: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"ns1": quota.state(vector["steps"], "ns1")}


RULES: Final[tuple[Rule, ...]] = (
    Deviation("elasticquota", ("events",), _EARLIER, ours=_state, when=_pod_before_quota),
    Deviation("elasticquota", ("events",), _SEVERAL, ours=_state, when=_several_quotas),
    Deviation("elasticquota", ("events",), _RESIZED, ours=_state, when=_resized),
    Deviation("elasticquota", ("events",), _ENDED, ours=_state, when=_ended),
    Deviation("elasticquota", ("events",), _NOW, ours=_state, when=_none_or_again),
    Deviation(
        "elasticquota",
        ("status_used",),
        _CHARGED,
        ours=lambda vector, _theirs: {"used": quota.status_used(vector)},
    ),
)
"""Its rules."""
