"""What is due: every reason to make a new certificate, and when trust is narrowed."""

import pytest

from manager.webhook.certificates import (
    LIFETIME_SECONDS,
    OVERLAP_SECONDS,
    RENEW_BEFORE_SECONDS,
    Pair,
    due,
    issue,
    narrowed,
    own_authority,
)

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = ("hook.ns.svc", "127.0.0.1")


@pytest.mark.parametrize("age_days", [0, 1, 30, 59])
def test_young_one_stays(age_days: int) -> None:
    """Nothing is to be done about a certificate that has more than 30 of its 90 days left."""
    pair = issue(NAMES, NOW - age_days * DAY)
    assert (due(pair, NAMES, NOW), narrowed(pair, NOW)) == ("", pair)


def test_renewed_well_before_end() -> None:
    """A certificate is due exactly when a third of its life is left."""
    pair, then = issue(NAMES, NOW), NOW + LIFETIME_SECONDS - RENEW_BEFORE_SECONDS
    assert (due(pair, NAMES, then), due(pair, NAMES, then + 1)) == ("", "it ends in 30 days")


def _trusting(authorities: bytes) -> Pair:
    pair = issue(NAMES, NOW)
    return Pair(authorities, pair.certificate, pair.key)


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (issue(NAMES, NOW - 91 * DAY), "it has expired"),
        (_trusting(issue(NAMES, NOW).authorities), "no authority beside it"),
        (_trusting(b""), "no authority beside it"),
        (issue(NAMES[:1], NOW), "it is not for 127.0.0.1"),  # the address to listen on is another one
        (issue(NAMES, NOW + 400 * DAY), "it was made for 490 days by a clock that ran ahead"),
        (issue(NAMES, NOW + 4000 * DAY), "it is not valid yet"),
    ],
)
def test_unusable_is_replaced(pair: Pair, reason: str) -> None:
    """Whatever cannot be served for long, or was not made for us, is replaced, and the log says why."""
    assert due(pair, NAMES, NOW).startswith(reason)


def test_overlap_ends() -> None:
    """The old authority is trusted for an hour beside the new one, then the new one alone."""
    pair = issue(NAMES, NOW, issue(NAMES, NOW - 70 * DAY).authorities)
    assert narrowed(pair, NOW + OVERLAP_SECONDS) == pair
    narrow = narrowed(pair, NOW + OVERLAP_SECONDS + 1)
    assert narrow == Pair(own_authority(pair), pair.certificate, pair.key)
    assert narrowed(narrow, NOW + OVERLAP_SECONDS + 1) == narrow


@pytest.mark.parametrize("error_days", [-3000, -400, -1, 0, 1, 400, 3000])
def test_no_clock_makes_a_loop(error_days: int) -> None:
    """However wrong the clock, what it makes is what it wants: no second one follows at once."""
    clock = NOW + error_days * DAY
    assert due(issue(NAMES, clock), NAMES, clock) == ""


def test_foreign_one_is_kept() -> None:
    """A good certificate that cert-manager left behind serves until it is due, whatever else it is for."""
    assert due(issue((*NAMES, "more.example"), NOW - 20 * DAY), NAMES, NOW) == ""
