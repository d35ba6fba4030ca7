"""The Nodes: whether our images run there, and whether their kubelets are new enough."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from headroom.cli.doctor.checks.kubernetes import OLDEST, minor
from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, count, error, info, named, ok, warning
from headroom.cli.doctor.objects import is_linux, machine, name
from headroom.cli.doctor.rights import NODES

_PAGE: Final = "compatibility.md"
_ARCHITECTURES: Final = ("amd64", "arm64")
_NEW_SKEW: Final = 3


async def check(site: Site) -> AsyncIterator[Finding]:
    """Operating system, architecture and kubelet of the Nodes."""
    nodes: Sequence[Mapping[str, Any]] = await site.every(NODES)
    linux = [node for node in nodes if is_linux(node)]
    if not linux:
        yield error(
            f"None of {count(len(nodes), 'node')} runs Linux, and Headroom runs nowhere else.",
            "add a Linux node to the cluster",
            _PAGE,
        )
        return
    others = sorted(name(node) for node in nodes if not is_linux(node))
    if others:
        yield info(
            f"{count(len(others), 'node')} without Linux are left alone: {named(others)}.", docs=_PAGE, objects=others
        )
    strange = sorted(name(node) for node in linux if machine(node).get("architecture", "amd64") not in _ARCHITECTURES)
    if strange:
        yield warning(
            f"{count(len(strange), 'node')} are neither amd64 nor arm64, as our images are: {named(strange)}.",
            "build the images for that architecture, or leave these nodes out by agent.nodeSelector",
            _PAGE,
            strange,
        )
    for found in _kubelets(linux, minor(str((await site.version()).get("gitVersion", "")))):
        yield found
    versions = Counter(machine(node).get("kubeletVersion", "unknown") for node in linux)
    told = ", ".join(f"{number} with kubelet {version}" for version, number in sorted(versions.items()))
    yield ok(f"{count(len(linux), 'Linux node')}: {told}.")


def _kubelets(nodes: Sequence[Mapping[str, Any]], server: tuple[int, int] | None) -> Sequence[Finding]:
    """Kubelets that are too old for us, or for their API server."""
    versions = {name(node): minor(machine(node).get("kubeletVersion", "")) for node in nodes}
    old = sorted(node for node, version in versions.items() if version is not None and version < OLDEST)
    if old:
        return [
            warning(
                f"{count(len(old), 'node')} have a kubelet older than 1.30, which nobody tests with Headroom: "
                f"{named(old)}.",
                "upgrade their kubelets",
                _PAGE,
                old,
            )
        ]
    if server is None:
        return []
    far = sorted(
        node
        for node, version in versions.items()
        if version is not None and (version > server or server[1] - version[1] > _NEW_SKEW)
    )
    if not far:
        return []
    return [
        warning(
            f"{count(len(far), 'node')} have a kubelet that is newer than the API server, or more than three minor "
            f"versions older, which Kubernetes does not support: {named(far)}.",
            "upgrade the control plane first, then the kubelets",
            _PAGE,
            far,
        )
    ]
