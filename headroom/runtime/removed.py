"""The arguments, flags, commands and chart values that were removed, and what to use in their place."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

REMOVED: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("argument", "extenders.nodeCacheCapable"): (
            "nodeCacheCapable: false was removed: set nodeCacheCapable: true for the extender in kube-scheduler's "
            "configuration"
        ),
        ("argument", "reclaim.crossNode"): (
            "crossNode was removed: all victims of a pod run on one node, as in upstream. Leave it out, and let a pod "
            "request no more of its quota than one node can give back"
        ),
    }
)
"""A sentence by kind and name. Kinds: argument (of a scheduler plugin), flag, command, value (of the chart)."""


def removed(kind: str, name: str) -> str | None:
    """Return the sentence that refuses something that was removed; None: it was never there."""
    return REMOVED.get((kind, name))
