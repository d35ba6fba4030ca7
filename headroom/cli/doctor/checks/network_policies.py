"""NetworkPolicies of the namespace: whether one cuts our pods off from the API server, or that from our webhook."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from headroom.cli import manager_state
from headroom.cli.doctor.cluster import Cluster
from headroom.cli.doctor.finding import Finding, Severity, about, ok
from headroom.cli.doctor.objects import COMPONENTS, MANAGER, name, pod_template
from headroom.cli.doctor.permissions import NETWORK_POLICIES
from headroom.cluster.selector import matches

_API_PORTS: Final = (443, 6443)
_WEBHOOK_PORT: Final = 9443

Json = Mapping[str, Any]


def check(cluster: Cluster) -> Iterator[Finding]:
    """What the policies let through, port by port."""
    policies: Sequence[Json] = cluster.list(NETWORK_POLICIES)
    problems = [found for component in COMPONENTS for found in _blocked(cluster, component, policies)]
    yield from problems
    if not problems and policies:
        yield ok(f"{len(policies)} NetworkPolicies of the namespace: none cuts our pods off from the API server.")
    elif not problems:
        yield ok(f"No NetworkPolicy in namespace {cluster.namespace}.")


def _blocked(cluster: Cluster, component: str, policies: Sequence[Json]) -> Iterator[Finding]:
    """Traffic that the pods of a component need and that no policy lets through."""
    found = cluster.workload(component)
    if found is None:
        return
    own = (pod_template(found).get("metadata") or {}).get("labels") or {}
    edit = f"kubectl -n {cluster.namespace} edit networkpolicy {{first}}"
    outward = selecting(policies, own, "Egress")
    known = urlsplit(cluster.api.connection.server).port or _API_PORTS[0]
    if not any(admits(outward, "Egress", port) for port in {*_API_PORTS, known}):
        message = f"lets no traffic of {component} out to API servers (port 443, 6443 or {known})."
        yield from about(Severity.WARNING, sorted(map(name, outward)), f"NetworkPolicy {{names}} {message}", edit)
    inward = selecting(policies, own, "Ingress")
    serves = component == MANAGER and manager_state.flag(found, "--webhook-listen") is not None
    if serves and not admits(inward, "Ingress", _WEBHOOK_PORT, "webhook"):
        yield from about(
            Severity.WARNING,
            sorted(map(name, inward)),
            f"NetworkPolicy {{names}} lets nobody reach the manager's webhook (port {_WEBHOOK_PORT}), so every edit of "
            "the config waits 5 s and passes unjudged.",
            edit,
        )


def selecting(policies: Sequence[Json], own: Mapping[str, str], direction: str) -> list[Json]:
    """The policies that restrict pods with these labels in one direction, "Ingress" or "Egress"."""
    found = []
    for policy in policies:
        spec = policy.get("spec") or {}
        # A policy that names no type is for Ingress, and for Egress when it has such rules.
        types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]
        selector = spec.get("podSelector")
        if direction in types and (not selector or matches(dict(selector), own)):
            found.append(policy)
    return found


def admits(policies: Sequence[Json], direction: str, port: int, port_name: str = "") -> bool:
    """Whether one of the policies that restrict a pod lets traffic of a TCP port through, to or from anybody at all."""
    rules = (rule for policy in policies for rule in (policy.get("spec") or {}).get(direction.lower()) or ())
    return any(
        not rule.get("ports") or any(_is_port(each, port, port_name) for each in rule["ports"]) for rule in rules
    )


def _is_port(entry: Json, port: int, port_name: str) -> bool:
    first = entry.get("port")
    if entry.get("protocol", "TCP") != "TCP":
        return False
    if first is None or (port_name and first == port_name):
        return True
    return isinstance(first, int) and first <= port <= int(entry.get("endPort") or first)
