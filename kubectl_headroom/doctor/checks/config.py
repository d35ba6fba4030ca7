"""The colocation config: whether it is in force, its faults, and whether it publishes anything."""

from collections.abc import Iterator

from crds.colocation import ColocationConfig
from crds.names import ANNOTATION_IN_FORCE_SINCE, CONFIG_MAP_KEY, LAST_GOOD_NAME
from kubectl_headroom.doctor.cluster import Cluster
from kubectl_headroom.doctor.finding import Finding, error, info, ok, warning
from kubectl_headroom.doctor.installation import config_data
from kubectl_headroom.doctor.objects import labels, name
from kubectl_headroom.doctor.permissions import CONFIG_MAPS, NODES
from manager.api import config_sentences as sentences
from manager.api import on_nodes, review


def check(cluster: Cluster) -> Iterator[Finding]:
    """The ConfigMap as the manager evaluates it."""
    called = cluster.config_name
    place = f"ConfigMap {cluster.namespace}/{called}"
    config_map = cluster.get(CONFIG_MAPS, called)
    if config_map is None:
        create = f"create configmap {called} --from-literal={CONFIG_MAP_KEY}='{{\"enable\": true}}'"
        yield info(
            f"There is no {place}: the defaults apply, and no Mid resources are published.",
            f"kubectl -n {cluster.namespace} {create}",
            docs="configuration.md",
        )
        return
    edit = f"kubectl -n {cluster.namespace} edit configmap {called}"
    reviewed = review(config_data(cluster, called, CONFIG_MAP_KEY), keys=config_map.get("data") or ())
    if reviewed.errors:
        message = f"{place} is not in force: {sentences(reviewed.errors)}. {_in_force_instead(cluster)}"
        yield error(message, edit, list(map(str, reviewed.errors)))
        return
    if reviewed.entry_errors:
        message = f"{place}: entries are disabled: {sentences(reviewed.entry_errors)}."
        yield error(message, edit, list(map(str, reviewed.entry_errors)))
    for text in reviewed.warnings:
        yield warning(f"{place}: {text}.", edit)
    config = reviewed.config or ColocationConfig()
    for overlap in on_nodes(config, [(name(node), labels(node)) for node in cluster.list(NODES)]):
        yield warning(f"{place}: {overlap}.", edit, overlap.nodes)
    entries = [entry for entry in config.node_configs or () if entry.node_selector is not None]
    if config.enable or any(entry.enable for entry in entries):
        yield ok(f"{place} is in force; entries of nodeConfigs: {len(entries)}.")
    else:
        message = f"{place} is in force and publishes nothing: enable is false. Measuring goes on."
        yield info(message, edit, docs="configuration.md")


def _in_force_instead(cluster: Cluster) -> str:
    """Return the config in place of a wrong one."""
    last_good = cluster.get(CONFIG_MAPS, LAST_GOOD_NAME)
    if last_good is None:
        return "The defaults apply, and nothing is published."
    since = (last_good["metadata"].get("annotations") or {}).get(ANNOTATION_IN_FORCE_SINCE)
    return f"The last good one stays in force{f', as since {since}' if since else ''}."
