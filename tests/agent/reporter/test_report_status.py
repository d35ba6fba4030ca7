"""What failures mean, and how often they are said."""

import logging

import pytest

from agent.reporter.report_status import Failure, FailureKind, ReportStatus, kind_of
from headroom.kube import ApiError, ApiUnavailable

AWAY = ApiUnavailable("The API server at x cannot be reached: Connection refused")


@pytest.mark.parametrize(
    ("failure", "state", "said"),
    [
        (AWAY, FailureKind.AWAY, "Connection refused"),
        (ApiUnavailable("x answers 503: starting", status=503), FailureKind.AWAY, "answers 503"),
        (ApiUnavailable("x answers 429: slow down", status=429, retry_after=5), FailureKind.OVERLOADED, "answers 429"),
        (ApiError(401, "Unauthorized", "the login is not accepted"), FailureKind.LOGIN, "login is not accepted"),
        (ApiError(403, "Forbidden", "cannot patch"), FailureKind.FORBIDDEN, "service account the chart's role"),
        (ApiError(404, "NotFound", "not found"), FailureKind.ABSENT, "the manager makes it"),
        (ApiError(404, "", "is the definition (CRD) of that kind installed?"), FailureKind.UNDEFINED, "CRD"),
        (ApiError(409, "Conflict", "was modified"), FailureKind.CHANGED, "was modified"),
        (ApiError(410, "Gone", "too old"), FailureKind.CHANGED, "too old"),
        (ApiError(422, "Invalid", "status.x: must be y"), FailureKind.REFUSED, "status.x"),
        (ApiError(413, "RequestEntityTooLarge", "limit is 3145728"), FailureKind.REFUSED, "limit"),
        ("the database is damaged", FailureKind.UNMADE, "the database is damaged"),
    ],
)
def test_failure_has_a_meaning(
    failure: Failure, state: FailureKind, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Every kind of failure is distinguished, and logged once with what to do, however long it lasts."""
    assert kind_of(failure) is state
    reach = ReportStatus("worker")
    for second in range(100):
        reach.failed("full", failure, float(second))
    assert caplog.text.count(said) == 1
    assert said in reach.problem


def test_changing_reasons_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """A server that comes up gives several reasons in turn: each is said once until reports are taken again."""
    reach = ReportStatus("worker")
    starting = ApiUnavailable("x answers 500: starting", status=500)
    for _ in range(20):
        for failure in (AWAY, starting, ApiUnavailable("x answers 429", status=429)):
            reach.failed("full", failure, 0.0)
    assert len(caplog.records) == 2


def test_passing_refusal_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    """A missing right is said when it lasts: an API server that starts refuses until it has read its roles."""
    reach = ReportStatus("worker")
    refused = ApiError(403, "Forbidden", "cannot patch")
    reach.failed("full", refused, 0.0)
    reach.failed("full", AWAY, 1.0)
    reach.failed("full", refused, 2.0)
    assert "cannot patch" not in caplog.text
    reach.failed("full", refused, 3.0)
    assert "cannot patch" in caplog.text


def test_end_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """The end of an outage is said once, with how long it took; where nothing was said, nothing ended."""
    reach = ReportStatus("worker")
    with caplog.at_level(logging.INFO):
        reach.succeeded("full", 0.0)
        assert caplog.text == ""
        for second in range(10):
            reach.failed("full", AWAY, 100.0 + second)
        reach.succeeded("full", 1900.0)
        reach.succeeded("full", 1960.0)
    assert caplog.text.count("taken again, after 30m0s and 10 tries") == 1
    assert (reach.problem, reach.state) == ("", None)


def test_new_outage_is_said_again(caplog: pytest.LogCaptureFixture) -> None:
    """Each outage has its own line."""
    reach = ReportStatus("worker")
    for _ in range(3):
        reach.failed("full", AWAY, 0.0)
        reach.succeeded("full", 1.0)
    assert caplog.text.count("Connection refused") == 3
