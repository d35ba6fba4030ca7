"""The labels of namespaces, which pods may name to say whose pods they must be near or away from."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, Final

from headroom.cluster.shape import check_namespace

NAMESPACES: Final = "/api/v1/namespaces"
"""Path of all namespaces."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Namespaces:
    """Takes changes one by one."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}

    def labels(self, namespace: str) -> Mapping[str, str]:
        """Of a namespace; none where it is not known."""
        return self._labels.get(namespace, _NONE)

    def put(self, namespace: Mapping[str, Any]) -> None:
        """A Namespace is there, or has changed.

        Raises:
            CodecError: a field has another shape than it should.
        """
        check_namespace(namespace)
        metadata = namespace["metadata"]
        self._labels[str(metadata["name"])] = metadata.get("labels") or _NONE

    def delete(self, name: str) -> None:
        """A Namespace is gone."""
        self._labels.pop(name, None)

    def absent(self, names: AbstractSet[str]) -> AbstractSet[str]:
        """The Namespaces that are known beside these."""
        return self._labels.keys() - names
