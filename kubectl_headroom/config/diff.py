"""`kubectl headroom config diff`: which nodes a colocation config would change, and how; nothing is written."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from crds.names import CONFIG_MAP_KEY, LAST_GOOD_NAME
from headroom import kube
from kubectl_headroom import live, manager_state, table
from kubectl_headroom import output as outputs
from kubectl_headroom.config import check as config_check
from kubectl_headroom.config.file import ConfigFile
from kubectl_headroom.errors import FAILED
from kubectl_headroom.table import Cell, Column
from manager.api import (
    Change,
    InForce,
    NodeMetadata,
    Origin,
    Overlap,
    Review,
    at_start,
    compare,
    node_metadata,
    on_nodes,
    review,
)
from manager.api import overlap_names as named

_COLUMNS: Final = (Column("FIELD"), Column("OLD"), Column("FROM"), Column("NEW"), Column("FROM"))
_LONGEST_VALUE: Final = 80

Json = dict[str, Any]


async def run(api: kube.ApiServer, file: ConfigFile, namespace: str, config_name: str, output: str) -> int:
    """Compare a file with the config in force in the cluster.

    Args:
        api: the cluster.
        file: the new config, of `kubectl_headroom.config.file.read`.
        namespace: where Headroom's ConfigMap is.
        config_name: name of that ConfigMap.
        output: one of `kubectl_headroom.output.CHOICES`.

    Returns:
        The exit code: 0, or 1 when the text would be refused as a whole, so that nothing would change.
    """
    result = review(file.text, keys=file.keys)
    if result.config is None:
        config_check.report(file, result, output)
        return FAILED
    config_map, last_good, deployment, (settings, _) = await live.together(
        live.config_map(api, namespace, config_name),
        live.config_map(api, namespace, LAST_GOOD_NAME),
        live.if_allowed(api, manager_state.deployment_path(namespace)),
        api.list(kube.paths.NODES, keep=node_metadata),
    )
    exclusion = manager_state.exclusion(deployment)
    nodes: list[NodeMetadata] = [node for node in settings if not exclusion.excludes(node.labels)]
    before = at_start(_text(config_map), present=config_map is not None, last_good=_text(last_good))
    changes = compare(before.config, result.config, nodes)
    overlaps = on_nodes(result.config, ((node.name, node.labels) for node in nodes))
    if not outputs.is_for_people(output):
        outputs.show(_as_json(file, result, changes, overlaps, len(nodes)), output)
        return 0
    outputs.line(f"{file.place} compared with {_called(before, f'{namespace}/{config_name}')}")
    if excluded := len(settings) - len(nodes):
        outputs.line(
            f"Left out: {excluded} of {len(settings)} nodes, which the manager leaves alone (--exclude-nodes)."
        )
    _show(changes, overlaps, len(nodes), None if output == outputs.WIDE else _LONGEST_VALUE)
    if result.entry_errors or result.warnings:
        outputs.line()
        sys.stdout.flush()
        config_check.show(file, result)
    return 0


def _text(config_map: Json | None) -> str | None:
    return ((config_map or {}).get("data") or {}).get(CONFIG_MAP_KEY)


def _called(before: InForce, place: str) -> str:
    if before.errors:
        fallback = "the last good one" if before.origin is Origin.LAST_GOOD else "the defaults"
        return f"{fallback} in force: ConfigMap {place} itself cannot be used"
    if not before.present:
        return f"the defaults: there is no ConfigMap {place}"
    return f"ConfigMap {place}"


def _show(changes: Sequence[Change], overlaps: Sequence[Overlap], nodes: int, longest: int | None) -> None:
    changed = sum(len(change.nodes) for change in changes)
    plural = "" if nodes == 1 else "s"
    if not changed:
        outputs.line(f"The strategy of none of {nodes} node{plural} would change.")
    else:
        outputs.line(f"The strategy of {changed} of {nodes} node{plural} would change:")
    for change in changes:
        outputs.line()
        outputs.line(f"{named(change.nodes)}:")
        rows = [
            [
                Cell(field.path),
                Cell(_shown(field.old, longest)),
                Cell(field.old_source),
                Cell(_shown(field.new, longest)),
                Cell(field.new_source),
            ]
            for field in change.fields
        ]
        table.write(_COLUMNS, rows)
    if overlaps:
        outputs.line()
        outputs.line("Nodes that match several entries:")
    for overlap in overlaps:
        outputs.line(f"- {overlap}")


def _shown(value: Any, longest: int | None) -> str:  # noqa: ANN401 - JSON
    if value is None:
        return "-"
    text = value if isinstance(value, str) and value else json.dumps(value)
    return text if longest is None or len(text) <= longest else f"{text[:longest]}…"


def _as_json(
    file: ConfigFile, found: Review, changes: Sequence[Change], overlaps: Sequence[Overlap], nodes: int
) -> Json:
    return {
        "kind": "ConfigDiff",
        **config_check.as_json(file, found),
        "nodes": nodes,
        "changes": [
            {
                "nodes": list(change.nodes),
                "fields": [
                    {
                        "path": field.path,
                        "old": field.old,
                        "oldSource": field.old_source,
                        "new": field.new,
                        "newSource": field.new_source,
                    }
                    for field in change.fields
                ],
            }
            for change in changes
        ],
        "overlaps": [asdict(overlap) for overlap in overlaps],
    }
