import pytest

from manager.mid.explanation import amounts
from manager.mid.explanation.node_metric import Amount, age, read
from tests.kubectl_headroom.recording import NOW, named


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0"),
        (1023, "1023"),
        (64 * 2**20, "64Mi"),
        (9878424781, "9.2Gi"),
        (31 * 2**30 + 5, "31Gi"),
        (2**40, "1Ti"),
        (-3 * 2**29, "-1.5Gi"),
    ],
)
def test_memory_in_largest_unit(number: int | None, text: str) -> None:
    """Memory is written in the largest unit that fits, with two or three digits."""
    assert amounts.memory(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (-3.0, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (75, "1m15s"),
        (600, "10m"),
        (7300, "2h1m"),
        (90_000, "25h"),
        (300_000, "3d"),
    ],
)
def test_age_in_two_units(seconds: float | None, text: str) -> None:
    """An age is written in one or two units, the small one only where it matters."""
    assert amounts.age(seconds) == text


def test_percent_needs_a_whole() -> None:
    """A share of zero, or of an unknown amount, is a dash."""
    assert amounts.percent(300, 1000) == "30%"
    assert amounts.percent(300, 0) == "-"
    assert amounts.percent(None, 1000) == "-"


def test_pair_with_one_known() -> None:
    """A pair of which one part is unknown shows the other; of nothing known, one dash."""
    assert amounts.pair(250, None) == "250m/-"
    assert amounts.pair(None, None) == "-"


def test_report_in_numbers() -> None:
    """A report's quantities become milli-cores and bytes, and its age is counted from updateTime."""
    report = read(named("nodeMetrics", "web-1"), NOW)
    assert report.usage == Amount(6000, 20 * 2**30)
    assert report.prod_peak == Amount(5900, 19 * 2**30)
    assert report.age_seconds == 60
    assert report.prediction == "ready"


def test_absent_is_not_zero() -> None:
    report = read(named("nodeMetrics", "web-2"), NOW)
    assert report.reclaimable == Amount()
    assert report.prediction == "none"


def test_foreign_report_counts_ready() -> None:
    """An agent without conditions is ready when it states a reclaimable amount."""
    metric = named("nodeMetrics", "web-2")
    metric["status"]["prodReclaimableMetric"] = {"resource": {"resources": {"cpu": "1"}}}
    assert read(metric, NOW).prediction == "ready"


def test_condition_reason_is_shown() -> None:
    """A prediction that is not ready says why in one word."""
    metric = named("nodeMetrics", "web-1")
    metric["status"]["conditions"][1] |= {"status": "False", "reason": "ColdStart"}
    assert read(metric, NOW).prediction == "ColdStart"


def test_malformed_report_names_path() -> None:
    """A malformed foreign report becomes one sentence that names the object and the field."""
    metric = named("nodeMetrics", "web-1")
    metric["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] = "lots"
    report = read(metric, NOW)
    assert report.prediction == "unreadable"
    assert report.problem is not None
    assert report.problem.startswith("NodeMetric web-1 cannot be read: status.nodeMetric.nodeUsage.resources")


def test_clock_ahead_is_now() -> None:
    """A report from the future is zero seconds old, and a text that is no time has no age."""
    assert age("2026-11-21T12:05:00Z", NOW) == 0
    assert age("yesterday", NOW) is None
