"""Certificates: what is made can be served and is for the right names; what is due, and what cannot be served."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from manager.webhook.certificates import (
    LIFETIME_SECONDS,
    OVERLAP_SECONDS,
    RENEW_BEFORE_SECONDS,
    Pair,
    UnusableError,
    due,
    issue,
    read,
)
from manager.webhook.service import served_names

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = ("headroom-manager-webhook.ns.svc", "127.0.0.1")
PAIR = issue(NAMES, NOW)


def encoded(text: bytes) -> str:
    """As in a Secret."""
    return base64.b64encode(text).decode()


def encrypted(key: bytes) -> bytes:
    """A private key behind a password."""
    loaded = serialization.load_pem_private_key(key, None)
    secret = serialization.BestAvailableEncryption(b"x")
    return loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)


def test_made_can_be_read() -> None:
    """For the names asked for, for 90 days; valid for a clock a year behind."""
    assert read(PAIR.data) == PAIR
    assert (PAIR.names, PAIR.ends) == (frozenset(NAMES), NOW + LIFETIME_SECONDS)
    assert PAIR.starts < NOW - 365 * DAY


def test_may_only_serve() -> None:
    """It is its own authority, and of no other one."""
    (certificate,) = x509.load_pem_x509_certificates(PAIR.certificate)
    certificate.verify_directly_issued_by(certificate)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [each.dotted_string for each in usage] == ["1.3.6.1.5.5.7.3.1"]
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0


@pytest.mark.parametrize(
    ("host", "more"),
    [
        ("", ()),
        ("0.0.0.0", ()),  # noqa: S104 - all addresses are no name
        ("::", ()),
        ("127.0.0.1", ("127.0.0.1",)),
        ("0:0:0:0:0:0:0:1", ("::1",)),
        ("localhost", ("localhost",)),
    ],
)
@pytest.mark.parametrize("namespace", ["ns", "n" * 63])  # too long for a common name
def test_names_of_the_service(host: str, more: tuple[str, ...], namespace: str) -> None:
    names = served_names("hook", namespace, host)
    assert names == (f"hook.{namespace}.svc", f"hook.{namespace}.svc.cluster.local", *more)
    assert issue(names, NOW).names == set(names)


def test_others_stay_trusted() -> None:
    """What was trusted stays so beside a new one, each once, without expired ones; four at most, the newest first."""
    old, dead = issue(NAMES, NOW - 10 * DAY).certificate, issue(NAMES, NOW - 100 * DAY).certificate
    assert PAIR.trust([old + dead, b"garbage", old, PAIR.certificate], NOW) == PAIR.certificate + old
    others = [issue(NAMES, NOW).certificate for _ in range(6)]
    assert PAIR.trust(others, NOW) == b"".join([PAIR.certificate, *others[:3]])


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (lambda _: None, "tls.crt is missing"),
        (lambda _: {}, "tls.crt is missing"),
        (lambda pair: {**pair.data, "tls.key": ""}, "tls.key is missing"),
        (lambda pair: {**pair.data, "tls.crt": "%%%"}, "tls.crt is not base64"),
        (lambda pair: {**pair.data, "tls.crt": encoded(b"hello")}, "tls.crt is not a certificate in PEM form"),
        (lambda pair: {**pair.data, "tls.key": encoded(b"hello")}, "tls.key is not a private key in PEM form"),
        (lambda pair: {**pair.data, "tls.key": encoded(encrypted(pair.key))}, "tls.key is encrypted"),
        (lambda pair: {**pair.data, "tls.crt": encoded(b"x" * 300_000)}, "more than 262144"),
        (lambda pair: {**pair.data, "tls.key": issue(NAMES, NOW).data["tls.key"]}, "tls.key is not the key of tls.crt"),
    ],
)
def test_unusable_is_named(data: Callable[[Pair], dict[str, str] | None], complaint: str) -> None:
    """A Secret that holds nothing to serve is refused with one line that says which part is wrong."""
    with pytest.raises(UnusableError, match=f"^.*{complaint}.*$"):
        read(data(PAIR))


@pytest.mark.filterwarnings("ignore::UserWarning")  # the library warns of serial numbers that are not positive
@given(st.data())
def test_damage_never_surprises(data: st.DataObject) -> None:
    """Whatever damage a Secret takes, reading it gives a pair that can be looked into, or one line."""
    part = data.draw(st.sampled_from(["tls.crt", "tls.key"]))
    first, *inside, last = base64.b64decode(PAIR.data[part]).splitlines()
    body = bytearray(base64.b64decode(b"".join(inside)))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    text = b"\n".join((first, base64.b64encode(body), last))
    try:
        pair = read({**PAIR.data, part: encoded(text)})
    except UnusableError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right
        return
    due(pair, NAMES, NOW)
    PAIR.trust([pair.trust([], NOW)], NOW)


def signed_by_an_authority() -> Pair:
    """A certificate for our names that does not sign itself."""
    key, moment = ec.generate_private_key(ec.SECP256R1()), datetime.fromtimestamp(NOW, UTC)
    subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in ("leaf", "authority"))
    certificate = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), 1, moment, moment + timedelta(days=60))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAMES[0])]), critical=False)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), PAIR.key)


@pytest.mark.parametrize(
    ("pair", "after", "reason"),
    [
        (PAIR, LIFETIME_SECONDS - RENEW_BEFORE_SECONDS, ""),
        (PAIR, LIFETIME_SECONDS - RENEW_BEFORE_SECONDS + 1, "it ends in 30 days"),
        (PAIR, 91 * DAY, "it has expired"),
        (signed_by_an_authority(), 0, "an authority has signed it"),  # as earlier versions made it, and cert-manager
        (issue(NAMES[:1], NOW), 0, "it is not for 127.0.0.1"),  # the address to listen on is another one
        (issue((*NAMES, "more.example"), NOW), 20 * DAY, ""),  # what cert-manager left behind serves until it is due
        (PAIR, -400 * DAY, "it was made for 490 days by a clock that ran ahead"),
        (PAIR, -4000 * DAY, "it is not valid yet"),
    ],
)
def test_due(pair: Pair, after: float, reason: str) -> None:
    """Whatever cannot be served for long, or was not made for us, is replaced, and the log says why."""
    found = due(pair, NAMES, NOW + after)
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


@pytest.mark.parametrize("error_days", [-3000, -400, -1, 0, 1, 400, 3000])
def test_no_clock_makes_a_loop(error_days: int) -> None:
    clock = NOW + error_days * DAY
    assert due(issue(NAMES, clock), NAMES, clock) == ""


def test_overlap_ends() -> None:
    """An old certificate is trusted for an hour beside the new one, then the new one alone."""
    old = issue(NAMES, NOW - 70 * DAY).certificate
    found = [PAIR.trust([PAIR.certificate + old], NOW + OVERLAP_SECONDS + more) for more in (0, 1)]
    assert found == [PAIR.certificate + old, PAIR.certificate]
