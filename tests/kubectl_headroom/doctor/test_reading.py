"""Reading of versions, schemas and clocks by checks."""

import pytest

from kubectl_headroom.doctor.checks.crds import missing
from kubectl_headroom.doctor.checks.prerequisites import minor
from kubectl_headroom.doctor.node_metric import NodeMetricSummary
from tests.kubectl_headroom.doctor.world import node_metric
from tests.support.objects import NOW, at


@pytest.mark.parametrize(
    ("text", "number"),
    [("v1.33.5-gke.1", (1, 33)), ("v1.36.2", (1, 36)), ("1.30+", (1, 30)), ("kwok-0.8", None), ("", None)],
)
def test_minor(text: str, number: tuple[int, int] | None) -> None:
    """Vendors put things behind the number; kwok calls its kubelet something else."""
    assert minor(text) == number


def test_missing_fields() -> None:
    """Fields are looked for in objects, lists and maps; a part that keeps everything lacks nothing."""
    text = {"type": "string"}
    wanted = {
        "properties": {
            "a": {"properties": {"b": text, "c": text}},
            "l": {"items": {"properties": {"x": text}}},
            "m": {"additionalProperties": {"properties": {"y": text}}},
            "kind": text,
        }
    }
    some = {
        "a": {"properties": {"b": text}},
        "l": {"items": {"properties": {}}},
        "m": {"additionalProperties": {"properties": {}}},
    }
    assert list(missing(wanted, {"properties": some})) == ["a.c", "l[].x", "m.*.y"]
    assert list(missing(wanted, {"x-kubernetes-preserve-unknown-fields": True})) == []
    assert list(missing(wanted, wanted)) == []
    assert list(missing(wanted, {"properties": {**wanted["properties"], "m": {}}})) == ["m.*"]
    assert list(missing(wanted, {"properties": {**wanted["properties"], "m": {"additionalProperties": True}}})) == []


def test_clock_of_a_fast_report() -> None:
    """The later of full report and prediction belongs to the last write; without an account nothing is known."""
    metric = node_metric("node-1", ago=10.0)
    metric["status"]["updateTime"] = at(-50)
    assert NodeMetricSummary.of(metric).ahead == 0.0
    assert NodeMetricSummary.of(metric).age(NOW) == 50.0
    metric["metadata"]["managedFields"] = []
    assert NodeMetricSummary.of(metric).ahead is None
    assert NodeMetricSummary.of(metric).age(NOW) == 50.0
    metric["status"]["updateTime"] = "yesterday"
    assert NodeMetricSummary.of(metric).age(NOW) is None
