"""The checks: one line each."""

from collections.abc import AsyncIterator, Callable, Mapping
from pkgutil import resolve_name
from typing import Final, TypeAlias

from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding

Check: TypeAlias = Callable[[Site], AsyncIterator[Finding]]
"""Looks at one group of things; says at least one thing, and of what it finds in order the least that is true."""

CHECKS: Final[Mapping[str, str]] = {
    "kubernetes": "headroom.cli.doctor.checks.kubernetes:check",
    "nodes": "headroom.cli.doctor.checks.nodes:check",
    "crds": "headroom.cli.doctor.checks.definitions:check",
    "pod-security": "headroom.cli.doctor.checks.pod_security:check",
    "priority-classes": "headroom.cli.doctor.checks.priority_classes:check",
    "rights": "headroom.cli.doctor.checks.rights:check",
    "versions": "headroom.cli.doctor.checks.versions:check",
    "manager": "headroom.cli.doctor.checks.manager:check",
    "webhook": "headroom.cli.doctor.checks.webhook:check",
    "config": "headroom.cli.doctor.checks.config:check",
    "agents": "headroom.cli.doctor.checks.agents:check",
    "clocks": "headroom.cli.doctor.checks.clocks:check",
    "hosts": "headroom.cli.doctor.checks.hosts:check",
    "scheduler": "headroom.cli.doctor.checks.scheduler:check",
    "extender": "headroom.cli.doctor.checks.extender:check",
    "network-policies": "headroom.cli.doctor.checks.network_policies:check",
    "safeguards": "headroom.cli.doctor.checks.safeguards:check",
    "koordinator": "headroom.cli.doctor.checks.koordinator:check",
}
"""What an installation needs, in the order in which it is told."""

PREFLIGHT: Final[Mapping[str, str]] = {
    "kubernetes": "headroom.cli.doctor.checks.kubernetes:check",
    "install": "headroom.cli.doctor.checks.install:check",
    "nodes": "headroom.cli.doctor.checks.nodes:check",
    "crds": "headroom.cli.doctor.checks.definitions:before",
    "pod-security": "headroom.cli.doctor.checks.pod_security:before",
    "priority-classes": "headroom.cli.doctor.checks.priority_classes:before",
    "koordinator": "headroom.cli.doctor.checks.koordinator:check",
}
"""What an install needs, before there is anything."""


def load(name: str) -> Check:
    """The check of an entry.

    Args:
        name: "package.module:function".
    """
    check: Check = resolve_name(name)
    return check
