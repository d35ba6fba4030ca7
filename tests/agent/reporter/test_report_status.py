import logging

import pytest

from agent.reporter.report_status import Failure, FailureKind, ReportStatus, kind_of
from headroom.kube import ApiError, ApiUnavailable

AWAY = ApiUnavailable("The API server at x cannot be reached: Connection refused")
FORBIDDEN = ApiError(403, "Forbidden", "cannot patch")


@pytest.mark.parametrize(
    ("failure", "state", "said"),
    [
        (AWAY, FailureKind.AWAY, "Connection refused"),
        (ApiUnavailable("x answers 503: starting", status=503), FailureKind.AWAY, "answers 503"),
        (ApiUnavailable("x answers 429: slow down", status=429, retry_after=5), FailureKind.OVERLOADED, "answers 429"),
        (ApiError(401, "Unauthorized", "the login is not accepted"), FailureKind.LOGIN, "login is not accepted"),
        (FORBIDDEN, FailureKind.FORBIDDEN, "service account the chart's role"),
        (ApiError(404, "NotFound", "not found"), FailureKind.ABSENT, "the manager makes it"),
        (ApiError(404, "", "is the definition (CRD) of that kind installed?"), FailureKind.UNDEFINED, "CRD"),
        (ApiError(409, "Conflict", "was modified"), FailureKind.CHANGED, "was modified"),
        (ApiError(410, "Gone", "too old"), FailureKind.CHANGED, "too old"),
        (ApiError(422, "Invalid", "status.x: must be y"), FailureKind.REFUSED, "status.x"),
        (ApiError(413, "RequestEntityTooLarge", "limit is 3145728"), FailureKind.REFUSED, "limit"),
        ("the database is damaged", FailureKind.UNMADE, "the database is damaged"),
    ],
)
def test_failure_is_logged_once_with_the_way_out(
    failure: Failure, state: FailureKind, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert kind_of(failure) is state
    status = ReportStatus("worker")
    for second in range(100):
        status.failed("full", failure, float(second))
    assert caplog.text.count(said) == 1
    assert said in status.problem


def test_server_that_comes_up_is_logged_once_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    """A missing right is logged when it lasts: an API server that starts refuses until it has read its roles."""
    status = ReportStatus("worker")
    for _ in range(20):
        for failure in (AWAY, FORBIDDEN, ApiUnavailable("500", status=500), ApiUnavailable("429", status=429)):
            status.failed("full", failure, 0.0)
    assert len(caplog.records) == 2
    assert "cannot patch" not in caplog.text
    status.failed("full", FORBIDDEN, 3.0)
    status.failed("full", FORBIDDEN, 4.0)
    assert caplog.text.count("cannot patch") == 1


def test_end_of_each_outage_is_logged_with_its_length(caplog: pytest.LogCaptureFixture) -> None:
    status = ReportStatus("worker")
    with caplog.at_level(logging.INFO):
        status.succeeded("full", 0.0)
        assert caplog.text == ""
        for start in (100.0, 5000.0):
            for second in range(10):
                status.failed("full", AWAY, start + second)
            status.succeeded("full", start + 1800.0)
            status.succeeded("full", start + 1860.0)
    assert caplog.text.count("Connection refused") == 2
    assert caplog.text.count("recovered after 30m0s (10 attempts)") == 2
    assert (status.problem, status.state) == ("", None)
