"""Label selectors: which labels a selector matches."""

from collections.abc import Mapping
from typing import Any


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a well-formed selector matches labels; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(name) != wanted for name, wanted in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_matches(expression, labels) for expression in selector.get("matchExpressions") or ())


def keys(selector: Mapping[str, Any] | None) -> frozenset[str]:
    """The names of the labels that a well-formed selector reads."""
    selector = selector or {}
    return frozenset(
        (
            *(selector.get("matchLabels") or ()),
            *(expression["key"] for expression in selector.get("matchExpressions") or ()),
        )
    )


def _expression_matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator = expression["key"], expression["operator"]
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    listed = labels.get(key) in expression["values"]
    return listed if operator == "In" else not listed
