"""Where accounts of shadow mode are kept: a few ConfigMaps in Headroom's namespace, which the manager alone writes.

Each has a share of the nodes: key is the node's name, value a JSON object with the uid of the Node (`nodeUID`) and the
fields of `ShadowAccount`. A NodeMetric is no place for it: Koordinator's agent replaces the whole of its status.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from crds.codec import CodecError, from_json, to_json
from crds.node_metric import ShadowAccount

_SHARES: Final = 16  # 15,000 nodes need 400 KiB in each; a ConfigMap holds 1 MiB
NAMES: Final = tuple(f"headroom-shadow-{share}" for share in range(_SHARES))
"""Names of the ConfigMaps."""
_UID: Final = "nodeUID"


@dataclass(frozen=True, slots=True)
class StoredAccounts:
    """The account of one node."""

    node_uid: str
    """Which Node of that name."""
    account: ShadowAccount
    """The account."""


def name_of(node: str) -> str:
    return NAMES[zlib.crc32(node.encode()) % _SHARES]


def read(config_map: Mapping[str, Any] | None) -> dict[str, StoredAccounts | None]:
    """Node name -> its account; `None` in place of one that cannot be read.

    Args:
        config_map: the ConfigMap as JSON; `None` where there is none.
    """
    data = (config_map or {}).get("data")
    return {str(node): _read(text) for node, text in data.items()} if isinstance(data, Mapping) else {}


def _read(text: object) -> StoredAccounts | None:
    try:
        result = json.loads(str(text))
        return StoredAccounts(str(result[_UID]), from_json(ShadowAccount, result))
    except (ValueError, RecursionError, KeyError, TypeError, CodecError):
        return None


def written(kept: StoredAccounts) -> str:
    return json.dumps({_UID: kept.node_uid, **to_json(kept.account)}, separators=(",", ":"))
