"""What the chart puts around the services: nothing stops without it, so nobody else notices that it is gone.

What values switched off is not there either, and no object says which of the two it is: findings name the value.
"""

from collections.abc import AsyncIterator
from typing import Final

from headroom.cli.doctor.checks.kubernetes import minor
from headroom.cli.doctor.cluster import NotAllowed, Site
from headroom.cli.doctor.finding import Finding, info, named, ok, warning
from headroom.cli.doctor.installed import upgrade, workload
from headroom.cli.doctor.objects import AGENT, MANAGER, PARTS, name
from headroom.cli.doctor.rights import (
    ADMISSION_BINDINGS,
    ADMISSION_POLICIES,
    AGENTS_QUEUE,
    FLOW_SCHEMAS,
    NETWORK_POLICIES,
    NODE_STATUS_POLICY,
    OWN_NODE_POLICY,
    PRIORITY_LEVELS,
)

_PAGE: Final = "security.md"
_BOUND_TOKENS: Final = (1, 32)
"""Since when tokens say on which node their pod runs; before, the chart makes no policy of that."""


async def check(site: Site) -> AsyncIterator[Finding]:
    """Admission policy, queue and NetworkPolicies of the parts that are there."""
    parts = [part for part in PARTS if await workload(site, part) is not None]
    if not parts:
        yield info(f"There is no part of Headroom in namespace {site.namespace} to be guarded.")
        return
    refused: NotAllowed | None = None
    for each in (*((_own_node, _queue) if AGENT in parts else ()), *((_node_status,) if MANAGER in parts else ())):
        try:
            yield await each(site)
        except NotAllowed as lacking:
            refused = lacking
    yield await _network(site, parts)
    if refused is not None:
        raise refused


async def _own_node(site: Site) -> Finding:
    """The policy by which an agent writes its own node's NodeMetric alone."""
    version = minor(str((await site.version()).get("gitVersion", "")))
    if version is not None and version < _BOUND_TOKENS:
        return info(
            "Before Kubernetes 1.32 tokens do not name their node, so nothing holds an agent to its own NodeMetric.",
            docs=_PAGE,
        )
    good = "Each agent may write the NodeMetric of its own node alone."
    return await _policy(site, OWN_NODE_POLICY, good, "an agent's token can write the NodeMetric of any node.")


async def _node_status(site: Site) -> Finding:
    """The policy by which the manager writes Mid resources of Nodes alone."""
    good = "The manager may write Mid resources of Nodes, and nothing else of them."
    return await _policy(site, NODE_STATUS_POLICY, good, "the manager's token can write any field of a Node's status.")


async def _policy(site: Site, called: str, good: str, otherwise: str) -> Finding:
    """Whether a ValidatingAdmissionPolicy and its binding are there; what holds with them, and without."""
    kinds = (
        (ADMISSION_POLICIES, "ValidatingAdmissionPolicy"),
        (ADMISSION_BINDINGS, "ValidatingAdmissionPolicyBinding"),
    )
    absent = [kind for right, kind in kinds if await site.one(right, called) is None]
    if not absent:
        return ok(good)
    return warning(
        f"{_are_not_there(absent, called)} (value admissionPolicy.enabled, true by default), so whoever holds "
        f"{otherwise}",
        upgrade(site, "admissionPolicy.enabled=true"),
        _PAGE,
        absent,
    )


async def _queue(site: Site) -> Finding:
    """The agents' own queue at the API servers."""
    kinds = ((FLOW_SCHEMAS, "FlowSchema"), (PRIORITY_LEVELS, "PriorityLevelConfiguration"))
    absent = [kind for right, kind in kinds if await site.one(right, AGENTS_QUEUE) is None]
    if not absent:
        return ok("The agents have a queue of their own at the API servers.")
    # Both gone is what flowSchema.enabled: false looks like, and costs something in large clusters alone.
    return (warning if len(absent) < len(kinds) else info)(
        f"{_are_not_there(absent, AGENTS_QUEUE)} (value flowSchema.enabled, true by default), so agents wait in one "
        "queue with all other service accounts.",
        upgrade(site, "flowSchema.enabled=true"),
        "compatibility.md",
        absent,
    )


async def _network(site: Site, parts: list[str]) -> Finding:
    """The NetworkPolicies of the chart: one of all its pods, and one of each part."""
    there = {name(each) for each in await site.every(NETWORK_POLICIES)}
    absent = [each for each in ("headroom", *parts) if each not in there]
    if not absent:
        return ok(f"The chart's {len(parts) + 1} NetworkPolicies are there.")
    return warning(
        f"{_are_not_there(['NetworkPolicy'], named(absent))} (value networkPolicy.enabled, true by default), so who "
        "may reach our pods is not what the chart says.",
        upgrade(site, "networkPolicy.enabled=true"),
        _PAGE,
        absent,
    )


def _are_not_there(kinds: list[str], called: str) -> str:
    return f"There is no {' and no '.join(kinds)} {called}"
