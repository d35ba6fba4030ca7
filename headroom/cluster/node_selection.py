"""Node selectors, node affinity and tolerations, as kube-scheduler 1.36 reads them. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

Json = Mapping[str, Any]

_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_TWO_63: Final = 2**63


class LabelledNode(Protocol):
    """The properties of a node that selectors read."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""


NodeTest: TypeAlias = Callable[[LabelledNode], bool]  # whether a selector matches a node


def required_nodes(spec: Json) -> NodeTest | None:
    """Return a test of whether a node matches a pod's node selector and affinity; None: every node does."""
    selector = spec.get("nodeSelector") or {}
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not selector and affinity is None:
        return None
    if affinity is None:
        return lambda node: _has_labels(node, selector)
    terms = [test for term in affinity.get("nodeSelectorTerms") or () if (test := node_selector_term(term)) is not None]
    return lambda node: _has_labels(node, selector) and any(test(node) for test in terms)


def _has_labels(node: LabelledNode, selector: Mapping[str, str]) -> bool:
    labels = node.labels
    return all(labels.get(name) == wanted for name, wanted in selector.items())


def node_selector_term(term: Json) -> NodeTest | None:
    """A test by one term of a node selector; None: it holds for no node, as a term that is empty or malformed."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    tests = [*(_of_labels(expression) for expression in expressions), *(_of_fields(field) for field in fields)]
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
    """Select by a field: only the name is supported, with one value per expression."""
    operator = expression.get("operator")
    values: Sequence[str] = expression.get("values") or ()
    if len(values) != 1:
        return None
    wanted = values[0] if expression.get("key") == "metadata.name" else None
    if operator == "In":
        return lambda node: node.name == wanted
    return (lambda node: node.name != wanted) if operator == "NotIn" else None


@lru_cache(maxsize=4096)
def _integer(text: str) -> int | None:
    """A number as Go's ParseInt reads it."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_TWO_63 <= number < _TWO_63 else None


def tolerates(toleration: Json, taint: Json) -> bool:
    """Return whether a toleration tolerates a taint; an empty effect or key tolerates all."""
    effect, key, operator = toleration.get("effect"), toleration.get("key"), toleration.get("operator") or "Equal"
    if (effect and effect != taint.get("effect")) or (key and key != taint.get("key")):
        return False
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")
