"""Why these pods have to leave, as a sentence with the numbers."""

from collections.abc import Iterable, Sequence
from typing import Final

from scheduler_plugins.preemption.selection.context import PreemptionContext
from scheduler_plugins.quota.comparison import over_min_with
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.quota.quota import Quota
from scheduler_plugins.quota.resource_list import quantity

_TOLD: Final = 3


def arithmetic(context: PreemptionContext, victims: Iterable[QuotaPod]) -> str:
    """Why they, and not others: whose quota uses more than is guaranteed, and who needs it.

    "quota a/qa uses 6 of min 4 (nvidia.com/gpu), quota b/qb needs 3 of its min 6"
    """
    pod, quota = context.pod, context.quota
    if quota is None:
        return f"no quota in namespace {pod.namespace}: pods of lower priority than {pod.priority} without a quota go"
    if context.beyond_min:
        resource = _decisive(context, over_min_with(context.used_by(pod.namespace), quota.min, context.own))
        needs = f"needs {quantity(resource, pod.charge.get(resource, 0))} more"
        return f"{_uses(context, quota, resource)} and {needs}: its own pods of lower priority than {pod.priority} go"
    told, resources = [], []
    for namespace in dict.fromkeys(victim.namespace for victim in victims):
        lender = context.cluster.ledger.quota(namespace)
        if lender is not None and namespace in context.lenders:
            resources.append(_decisive(context, list(context.lenders[namespace])))
            told.append(_uses(context, lender, resources[-1]))
    if len(told) > _TOLD:
        told[_TOLD:] = [f"{len(told) - _TOLD} further quotas use more than their min"]
    return ", ".join([*told, _needs(context, quota, resources)])


def _decisive(context: PreemptionContext, resources: Sequence[str]) -> str:
    """The one of several resources that is spoken of: one that is short, else one that the pod asks for."""
    short = {**context.shortage[0], **context.shortage[1]}
    asked = (name for name in resources if context.pod.charge.get(name, 0) > 0)
    return next((name for name in resources if name in short), None) or next(asked, resources[0])


def _uses(context: PreemptionContext, quota: Quota, resource: str) -> str:
    used = context.used_by(quota.namespace).get(resource, 0)
    least = quota.min.get(resource, 0)
    return f"quota {quota.key} uses {quantity(resource, used)} of min {quantity(resource, least)} ({resource})"


def _needs(context: PreemptionContext, quota: Quota, resources: Sequence[str]) -> str:
    """What the pod needs of what is guaranteed to its namespace: of these resources if it asks for any."""
    charge = context.pod.charge
    asked = [name for name in (*resources, *charge) if charge.get(name, 0) > 0]
    if not asked:
        return f"quota {quota.key} needs a place for one more pod"
    name = asked[0]
    of = f" ({name})" if name not in resources else ""
    least = quantity(name, quota.min.get(name, 0))
    return f"quota {quota.key} needs {quantity(name, charge[name])} of its min {least}{of}"
