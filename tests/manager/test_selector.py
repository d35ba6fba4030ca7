"""Label selectors of nodeConfigs."""

from typing import Any

import pytest

from headroom.cluster.selector import matches
from manager.config.selector import faults

LABELS = {"pool": "y", "zone": "a"}


def _expression(operator: str, *values: str, key: str = "pool") -> dict[str, Any]:
    listed = {"values": list(values)} if values else {}
    return {"matchExpressions": [{"key": key, "operator": operator, **listed}]}


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (None, False),  # absent matches nothing
        ({}, True),  # empty matches everything
        ({"matchLabels": {"pool": "y", "zone": "a"}}, True),
        ({"matchLabels": {"pool": "y", "zone": "b"}}, False),
        (_expression("In", "x", "y"), True),
        (_expression("In", "x"), False),
        (_expression("NotIn", "x"), True),
        (_expression("NotIn", "y"), False),
        (_expression("NotIn", "y", key="absent"), True),
        (_expression("Exists"), True),
        (_expression("Exists", key="absent"), False),
        (_expression("DoesNotExist"), False),
        (_expression("DoesNotExist", key="absent"), True),
        ({"matchLabels": {"zone": "a"}, **_expression("In", "x")}, False),
    ],
)
def test_selectors_match(selector: dict[str, Any] | None, wanted: bool) -> None:  # noqa: FBT001
    """Selectors match as in Kubernetes: all parts must agree."""
    assert matches(selector, LABELS) is wanted
    assert selector is None or not faults(selector, "s")


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("pool=y", 's: must be an object with matchLabels or matchExpressions, got "pool=y"'),
        (
            {"pool": "y"},
            (
                "s.pool: unknown field: only matchLabels and matchExpressions are allowed: "
                'write {"matchLabels": {"pool": "y"}}'
            ),
        ),
        ({"matchLabels": {"a pool": "y"}}, 's.matchLabels: "a pool" is no name that a label can have'),
        (
            _expression("In", "not this"),
            's.matchExpressions[0]: "not this" is no value that a label can have: up to 63 letters, digits, -, _ and .',
        ),
        (
            {"matchLabels": {f"l{i}": "x" for i in range(65)}},
            "s: must have requirements on at most 64 labels, got 65",
        ),
        ({"matchLabels": {"pool": 1}}, 's.matchLabels: must map texts to texts, got {"pool": 1}'),
        ({"matchExpressions": {}}, "s.matchExpressions: must be a list, got {}"),
        ({"matchExpressions": [1]}, "s.matchExpressions[0]: must be an object with key and operator, got 1"),
        (
            {"matchExpressions": [{"key": "", "operator": "Exists"}]},
            's.matchExpressions[0].key: must be a label\'s name, got ""',
        ),
        (
            _expression("Contains", "x"),
            's.matchExpressions[0].operator: must be In, NotIn, Exists or DoesNotExist, got "Contains"',
        ),
        (_expression("In"), "s.matchExpressions[0].values: must list at least one text for In, got null"),
        (_expression("Exists", "x"), 's.matchExpressions[0].values: must be absent for Exists, got ["x"]'),
    ],
)
def test_malformed_selectors_are_named(selector: Any, message: str) -> None:  # noqa: ANN401
    """Each fault of a selector is one sentence with its path."""
    assert [str(each) for each in faults(selector, "s")] == [message]
