"""Which nodes a pod asks for: nodeSelector and required node affinity, as kube-scheduler 1.36 judges them."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from scheduler_plugins.quota.node import QuotaNode

Json = Mapping[str, Any]
NodeTest: TypeAlias = Callable[[QuotaNode], bool]
"""Whether a node is one of those asked for."""

REASON: Final = "node(s) didn't match Pod's node affinity/selector"
"""As kube-scheduler says it."""
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_TWO_63: Final = 2**63


def required_nodes(spec: Json) -> NodeTest | None:
    """A test of whether a node is one that a pod asks for; None: every node is.

    Args:
        spec: of the pod.
    """
    selector = spec.get("nodeSelector") or {}
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not selector and affinity is None:
        return None
    if affinity is None:
        return lambda node: _has_labels(node, selector)
    terms = [test for term in affinity.get("nodeSelectorTerms") or () if (test := _term(term)) is not None]
    return lambda node: _has_labels(node, selector) and any(test(node) for test in terms)


def _has_labels(node: QuotaNode, selector: Mapping[str, str]) -> bool:
    labels = node.labels
    return all(labels.get(name) == wanted for name, wanted in selector.items())


def _term(term: Json) -> NodeTest | None:
    """One of the terms of which one must hold; None: it holds for no node, as a term that is empty or malformed."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    tests = [*(_of_labels(each) for each in expressions), *(_of_fields(each) for each in fields)]
    if not tests or None in tests:
        return None
    return lambda node: all(test(node) for test in tests if test is not None)


def _of_labels(expression: Json) -> NodeTest | None:
    key, operator = expression.get("key", ""), expression.get("operator")
    values: Sequence[str] = expression.get("values") or ()
    if not all(_LABEL_VALUE.fullmatch(value) for value in values):
        return None
    tests: Mapping[str, NodeTest]
    if values:
        listed = frozenset(values)
        tests = {
            "In": lambda node: node.labels.get(key) in listed,
            "NotIn": lambda node: node.labels.get(key) not in listed,
        }
    else:
        tests = {"Exists": lambda node: key in node.labels, "DoesNotExist": lambda node: key not in node.labels}
    bound = _integer(values[0]) if len(values) == 1 else None
    if operator not in {"Gt", "Lt"} or bound is None:
        return tests.get(str(operator))
    sign = 1 if operator == "Gt" else -1
    return lambda node: (has := _integer(node.labels.get(key, ""))) is not None and sign * has > sign * bound


def _of_fields(expression: Json) -> NodeTest | None:
    """Of a node's fields only the name can be asked for, and one name per expression."""
    operator = expression.get("operator")
    values: Sequence[str] = expression.get("values") or ()
    if len(values) != 1:
        return None
    wanted = values[0] if expression.get("key") == "metadata.name" else None
    if operator == "In":
        return lambda node: node.name == wanted
    return (lambda node: node.name != wanted) if operator == "NotIn" else None


def _integer(text: str) -> int | None:
    """A number as Go's ParseInt reads it."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_TWO_63 <= number < _TWO_63 else None
