"""Why these pods have to leave, as a sentence with the numbers."""

from collections.abc import Iterable

from crds.quantity import format_bytes, format_milli_cores
from scheduler_plugins.quota.amounts import Amounts
from scheduler_plugins.quota.comparing import over_min, over_min_with
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.reclaim.situation import Situation


def arithmetic(situation: Situation, victims: Iterable[QuotaPod]) -> str:
    """Why they, and not others: whose quota uses more than is guaranteed, and who needs it.

    "quota a/qa uses 6 of min 4 (nvidia.com/gpu), quota b/qb needs 3 of its min 6"
    """
    pod, quota = situation.pod, situation.quota
    if quota is None:
        return f"no quota in namespace {pod.namespace}: pods of lower priority than {pod.priority} without a quota go"
    if situation.beyond_min:
        used = situation.used_by(pod.namespace)
        resource = over_min_with(used, quota.min, situation.own)[0]
        numbers = f"uses {_text(resource, used)} of min {_text(resource, quota.min)} ({resource})"
        needs = f"needs {_text(resource, pod.charge)} more"
        return f"quota {quota.key} {numbers} and {needs}: its own pods of lower priority than {pod.priority} go"
    told = []
    for namespace in dict.fromkeys(victim.namespace for victim in victims):
        lender = situation.cluster.book.quota(namespace)
        over = over_min(situation.used_by(namespace), lender.min) if lender is not None else []
        if lender is not None and over:
            resource = next((name for name in over if name in pod.charge), over[0])
            used = situation.used_by(namespace)
            told.append(
                f"quota {lender.key} uses {_text(resource, used)} of min {_text(resource, lender.min)} ({resource})"
            )
    resource = next((name for name in pod.charge if pod.charge[name] and quota.min.get(name)), "")
    needs = f"needs {_text(resource, pod.charge)} of its min {_text(resource, quota.min)}" if resource else "needs room"
    return ", ".join([*told, f"quota {quota.key} {needs}"])


def _text(resource: str, amounts: Amounts) -> str:
    amount = amounts.get(resource, 0)
    if resource == "cpu":
        return format_milli_cores(amount)
    return format_bytes(amount) if resource in {"memory", "ephemeral-storage"} else str(amount)
