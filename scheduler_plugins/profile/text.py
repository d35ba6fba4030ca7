"""YAML from outside -> plain objects, with bounds: no duplicate keys, no anchors that grow, no endless nesting."""

from typing import Any, Final

import yaml

LONGEST: Final = 256 * 1024  # the longest text that is read. [characters]
DEEPEST: Final = 32  # how deep objects may be nested
LARGEST: Final = 20_000  # the limit of values in a text, with expanded anchors


class TextError(ValueError):
    """A text that is no such YAML; one line with place and reason."""


def read(text: str) -> Any:  # noqa: ANN401 - whatever the YAML holds
    """Parse one YAML document.

    Raises TextError: it is no YAML, holds several documents or a key twice, or is beyond one of the bounds.
    """
    if len(text) > LONGEST:
        raise TextError(f"it has {len(text)} characters, and may have {LONGEST}")
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except TextError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, OverflowError) as error:
        # ValueError: a date that no calendar has; TypeError: an object as the key of another.
        raise TextError(f"it is not YAML: {' '.join(str(error).split())[:400]}") from error


class _Loader(yaml.SafeLoader):
    """Rejects duplicate keys in an object, and texts that are too deep or too large."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[yaml.Node, tuple[int, int]] = {}  # values and depth of each node, every alias written out

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401 - PyYAML's own
        """A node within the bounds; its parts are composed before it."""
        alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        if parent is not None and self._depth > DEEPEST + 1:
            raise TextError(f"line {parent.start_mark.line + 1}: objects are nested deeper than {DEEPEST}")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and not alias:
            self._measure(node)
        elif node is not None and node not in self._sizes:
            raise TextError(f"line {node.start_mark.line + 1}: an anchor contains itself")
        return node

    def _measure(self, node: yaml.Node) -> None:
        if isinstance(node, yaml.MappingNode):
            _refuse_duplicates(node)
        parts = node.value if isinstance(node, yaml.CollectionNode) else ()
        sizes = [self._sizes[node] for part in parts for node in (part if isinstance(part, tuple) else (part,))]
        total, depth = 1 + sum(size for size, _ in sizes), 1 + max((deep for _, deep in sizes), default=0)
        if total > LARGEST or depth > DEEPEST + 1:
            where = f"line {node.start_mark.line + 1}"
            raise TextError(f"{where}: anchors make it more than {LARGEST} values, or {DEEPEST} objects deep")
        self._sizes[node] = total, depth


def _refuse_duplicates(node: yaml.MappingNode) -> None:
    keys = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if key.value in keys:
                raise TextError(f"line {key.start_mark.line + 1}: {key.value[:60]!r} is a duplicate key")
            keys.add(key.value)
