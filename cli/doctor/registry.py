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
    "manager": "cli.doctor.checks.manager:check",
}
"""What an installation needs, in the order in which it is told."""

PREFLIGHT: Final[Mapping[str, str]] = {
    "kubernetes": "cli.doctor.checks.kubernetes:check",
    "nodes": "cli.doctor.checks.nodes:check",
    "crds": "cli.doctor.checks.definitions:before",
}
"""What an install needs, before there is anything."""


def load(name: str) -> Check:
    """The check of an entry.

    Args:
        name: "package.module:function".
    """
    check: Check = resolve_name(name)
    return check
