"""The colocation config: whether it is in force, what is wrong with it, and whether it publishes anything."""

from collections.abc import AsyncIterator, Iterator
from typing import Final

from crds.colocation import ColocationConfig
from crds.names import ANNOTATION_IN_FORCE_SINCE, CONFIG_MAP_KEY, LAST_GOOD_NAME
from headroom.cli.doctor.cluster import Site
from headroom.cli.doctor.finding import Finding, error, info, ok, warning
from headroom.cli.doctor.installed import config_name
from headroom.cli.doctor.objects import labels, name
from headroom.cli.doctor.rights import CONFIG_MAPS, NODES
from manager.config.overlaps import on_nodes
from manager.config.parse import Review, review
from manager.config.state import sentences

_PAGE: Final = "configuration.md"


async def check(site: Site) -> AsyncIterator[Finding]:
    """The ConfigMap as the manager judges it."""
    config = await config_name(site)
    place = f"ConfigMap {site.namespace}/{config}"
    found = await site.one(CONFIG_MAPS, config)
    if found is None:
        yield info(
            f"There is no {place}: the defaults apply, and no Mid resources are published.",
            f"kubectl -n {site.namespace} create configmap {config} --from-literal={CONFIG_MAP_KEY}="
            "'{\"enable\": true}'",
            _PAGE,
        )
        return
    text = (found.get("data") or {}).get(CONFIG_MAP_KEY)
    judged = review(text)
    edit = f"kubectl -n {site.namespace} edit configmap {config}"
    if judged.errors:
        yield error(
            f"{place} is not in force: {sentences(judged.errors)}. {await _instead(site)}",
            edit,
            _PAGE,
            [str(each) for each in judged.errors],
        )
        return
    for each in _faults(judged, place, edit):
        yield each
    nodes = await site.every(NODES)
    for overlap in on_nodes(judged.config or ColocationConfig(), [(name(node), labels(node)) for node in nodes]):
        yield warning(f"{place}: {overlap}.", edit, _PAGE, overlap.nodes)
    yield _sells(judged.config or ColocationConfig(), place, edit)


def _faults(judged: Review, place: str, edit: str) -> Iterator[Finding]:
    if judged.entry_errors:
        told = [str(each) for each in judged.entry_errors]
        yield error(f"{place}: entries are disabled: {sentences(judged.entry_errors)}.", edit, _PAGE, told)
    for each in judged.warnings:
        yield warning(f"{place}: {each}.", edit, _PAGE)


def _sells(config: ColocationConfig, place: str, edit: str) -> Finding:
    """Whether any node may publish anything."""
    entries = [entry for entry in config.node_configs or () if entry.node_selector is not None]
    if config.enable or any(entry.enable for entry in entries):
        return ok(f"{place} is in force; entries of nodeConfigs: {len(entries)}.")
    return info(f"{place} is in force and publishes nothing: enable is false. Measuring goes on.", edit, _PAGE)


async def _instead(site: Site) -> str:
    """What applies in its place."""
    kept = await site.one(CONFIG_MAPS, LAST_GOOD_NAME)
    if kept is None:
        return "The defaults apply, and nothing is published."
    since = (kept["metadata"].get("annotations") or {}).get(ANNOTATION_IN_FORCE_SINCE)
    return f"The last good one stays in force{f', as since {since}' if since else ''}."
