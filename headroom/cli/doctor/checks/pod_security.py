"""Pod Security Admission: whether the namespace's labels let the agent's pods in."""

from collections.abc import AsyncIterator
from typing import Final

from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, error, named, ok, warning
from headroom.cli.doctor.installed import install, places
from headroom.cli.doctor.objects import labels
from headroom.cli.doctor.rights import NAMESPACES

_LABEL: Final = "pod-security.kubernetes.io/{}"
_PAGE: Final = "security.md"
_LEVELS: Final = ("privileged", "baseline", "restricted")


async def check(site: Site) -> AsyncIterator[Finding]:
    """The labels of Headroom's namespace."""
    namespace = await site.one(NAMESPACES, site.namespace)
    if namespace is None:
        others = await places(site)
        yield error(
            f"There is no namespace {site.namespace}.{f' Headroom is in {named(others)}.' if others else ''}",
            f"kubectl headroom doctor -n {others[0]}" if others else install(site),
            "install.md",
        )
        return
    async for found in _judged(site, labels(namespace).get(_LABEL.format("enforce"), "")):
        yield found
    if namespace["metadata"].get("deletionTimestamp"):
        yield error(
            f"Namespace {site.namespace} is being deleted, with everything in it.",
            f"kubectl wait --for=delete namespace/{site.namespace} --timeout=10m",
        )


async def before(site: Site) -> AsyncIterator[Finding]:
    """The same before an install, when the namespace need not be there yet."""
    namespace = await site.one(NAMESPACES, site.namespace)
    if namespace is None:
        yield ok(f"There is no namespace {site.namespace} yet: helm install --create-namespace makes it.")
        return
    async for found in check(site):
        yield found


async def _judged(site: Site, level: str) -> AsyncIterator[Finding]:
    label = _LABEL.format("enforce")
    admit = f"kubectl label namespace {site.namespace} {label}=privileged --overwrite"
    if level in _LEVELS[1:]:
        yield error(
            f"Namespace {site.namespace} enforces pod security level {level}, which refuses the agent's pods: they "
            "read /proc and /sys/fs/cgroup of their node.",
            admit,
            _PAGE,
        )
    elif level and level not in _LEVELS:
        yield warning(
            f"Namespace {site.namespace} has label {label}={level}, which is no level.",
            admit,
            _PAGE,
        )
    elif level:
        yield ok(f"Namespace {site.namespace} admits the agent's pods: pod security level {level}.")
    else:
        yield ok(f"Namespace {site.namespace} sets no pod security level of its own.")
