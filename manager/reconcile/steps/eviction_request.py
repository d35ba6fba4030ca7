"""An eviction at the API server: the pod is read once more, then its eviction is requested, never forced."""

from enum import StrEnum
from http import HTTPStatus
from typing import Final

from headroom.cluster.typed_pod import typed_pod
from headroom.kube import ApiError, ApiServer, ApiUnavailable, paths
from manager.inputs import PodInputs

_ATTEMPTS: Final = 3  # how often the eviction of a pod that changes meanwhile is requested


class EvictionOutcome(StrEnum):
    """Result of an eviction request; the values are those of the metric's label."""

    EVICTED = "evicted"
    GONE = "gone"  # it is gone, terminating, or another pod now
    BUDGET = "refused-by-budget"  # a PodDisruptionBudget forbids it now
    REFUSED = "refused"  # rejected by an admission webhook, for missing rights, or because of the pod's present state


async def recheck(api: ApiServer, pod: PodInputs) -> tuple[EvictionOutcome, str] | None:
    """Read a pod just before its eviction: `None` if it is still the selected pod on the same node.

    Returns:
        Otherwise the result, and why the pod stays if it does.
    """
    try:
        fresh = PodInputs.from_object(typed_pod(await api.get(_path(pod))))
    except ApiError as error:
        if error.not_found:
            return EvictionOutcome.GONE, ""
        raise
    if fresh.uid != pod.uid or fresh.node != pod.node or fresh.terminal or (fresh.mid and fresh.mid.terminating):
        return EvictionOutcome.GONE, ""
    if fresh.mid is None or fresh.mid.kept:
        return EvictionOutcome.REFUSED, fresh.mid.kept if fresh.mid else "no longer holds Mid resources"
    return None


async def request(api: ApiServer, pod: PodInputs) -> tuple[EvictionOutcome, str]:
    """Request the eviction of this very pod. Never a plain deletion, which would ignore PodDisruptionBudgets.

    Returns:
        The result, and why the pod stays if it does.
    """
    for _ in range(_ATTEMPTS):
        answer = await _once(api, pod) or await recheck(api, pod)
        if answer is not None:
            return answer
    return EvictionOutcome.REFUSED, f"has changed each of {_ATTEMPTS} times"


async def _once(api: ApiServer, pod: PodInputs) -> tuple[EvictionOutcome, str] | None:
    """Request once; `None`: the pod was replaced or has just changed, between which a conflict does not distinguish."""
    namespace, _, name = pod.key.partition("/")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    try:
        await api.create(f"{_path(pod)}/eviction", body)
    except ApiError as error:
        if error.conflict:
            return None
        gone = error.not_found
        return (EvictionOutcome.GONE, "") if gone else (EvictionOutcome.REFUSED, f"is kept by the API server: {error}")
    except ApiUnavailable as error:
        # A budget refuses with 429, or 500 where two budgets match one pod; so does an overloaded server.
        if any(words in str(error).lower() for words in ("disruption budget", "poddisruptionbudget")):
            return EvictionOutcome.BUDGET, "is kept by its PodDisruptionBudget"
        if is_refusal(error) or await recheck(api, pod) != (EvictionOutcome.GONE, ""):
            raise
        # only the answer was lost
    return EvictionOutcome.EVICTED, ""


def is_refusal(error: ApiError | ApiUnavailable) -> bool:
    """Return whether an error of `request` means that no pod was evicted; a lost response or a 5xx does not."""
    return isinstance(error, ApiError) or error.status == HTTPStatus.TOO_MANY_REQUESTS


def _path(pod: PodInputs) -> str:
    return paths.pod(*pod.key.split("/", 1))
