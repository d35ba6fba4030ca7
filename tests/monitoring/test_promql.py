"""What a query selects."""

import pytest

from tests.monitoring.exported import missing
from tests.monitoring.promql import Need, needs


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", [("a", "")]),
        ('a{x="1", y=~"by (z)"} > 0', [("a", "x y")]),
        ("sum by (n) (rate(a_total{x!=''}[5m])) / 2", [("a_total", "n x")]),
        ('max(a{x="$x"}) - b', [("a", "x"), ("b", "")]),
        ("a and on (i, j) b", [("a", "i j"), ("b", "i j")]),
        ("sum by (n) (a) + max by (m) (b)", [("a", "n"), ("b", "m")]),
        ("count(count by (n) (max by (n, r) (a) > max by (n, r) (b))) or vector(0)", [("a", "n r"), ("b", "n r")]),
        ("avg by (r) (avg_over_time((a > bool b)[1d:5m]))", [("a", "r"), ("b", "r")]),
        ("a / on () group_left () (max(b) > 0)", [("a", ""), ("b", "")]),
        ("histogram_quantile(0.99, sum by (v, le) (rate(a_bucket[$__rate_interval])))", [("a_bucket", "le v")]),
        ("time() - max by (p) (a > 0) > 7 * 86400", [("a", "p")]),
    ],
)
def test_metrics_and_labels_are_read(expression: str, expected: list[tuple[str, str]]) -> None:
    """Functions, operators, strings and durations are no metrics; labels come from matchers and groupings."""
    assert needs(expression) == [Need(name, frozenset(labels.split())) for name, labels in expected]


def test_what_is_missing_is_told() -> None:
    known = {"a": frozenset({"node"}), "b": frozenset[str]()}
    assert missing("max by (node) (a) - sum(b)", known) == []
    assert missing('sum by (node) (a{pod="x"})', known) == ["a has no label pod"]
    assert missing("a + c", known) == ["no service exports c"]
