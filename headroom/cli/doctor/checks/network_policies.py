"""NetworkPolicies of the namespace: whether one cuts our pods off from the API server, or that from our webhook."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from headroom.cli import manager_state
from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, named, ok, warning
from headroom.cli.doctor.installed import workload
from headroom.cli.doctor.objects import MANAGER, PARTS, labels, name, selected
from headroom.cli.doctor.rights import NETWORK_POLICIES

_PAGE: Final = "security.md"
_API_PORTS: Final = (443, 6443)
_WEBHOOK_PORT: Final = 9443

Json = Mapping[str, Any]


async def check(site: Site) -> AsyncIterator[Finding]:
    """What the policies let through, port by port."""
    policies: Sequence[Json] = await site.every(NETWORK_POLICIES)
    trouble: list[Finding] = []
    for part in PARTS:
        found = await workload(site, part)
        if found is None:
            continue
        template = (found.get("spec") or {}).get("template") or {}
        own = labels({"metadata": template.get("metadata") or {}})
        trouble += _outward(site, part, selecting(policies, own, "Egress"))
        serves = part == MANAGER and manager_state.flag(found, "--webhook-listen") is not None
        if serves:
            trouble += _inward(site, selecting(policies, own, "Ingress"))
    for each in trouble:
        yield each
    if not trouble:
        yield ok(
            f"{len(policies)} NetworkPolicies of the namespace: none cuts our pods off from the API server."
            if policies
            else f"No NetworkPolicy in namespace {site.namespace}."
        )


def selecting(policies: Sequence[Json], own: Mapping[str, str], direction: str) -> list[Json]:
    """The policies that restrict pods with these labels in one direction.

    Args:
        policies: of the namespace.
        own: the pods' labels.
        direction: "Ingress" or "Egress".
    """
    found = []
    for policy in policies:
        spec = policy.get("spec") or {}
        # A policy that names no type is for Ingress, and for Egress when it has such rules.
        types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]
        if direction in types and selected(spec.get("podSelector"), own):
            found.append(policy)
    return found


def admits(policies: Sequence[Json], direction: str, port: int, port_name: str = "") -> bool:
    """Whether one of the policies lets traffic of a port through, to or from anybody at all.

    Args:
        policies: those that restrict the pods.
        direction: "Ingress" or "Egress".
        port: the TCP port.
        port_name: its name in the pods.
    """
    rules = (rule for policy in policies for rule in (policy.get("spec") or {}).get(direction.lower()) or ())
    return any(_covers(rule.get("ports"), port, port_name) for rule in rules)


def _covers(ports: Sequence[Json] | None, port: int, port_name: str) -> bool:
    if not ports:
        return True
    return any(_is_port(each, port, port_name) for each in ports if each.get("protocol", "TCP") == "TCP")


def _is_port(entry: Json, port: int, port_name: str) -> bool:
    first = entry.get("port")
    if first is None or (port_name and first == port_name):
        return True
    return isinstance(first, int) and first <= port <= int(entry.get("endPort") or first)


def _outward(site: Site, part: str, policies: Sequence[Json]) -> Iterator[Finding]:
    known = urlsplit(site.api.connection.server).port or _API_PORTS[0]
    if policies and not any(admits(policies, "Egress", port) for port in {*_API_PORTS, known}):
        names = sorted(name(each) for each in policies)
        yield warning(
            f"NetworkPolicy {named(names)} lets no traffic of {part} out to API servers (port 443, 6443 or {known}).",
            f"kubectl -n {site.namespace} edit networkpolicy {names[0]}",
            _PAGE,
            names,
        )


def _inward(site: Site, policies: Sequence[Json]) -> Iterator[Finding]:
    if policies and not admits(policies, "Ingress", _WEBHOOK_PORT, "webhook"):
        names = sorted(name(each) for each in policies)
        yield warning(
            f"NetworkPolicy {named(names)} lets nobody reach the manager's webhook (port {_WEBHOOK_PORT}), so every "
            "edit of the config waits 5 s and passes unjudged.",
            f"kubectl -n {site.namespace} edit networkpolicy {names[0]}",
            _PAGE,
            names,
        )
