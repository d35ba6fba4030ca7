"""What the cluster's NodeMetric definition does not know."""

import pytest

from manager.node_metric import RETRY_SECONDS, UnknownFields, undeclared_field, without_field


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (
            "failed to create typed patch object (x): .spec.predictPolicy: field not declared in schema",
            "spec.predictPolicy",
        ),
        # An item of a list cannot be left out alone.
        ('x: .status.conditions[type="A"].message: field not declared in schema', "status.conditions"),
        ("etcdserver: request timed out", None),
    ],
)
def test_refusal_names_the_field(message: str, field: str | None) -> None:
    """The API server's sentence says which field it does not know."""
    assert undeclared_field(message) == field


def test_refused_fields_are_tried_again() -> None:
    """A refused field is left out of writes for ten minutes, and then tried once."""
    unknown = UnknownFields()
    unknown.add("spec.predictPolicy", 0.0)
    assert unknown.below("spec", RETRY_SECONDS - 1) == {"spec.predictPolicy"}
    assert unknown.below("status", 2.0) == set()
    assert unknown.below("spec", RETRY_SECONDS) == set()
    unknown.add("spec.predictPolicy", RETRY_SECONDS)
    assert unknown.below("spec", 2 * RETRY_SECONDS - 1) == {"spec.predictPolicy"}


def test_empty_parts_go_too() -> None:
    """Without its only field a part is not sent either; a path that leads nowhere changes nothing."""
    body = {"kind": "X", "status": {"conditions": []}}
    assert without_field(body, "status.conditions") == {"kind": "X"}
    assert without_field(body, "spec.predictPolicy") == body
