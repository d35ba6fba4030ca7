"""`kubectl headroom shadow`: what nodes in shadow mode would have published."""

from typing import Any

from crds import shadow_accounts
from headroom import kube
from kubectl_headroom import live, table
from kubectl_headroom import output as outputs
from kubectl_headroom.shadow.accounts import COLUMNS, accounts, as_json, cells, total


async def nodes(
    api: kube.ApiServer, namespace: str, selector: str | None, output: str, *, headers: bool = True
) -> None:
    """Print the accounts, and their total.

    Args:
        api: the cluster.
        namespace: where Headroom is: the accounts are in ConfigMaps there.
        selector: label selector of the nodes; `None` for all.
        output: one of `kubectl_headroom.output.CHOICES`.
        headers: whether the table has its titles and its total.
    """
    wanted = {} if selector is None else {"labelSelector": selector}
    (listed, _), *config_maps = await live.together(
        api.list(kube.paths.NODES, wanted, _name_and_uid),
        *(live.config_map(api, namespace, name) for name in shadow_accounts.NAMES),
    )
    result = accounts(config_maps, dict(listed), api.server_time())
    if not outputs.is_for_people(output):
        whole = as_json(total(result)) if result else None
        items = [{"metadata": {"name": account.name}, **as_json(account)} for account in result]
        outputs.show(outputs.listed("ShadowAccount", items, total=whole), output, headers=headers)
        return
    if not result:
        outputs.nothing()
        return
    rows = [*result, *([total(result)] if headers and len(result) > 1 else [])]
    table.write(COLUMNS, [cells(row) for row in rows], wide=output == outputs.WIDE, headers=headers)


def _name_and_uid(node: dict[str, Any]) -> tuple[str, str]:
    return str(node["metadata"]["name"]), str(node["metadata"].get("uid", ""))
