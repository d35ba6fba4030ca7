"""What is due: every reason to make a new certificate, and the one to narrow trust."""

import base64
from typing import Any

import pytest

from manager.webhook.certificates import LIFETIME_SECONDS, Pair, issue, own_authority
from manager.webhook.rotation import OVERLAP_SECONDS, RENEW_BEFORE_SECONDS, Step, plan

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = ("hook.ns.svc", "127.0.0.1")


def secret(pair: Pair, **more: str) -> dict[str, Any]:
    """A Secret that holds a pair."""
    return {"metadata": {"resourceVersion": "1"}, "data": {**pair.data, **more}}


@pytest.mark.parametrize("age_days", [0, 1, 30, 59])
def test_young_one_stays(age_days: int) -> None:
    """Nothing is to be done about a certificate that has more than 30 of its 90 days left."""
    assert plan(secret(issue(NAMES, NOW - age_days * DAY)), NAMES, NOW).step is Step.NOTHING


def test_renewed_well_before_end() -> None:
    """A certificate is due exactly when a third of its life is left."""
    pair = issue(NAMES, NOW)
    due = NOW + LIFETIME_SECONDS - RENEW_BEFORE_SECONDS
    assert plan(secret(pair), NAMES, due).step is Step.NOTHING
    found = plan(secret(pair), NAMES, due + 1)
    assert (found.step, found.reason, found.pair) == (Step.ISSUE, "it ends in 30 days", pair)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "there is none yet"),
        ({"metadata": {}}, "tls.crt is missing"),  # somebody emptied it
        ({"metadata": {}, "data": {"tls.crt": "eA==", "tls.key": "eA=="}}, "tls.crt is not a certificate in PEM form"),
        (secret(issue(NAMES, NOW - 91 * DAY)), "it has expired"),
        (secret(issue(NAMES[:1], NOW)), "it is not for 127.0.0.1"),  # the address to listen on is another one
        (secret(issue(NAMES, NOW), **{"ca.crt": issue(NAMES, NOW).data["ca.crt"]}), "no authority beside it"),
        (secret(issue(NAMES, NOW), **{"ca.crt": ""}), "no authority beside it"),
        (secret(issue(NAMES, NOW + 400 * DAY)), "it was made for 490 days by a clock that ran ahead"),
        (secret(issue(NAMES, NOW + 4000 * DAY)), "it is not valid yet"),
    ],
)
def test_unusable_is_replaced(found: dict[str, Any] | None, reason: str) -> None:
    """Whatever cannot be served for long, or was not made for us, is replaced, and the log says why."""
    decided = plan(found, NAMES, NOW)
    assert decided.step is Step.ISSUE
    assert decided.reason.startswith(reason)


def test_overlap_ends() -> None:
    """The old authority is trusted for an hour beside the new one, then the new one alone."""
    pair = issue(NAMES, NOW, issue(NAMES, NOW - 70 * DAY).authorities)
    assert plan(secret(pair), NAMES, NOW + OVERLAP_SECONDS).step is Step.NOTHING
    assert plan(secret(pair), NAMES, NOW + OVERLAP_SECONDS + 1).step is Step.NARROW
    narrow = Pair(own_authority(pair), pair.certificate, pair.key)
    assert plan(secret(narrow), NAMES, NOW + OVERLAP_SECONDS + 1).step is Step.NOTHING


@pytest.mark.parametrize("error_days", [-3000, -400, -1, 0, 1, 400, 3000])
def test_no_clock_makes_a_loop(error_days: int) -> None:
    """However wrong the clock, what it makes is what it wants: no second one follows at once."""
    clock = NOW + error_days * DAY
    assert plan(secret(issue(NAMES, clock)), NAMES, clock).step is Step.NOTHING


def test_foreign_one_is_kept() -> None:
    """A good certificate that cert-manager left behind serves until it is due."""
    pair = issue((*NAMES, "more.example"), NOW - 20 * DAY)
    data = {**pair.data, "tls-combined.pem": base64.b64encode(b"more").decode()}
    assert plan({"metadata": {}, "data": data}, NAMES, NOW).step is Step.NOTHING
