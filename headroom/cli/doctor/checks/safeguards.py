"""What the chart puts around the services: nothing stops without it, so nobody else notices that it is gone.

What values switched off is not there either, and no object says which of the two it is: findings name the value.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headroom.cli.doctor import permissions as may
from headroom.cli.doctor.checks.prerequisites import minor
from headroom.cli.doctor.cluster import Cluster, Forbidden
from headroom.cli.doctor.finding import Finding, Severity, info, named, ok, warning
from headroom.cli.doctor.installation import components, upgrade
from headroom.cli.doctor.objects import AGENT, MANAGER, name

_BOUND_TOKENS: Final = (1, 32)
"""Since when tokens say on which node their pod runs; before, the chart makes no policy of that."""


@dataclass(frozen=True, slots=True)
class Safeguard:
    """Two objects of one name that do something together."""

    component: str  # which it guards
    called: str  # name of both objects
    kinds: tuple[tuple[may.Permission, str], ...]  # their kinds
    value: str  # the value of the chart that switches them off
    with_it: str  # what holds with them
    without: str  # what happens when one of them is gone
    both_gone: Severity = Severity.WARNING  # how bad it is when both are
    docs: str | None = None  # the page that says more, where it is not the check's


_POLICY: Final = (
    (may.ADMISSION_POLICIES, "ValidatingAdmissionPolicy"),
    (may.ADMISSION_BINDINGS, "ValidatingAdmissionPolicyBinding"),
)
_SAFEGUARDS: Final = (
    Safeguard(
        AGENT,
        may.OWN_NODE_POLICY,
        _POLICY,
        "admissionPolicy.enabled",
        "Each agent may write the NodeMetric of its own node alone.",
        "so whoever holds an agent's token can write the NodeMetric of any node.",
    ),
    Safeguard(
        AGENT,
        may.AGENTS_QUEUE,
        ((may.FLOW_SCHEMAS, "FlowSchema"), (may.PRIORITY_LEVELS, "PriorityLevelConfiguration")),
        "flowSchema.enabled",
        "The agents have a queue of their own at the API servers.",
        "so agents wait in one queue with all other service accounts.",
        # This is what flowSchema.enabled: false looks like, and costs something in large clusters alone.
        both_gone=Severity.INFO,
        docs="compatibility.md",
    ),
    Safeguard(
        MANAGER,
        may.NODE_STATUS_POLICY,
        _POLICY,
        "admissionPolicy.enabled",
        "The manager may write Mid resources of Nodes, and nothing else of them.",
        "so whoever holds the manager's token can write any field of a Node's status.",
    ),
)


def check(cluster: Cluster) -> Iterator[Finding]:
    """Admission policies, queue and NetworkPolicies of the components that are there."""
    installed = components(cluster)
    if not installed:
        yield info(f"There is no part of Headroom in namespace {cluster.namespace} to be guarded.")
        return
    forbidden: Forbidden | None = None
    for each in _SAFEGUARDS:
        if each.component in installed:
            try:
                yield _judge(cluster, each)
            except Forbidden as lacking:
                forbidden = lacking
    yield _network_policies(cluster, ["headroom", *installed])
    if forbidden is not None:
        raise forbidden


def _judge(cluster: Cluster, safeguard: Safeguard) -> Finding:
    """Whether both objects of a safeguard are there."""
    if safeguard.called == may.OWN_NODE_POLICY and (minor(cluster.version) or _BOUND_TOKENS) < _BOUND_TOKENS:
        return info(
            "Before Kubernetes 1.32 tokens do not name their node, so nothing holds an agent to its own NodeMetric.",
            docs="security.md",
        )
    absent = [kind for permission, kind in safeguard.kinds if cluster.get(permission, safeguard.called) is None]
    if not absent:
        return ok(safeguard.with_it)
    return Finding(
        safeguard.both_gone if len(absent) == len(safeguard.kinds) else Severity.WARNING,
        f"There is no {' and no '.join(absent)} {safeguard.called} (value {safeguard.value}, true by default), "
        f"{safeguard.without}",
        upgrade(cluster, f"{safeguard.value}=true"),
        absent,
        safeguard.docs,
    )


def _network_policies(cluster: Cluster, wanted: list[str]) -> Finding:
    """The NetworkPolicies of the chart: one of all its pods, and one of each component."""
    there = {name(each) for each in cluster.list(may.NETWORK_POLICIES)}
    absent = [each for each in wanted if each not in there]
    if not absent:
        return ok(f"The chart's {len(wanted)} NetworkPolicies are there.")
    return warning(
        f"There is no NetworkPolicy {named(absent)} (value networkPolicy.enabled, true by default), so who may reach "
        "our pods is not what the chart says.",
        upgrade(cluster, "networkPolicy.enabled=true"),
        absent,
    )
