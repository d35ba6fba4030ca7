"""One eviction at the API server: looked at once more, then asked for, never forced."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from kubeapi import ApiError, ApiServer, ApiUnavailable, paths
from manager.facts import PodFacts


class Answer(StrEnum):
    """What came of asking for an eviction; the values are those of the metric's label."""

    EVICTED = "evicted"
    """It goes."""
    GONE = "gone"
    """It had gone already, or is on its way out, or is another pod now."""
    BUDGET = "refused-by-budget"
    """A PodDisruptionBudget forbids it now."""
    REFUSED = "refused"
    """Something else forbids it: an admission webhook, missing rights, or what the pod is by now."""
    NOT_LEADING = "not-leading"
    """Another replica decides by now."""


async def ask(api: ApiServer, pod: PodFacts, leads: Callable[[], bool]) -> tuple[Answer, str]:
    """Ask for the eviction of a pod, if it is still the one that was chosen and still where it was.

    Never a plain deletion, which would pass by PodDisruptionBudgets, and never of another pod of the same name.

    Args:
        api: the session.
        pod: the pod as it was chosen.
        leads: whether this replica may write; asked again after the pod was read.

    Returns:
        What came of it, and why if it does not go.

    Raises:
        ApiError: the pod cannot be read.
        ApiUnavailable: the API server is away, or asks to be left alone; the eviction may have been taken.
    """
    path = _path(pod)
    try:
        fresh = PodFacts.from_object(await api.get(path))
    except ApiError as error:
        if error.not_found:
            return Answer.GONE, ""
        raise
    if fresh.uid != pod.uid or fresh.node != pod.node or fresh.terminal or (fresh.mid and fresh.mid.terminating):
        return Answer.GONE, ""
    if fresh.mid is None or fresh.mid.kept:
        return Answer.REFUSED, fresh.mid.kept if fresh.mid else "holds no Mid resources any more"
    return await _request(api, pod) if leads() else (Answer.NOT_LEADING, "")


async def _request(api: ApiServer, pod: PodFacts) -> tuple[Answer, str]:
    namespace, _, name = pod.key.partition("/")
    try:
        await api.create(f"{_path(pod)}/eviction", _eviction(namespace, name, pod.uid))
    except ApiError as error:
        gone = error.not_found or error.conflict
        return (Answer.GONE, "") if gone else (Answer.REFUSED, f"is kept by the API server: {error}")
    except ApiUnavailable as error:
        if _by_budget(error):
            return Answer.BUDGET, "is kept by its PodDisruptionBudget"
        raise
    return Answer.EVICTED, ""


def _path(pod: PodFacts) -> str:
    namespace, _, name = pod.key.partition("/")
    return paths.pod(namespace, name)


def _eviction(namespace: str, name: str, uid: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }


def _by_budget(error: ApiUnavailable) -> bool:
    """Whether a budget refuses (429, or 500 where two budgets hold one pod), and not a server that is overloaded."""
    words = str(error).lower()
    return "disruption budget" in words or "poddisruptionbudget" in words
