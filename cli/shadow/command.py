"""`kubectl headroom shadow`: what nodes in shadow mode would have sold."""

import time
from typing import Final

import kubeapi
from cli import live, table
from cli import output as outputs
from cli.errors import CommandError
from cli.shadow.accounts import COLUMNS, accounts, as_json, cells, total

NOBODY: Final = (
    'No node{which} is in shadow mode. Write "enable": true, "mode": "shadow" into colocation-config (for some nodes: '
    "into an entry of nodeConfigs), and look again in two minutes. Under Koordinator's NodeMetric definition accounts "
    "are in the manager's metrics alone: headroom_manager_shadow_…"
)
"""When there is nothing to show."""


async def nodes(api: kubeapi.ApiServer, selector: str | None, output: str) -> None:
    """Print the accounts, and their total.

    Args:
        api: the cluster.
        selector: label selector of the nodes; `None` for all.
        output: table, wide, json or yaml.

    Raises:
        CommandError: no node is in shadow mode, or the cluster does not know NodeMetrics.
    """
    only = None
    if selector is None:
        metrics = await live.node_metrics(api)
    else:
        chosen = live.objects(api, kubeapi.paths.NODES, labelSelector=selector)
        metrics, selected = await live.together(live.node_metrics(api), chosen)
        only = frozenset(node["metadata"]["name"] for node in selected)
    found = accounts(metrics, time.time(), only)
    if not outputs.is_for_people(output):
        whole = as_json(total(found)) if found else None
        outputs.show({"nodes": [as_json(each) for each in found], "total": whole}, output)
        return
    if not found:
        raise CommandError(NOBODY.format(which=f" with {selector}" if selector else ""))
    rows = [*found, *([total(found)] if len(found) > 1 else [])]
    table.write(COLUMNS, [cells(each) for each in rows], wide=output == outputs.WIDE)
