"""Versions: the parts among one another, and this command beside them."""

from collections.abc import AsyncIterator
from importlib import metadata
from typing import Final

from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, info, named, ok, warning
from headroom.cli.doctor.installed import pods
from headroom.cli.doctor.objects import PARTS, SCHEDULER, Pod

_PAGE: Final = "upgrade.md"


async def check(site: Site) -> AsyncIterator[Finding]:
    """The version of each part by its pods' labels, and the images that they run."""
    found = {part: await pods(site, part) for part in PARTS}
    versions = {part: sorted({pod.version for pod in running if pod.version}) for part, running in found.items()}
    told = [f"{part} {' and '.join(those)}" for part, those in versions.items() if those]
    if not told:
        yield info("No pod of ours says which version it is.")
        return
    every = {version for those in versions.values() for version in those}
    for part, running in found.items():
        images = sorted({_image(pod) for pod in running})
        if len(images) > 1 and len(versions[part]) <= 1:
            yield warning(
                f"Pods of {part} run different images: {named(images)}.",
                f"kubectl -n {site.namespace} rollout status {_workload(part)}",
                _PAGE,
                images,
            )
    if len(every) > 1:
        yield warning(
            f"Parts of different versions work together: {', '.join(told)}. That is meant for the time of an upgrade.",
            f"kubectl -n {site.namespace} rollout status {_workload(_behind(versions))}",
            _PAGE,
        )
        return
    (version,) = every
    own = metadata.version("headroom")
    if own != version:
        yield info(f"This command is version {own}, the installation is {version}.", docs=_PAGE)
    else:
        yield ok(f"All parts and this command are version {version}.")


def _behind(versions: dict[str, list[str]]) -> str:
    """The part whose rollout is worth looking at: one with two versions, else that with the lowest."""
    several = [part for part, those in versions.items() if len(those) > 1]
    return several[0] if several else min((those[0], part) for part, those in versions.items() if those)[1]


def _image(pod: Pod) -> str:
    """Our image of a pod; beside the extender there is kube-scheduler's."""
    return pod.images[-1] if pod.part == SCHEDULER and pod.images else ", ".join(pod.images)


def _workload(part: str) -> str:
    """A part as kubectl names it."""
    return f"{'daemonset' if part == PARTS[0] else 'deployment'}/{part}"
