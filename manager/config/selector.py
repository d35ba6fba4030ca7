"""Faults in the form of Kubernetes label selectors."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from manager.config.findings import ConfigFinding, join, shown

_WITH_VALUES: Final = frozenset({"In", "NotIn"})
_WITHOUT_VALUES: Final = frozenset({"Exists", "DoesNotExist"})
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_MOST_FIELDS: Final = 10
_MOST_LABELS: Final = 64


def faults(selector: Any, path: str) -> list[ConfigFinding]:  # noqa: ANN401 - configuration can hold anything
    """Return the faults in a selector's form."""
    if not isinstance(selector, Mapping):
        return [ConfigFinding(path, f"must be an object with matchLabels or matchExpressions, got {shown(selector)}")]
    return [ConfigFinding(where, message) for where, message in _faults(selector, path)]


def _faults(selector: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for name, value in itertools.islice(selector.items(), _MOST_FIELDS):
        if name not in {"matchLabels", "matchExpressions"}:
            # A pod's nodeSelector is labels without anything around them.
            hint = f': write {{"matchLabels": {{{shown(name)}: {shown(value)}}}}}' if isinstance(value, str) else ""
            yield join(path, name), f"unknown field: only matchLabels and matchExpressions are allowed{hint}"
    labels, listed = selector.get("matchLabels"), selector.get("matchExpressions")
    required = sum(len(part) for part in (labels, listed) if isinstance(part, Mapping | list))
    if required > _MOST_LABELS:
        yield path, f"must have requirements on at most {_MOST_LABELS} labels, got {required}"
        return
    where = join(path, "matchLabels")
    if isinstance(labels, Mapping) and all(isinstance(text, str) for text in labels.values()):
        for name, value in labels.items():
            yield from label_faults(name, [value], where)
    elif labels is not None:
        yield where, f"must map texts to texts, got {shown(labels)}"
    where = join(path, "matchExpressions")
    if isinstance(listed, list):
        for index, expression in enumerate(listed):
            yield from _expression_faults(expression, join(where, index))
    elif listed is not None:
        yield where, f"must be a list, got {shown(listed)}"


def label_faults(name: str, values: Sequence[str], path: str) -> Iterator[tuple[str, str]]:
    """Yield the reasons, with the path, why no object can have a label of this name and these values."""
    prefix, slash, own = name.rpartition("/")
    if not (_LABEL.fullmatch(own) and (not slash or _PREFIX.fullmatch(prefix))):
        yield path, f"{shown(name)} is no name that a label can have"
    for value in values:
        if value and not _LABEL.fullmatch(value):
            yield path, f"{shown(value)} is no value that a label can have: up to 63 letters, digits, -, _ and ."


def _expression_faults(expression: Any, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    if not isinstance(expression, Mapping):
        yield path, f"must be an object with key and operator, got {shown(expression)}"
        return
    result = [
        (join(path, name), "unknown field: only key, operator and values are allowed")
        for name in expression.keys() - {"key", "operator", "values"}
    ]
    key, operator, values = (expression.get(name) for name in ("key", "operator", "values"))
    if not isinstance(key, str) or not key:
        result.append((join(path, "key"), f"must be a label's name, got {shown(key)}"))
    if not isinstance(operator, str) or operator not in _WITH_VALUES | _WITHOUT_VALUES:
        result.append((join(path, "operator"), f"must be In, NotIn, Exists or DoesNotExist, got {shown(operator)}"))
    elif operator in _WITHOUT_VALUES and values:
        result.append((join(path, "values"), f"must be absent for {operator}, got {shown(values)}"))
    elif operator in _WITH_VALUES and not (
        isinstance(values, list) and values and all(isinstance(value, str) for value in values)
    ):
        result.append((join(path, "values"), f"must list at least one text for {operator}, got {shown(values)}"))
    yield from result or label_faults(str(key), values or [], path)
