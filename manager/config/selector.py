"""Kubernetes label selectors: their form, and whether they match."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from manager.config.findings import ConfigFinding, join, shown

_WITH_VALUES: Final = frozenset({"In", "NotIn"})
_WITHOUT_VALUES: Final = frozenset({"Exists", "DoesNotExist"})
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_MOST_FIELDS: Final = 10
_MOST_LABELS: Final = 64


def faults(selector: Any, path: str) -> list[ConfigFinding]:  # noqa: ANN401 - configuration can hold anything
    """What is wrong with the form of a selector."""
    if not isinstance(selector, Mapping):
        return [ConfigFinding(path, f"must be an object with matchLabels or matchExpressions, got {shown(selector)}")]
    found = [
        ConfigFinding(
            join(path, name), f"unknown field: only matchLabels and matchExpressions are allowed{_hint(name, value)}"
        )
        for name, value in itertools.islice(selector.items(), _MOST_FIELDS)
        if name not in {"matchLabels", "matchExpressions"}
    ]
    labels, listed = selector.get("matchLabels"), selector.get("matchExpressions")
    required = sum(len(part) for part in (labels, listed) if isinstance(part, Mapping | list))
    if required > _MOST_LABELS:
        return [*found, ConfigFinding(path, f"must have requirements on at most {_MOST_LABELS} labels, got {required}")]
    if labels is not None and not _texts(labels):
        found.append(ConfigFinding(join(path, "matchLabels"), f"must map texts to texts, got {shown(labels)}"))
    elif labels is not None:
        for name, value in labels.items():
            found += _label_faults(name, [value], join(path, "matchLabels"))
    if listed is None:
        return found
    if not isinstance(listed, list):
        return [*found, ConfigFinding(join(path, "matchExpressions"), f"must be a list, got {shown(listed)}")]
    for index, expression in enumerate(listed):
        found += _expression_faults(expression, join(join(path, "matchExpressions"), index))
    return found


def _hint(name: str, value: object) -> str:
    """What to write for the selector of a pod, which is labels without anything around them."""
    return f': write {{"matchLabels": {{{shown(name)}: {shown(value)}}}}}' if isinstance(value, str) else ""


def _label_faults(name: str, values: Sequence[str], path: str) -> list[ConfigFinding]:
    """What no node's label can be."""
    found = []
    prefix, slash, own = name.rpartition("/")
    if not (_LABEL.fullmatch(own) and (not slash or _PREFIX.fullmatch(prefix))):
        found.append(ConfigFinding(path, f"{shown(name)} is no name that a label can have"))
    return found + [
        ConfigFinding(path, f"{shown(value)} is no value that a label can have: up to 63 letters, digits, -, _ and .")
        for value in values
        if value and not _LABEL.fullmatch(value)
    ]


def _texts(labels: object) -> bool:
    return isinstance(labels, Mapping) and all(isinstance(text, str) for text in labels.values())


def _expression_faults(expression: Any, path: str) -> list[ConfigFinding]:  # noqa: ANN401
    if not isinstance(expression, Mapping):
        return [ConfigFinding(path, f"must be an object with key and operator, got {shown(expression)}")]
    found = [
        ConfigFinding(join(path, name), "unknown field: only key, operator and values are allowed")
        for name in expression.keys() - {"key", "operator", "values"}
    ]
    if not isinstance(expression.get("key"), str) or not expression["key"]:
        found.append(ConfigFinding(join(path, "key"), f"must be a label's name, got {shown(expression.get('key'))}"))
    operator, values = expression.get("operator"), expression.get("values")
    if not isinstance(operator, str) or operator not in _WITH_VALUES | _WITHOUT_VALUES:
        allowed = "In, NotIn, Exists or DoesNotExist"
        found.append(ConfigFinding(join(path, "operator"), f"must be {allowed}, got {shown(operator)}"))
    elif operator in _WITH_VALUES and not (
        isinstance(values, list) and values and all(isinstance(each, str) for each in values)
    ):
        found.append(
            ConfigFinding(join(path, "values"), f"must list at least one text for {operator}, got {shown(values)}")
        )
    elif operator in _WITHOUT_VALUES and values:
        found.append(ConfigFinding(join(path, "values"), f"must be absent for {operator}, got {shown(values)}"))
    return found or _label_faults(expression["key"], values or (), path)
