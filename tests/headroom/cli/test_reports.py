from manager.mid.explanation.node_metric import Amount, age, read
from tests.headroom.cli.recording import NOW, named


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
    """A report that somebody wrote wrongly becomes one sentence that names the object and the field."""
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
