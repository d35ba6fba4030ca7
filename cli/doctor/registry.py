"""The checks: one line each."""

from collections.abc import AsyncIterator, Callable, Mapping
from pkgutil import resolve_name
from typing import Final, TypeAlias

from cli.doctor.finding import Finding
from cli.doctor.site import Site

Check: TypeAlias = Callable[[Site], AsyncIterator[Finding]]
"""Looks at one group of things; says at least one thing, and of what it finds in order the least that is true."""

CHECKS: Final[Mapping[str, str]] = {
    "kubernetes": "cli.doctor.checks.kubernetes:check",
    "nodes": "cli.doctor.checks.nodes:check",
    "crds": "cli.doctor.checks.definitions:check",
    "pod-security": "cli.doctor.checks.pod_security:check",
    "priority-classes": "cli.doctor.checks.priority_classes:check",
    "rights": "cli.doctor.checks.rights:check",
    "versions": "cli.doctor.checks.versions:check",
    "manager": "cli.doctor.checks.manager:check",
    "webhook": "cli.doctor.checks.webhook:check",
    "config": "cli.doctor.checks.config:check",
    "agents": "cli.doctor.checks.agents:check",
    "clocks": "cli.doctor.checks.clocks:check",
    "hosts": "cli.doctor.checks.hosts:check",
    "scheduler": "cli.doctor.checks.scheduler:check",
    "extender": "cli.doctor.checks.extender:check",
    "network-policies": "cli.doctor.checks.network_policies:check",
    "safeguards": "cli.doctor.checks.safeguards:check",
    "koordinator": "cli.doctor.checks.koordinator:check",
}
"""What an installation needs, in the order in which it is told."""

PREFLIGHT: Final[Mapping[str, str]] = {
    "kubernetes": "cli.doctor.checks.kubernetes:check",
    "install": "cli.doctor.checks.install:check",
    "nodes": "cli.doctor.checks.nodes:check",
    "crds": "cli.doctor.checks.definitions:before",
    "pod-security": "cli.doctor.checks.pod_security:before",
    "priority-classes": "cli.doctor.checks.priority_classes:before",
    "koordinator": "cli.doctor.checks.koordinator:check",
}
"""What an install needs, before there is anything."""


def load(name: str) -> Check:
    """The check of an entry.

    Args:
        name: "package.module:function".
    """
    check: Check = resolve_name(name)
    return check
