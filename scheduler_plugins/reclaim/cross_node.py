"""Victims on several nodes, where no single node frees enough quota."""

from collections.abc import Iterable

from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.reclaim.budgets import BudgetsRule
from scheduler_plugins.reclaim.choosing import pick
from scheduler_plugins.reclaim.situation import Freed, Situation, importance
from scheduler_plugins.reclaim.victims import Candidate, Misfit


def combine(situation: Situation, nodes: Iterable[str], misfit: Misfit, budgets_rule: BudgetsRule) -> Candidate | None:
    """Who has to leave, on the node where the pod goes and elsewhere; None: nothing helps.

    Args:
        situation: of the pod that found no node.
        nodes: names of the nodes that come into question.
        misfit: judges whether the pod fits.
        budgets_rule: what PodDisruptionBudgets mean.
    """
    around = (_around(situation, node, misfit) for node in nodes)
    found = [candidate for candidate in around if candidate is not None]
    if budgets_rule is BudgetsRule.RESPECT:
        found = [candidate for candidate in found if not situation.budgets.refuse(candidate.victims)]
    return pick(found) if found else None


def _around(situation: Situation, node: str, misfit: Misfit) -> Candidate | None:
    cluster, pod = situation.cluster, situation.pod
    freed, gone = Freed(situation), set(situation.going)
    others = [each for other in cluster.nodes if other != node for each in situation.possible(other)]
    order = situation.possible(node) + sorted(others, key=importance, reverse=True)
    potential: list[QuotaPod] = []
    for each in order:
        if situation.may_go(each, freed):
            potential.append(each)
            freed.take(each)
            if each.node == node:
                gone.add(each.uid)
    if not potential or not freed.suffices() or misfit(pod, node, gone) is not None:
        return None
    protected, others = situation.budgets.split(sorted(potential, key=importance))
    victims: list[QuotaPod] = []
    for each in (*protected, *others):
        local = each.node == node
        freed.give(each)
        if local:
            gone.remove(each.uid)
        if not freed.suffices() or (local and misfit(pod, node, gone) is not None):
            freed.take(each)
            if local:
                gone.add(each.uid)
            victims.append(each)
    if not victims:
        return None
    uids = {each.uid for each in protected}
    return Candidate(node, tuple(sorted(victims, key=importance)), sum(each.uid in uids for each in victims))
