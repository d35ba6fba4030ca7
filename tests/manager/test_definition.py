"""What the cluster's NodeMetric definition does not know."""

import pytest

from manager.node_metric import PROBE_SECONDS, DefinitionFields, undeclared_field, without_field


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


def test_one_tries_again() -> None:
    """A dropped field is left out, until after a while one look tries it again and the others go on without."""
    definition = DefinitionFields()
    assert definition.mark_unknown("spec.predictPolicy", 0.0)
    assert not definition.mark_unknown("spec.predictPolicy", 1.0)
    assert definition.omitted("spec", 2.0) == {"spec.predictPolicy"}
    assert definition.omitted("status", 2.0) == set()
    assert definition.omitted("spec", 1.0 + PROBE_SECONDS) == set()
    assert definition.omitted("spec", 1.0 + PROBE_SECONDS) == {"spec.predictPolicy"}


def test_accepted_field_is_known_again() -> None:
    """A body that is taken with the field in it ends the matter; one without it says nothing."""
    definition = DefinitionFields()
    definition.mark_unknown("spec.predictPolicy", 0.0)
    assert definition.mark_known({"spec": {"metricCollectPolicy": {}}}) == []
    assert definition.mark_known({"spec": {"predictPolicy": {}}}) == ["spec.predictPolicy"]
    assert definition.unknown == set()


def test_empty_parts_go_too() -> None:
    """Without its only field a part is not sent either; a path that leads nowhere changes nothing."""
    body = {"kind": "X", "status": {"conditions": []}}
    assert without_field(body, "status.conditions") == {"kind": "X"}
    assert without_field(body, "spec.predictPolicy") == body
