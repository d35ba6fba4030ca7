"""YAML from outside -> plain objects, with bounds: no duplicate keys, no anchors that grow, no endless nesting."""

from typing import Any, Final

import yaml

LONGEST: Final = 256 * 1024
"""The longest text that is read. [characters]"""
DEEPEST: Final = 32
"""How deep objects may be nested."""
LARGEST: Final = 20_000
"""How many values a text may come to, anchors written out."""


class TextError(ValueError):
    """A text that is no such YAML; one line that says where and why."""


def read(text: str) -> Any:  # noqa: ANN401 - whatever the YAML holds
    """Parse one YAML document.

    Raises:
        TextError: it is no YAML, holds several documents or a key twice, or is beyond one of the bounds.
    """
    if len(text) > LONGEST:
        raise TextError(f"it has {len(text)} characters, and may have {LONGEST}")
    try:
        _bound(text)
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _count(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except TextError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, OverflowError) as error:
        # ValueError: a date that no calendar has; TypeError: an object as the key of another.
        raise TextError(f"it is not YAML: {' '.join(str(error).split())[:400]}") from error


def _bound(text: str) -> None:
    """Refuse what is nested too deep before anything follows the nesting; the parser's own events do not."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise TextError(f"line {line}: objects are nested deeper than {DEEPEST}")


def _count(root: yaml.Node) -> None:
    """Refuse keys that stand twice in an object, and anchors that grow.

    One of two equal keys would be lost. The bounds on size and depth hold with every alias written out.
    """
    known: dict[int, tuple[int, int]] = {}
    open_nodes: set[int] = set()

    def measure(node: yaml.Node) -> tuple[int, int]:
        """How many values a node comes to, and how deep it is."""
        if id(node) in known:
            return known[id(node)]
        where = f"line {node.start_mark.line + 1}"
        if id(node) in open_nodes:
            raise TextError(f"{where}: an anchor contains itself")
        open_nodes.add(id(node))
        if isinstance(node, yaml.MappingNode):
            _refuse_duplicates(node)
        parts = node.value if isinstance(node, yaml.CollectionNode) else ()
        sizes = [measure(each) for part in parts for each in (part if isinstance(part, tuple) else (part,))]
        open_nodes.discard(id(node))
        total, depth = 1 + sum(size for size, _ in sizes), 1 + max((deep for _, deep in sizes), default=0)
        if total > LARGEST or depth > DEEPEST + 1:
            raise TextError(f"{where}: anchors make it more than {LARGEST} values, or {DEEPEST} objects deep")
        known[id(node)] = total, depth
        return total, depth

    measure(root)


def _refuse_duplicates(node: yaml.MappingNode) -> None:
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if key.value in seen:
                raise TextError(f"line {key.start_mark.line + 1}: {key.value[:60]!r} stands twice in one object")
            seen.add(key.value)
