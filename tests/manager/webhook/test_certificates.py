"""Certificates: what is made can be served and is for the right names; what cannot be served is named."""

import base64
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from manager.webhook.certificates import (
    LIFETIME_SECONDS,
    Pair,
    UnusableError,
    bundle,
    facts,
    issue,
    own_authority,
    read,
)
from manager.webhook.service import served_names

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = ("headroom-manager-webhook.ns.svc", "127.0.0.1")


def encoded(text: bytes) -> str:
    """As in a Secret."""
    return base64.b64encode(text).decode()


def encrypted(key: bytes) -> bytes:
    """A private key behind a password."""
    loaded = serialization.load_pem_private_key(key, None)
    secret = serialization.BestAvailableEncryption(b"x")
    return loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)


def test_made_can_be_read() -> None:
    """A new pair is for the names asked for, valid for 90 days, signed by the one authority beside it."""
    pair = issue(NAMES, NOW)
    assert read(pair.data) == pair
    found = facts(pair)
    assert found.names == set(NAMES)
    assert found.ends == NOW + LIFETIME_SECONDS
    assert found.issued == NOW
    assert (found.authorities, found.signed) == (1, True)
    assert own_authority(pair) == pair.authorities


def test_starts_long_ago() -> None:
    """A clock that is a year ahead makes a certificate that is valid now: validity begins long before it is made."""
    pair = issue(NAMES, NOW + 365 * DAY)
    assert facts(pair).starts < NOW < facts(pair).ends


def test_authority_is_for_one() -> None:
    """The authority may sign no further authority, its key is nowhere, and the leaf may only serve."""
    pair = issue(NAMES, NOW)
    (authority,) = x509.load_pem_x509_certificates(pair.authorities)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    assert pair.key.count(b"PRIVATE KEY") == 2  # one key: the line above it and the line below
    key = serialization.load_pem_private_key(pair.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() != authority.public_key()
    (leaf,) = x509.load_pem_x509_certificates(pair.certificate)
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [each.dotted_string for each in usage] == ["1.3.6.1.5.5.7.3.1"]
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_longest_namespace_fits() -> None:
    """A namespace of 63 characters makes a name that is too long for a common name, so it stands elsewhere."""
    names = served_names("headroom-manager-webhook", "n" * 63, "")
    assert facts(issue(names, NOW)).names == set(names)


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
def test_names_of_the_service(host: str, more: tuple[str, ...]) -> None:
    """A certificate is for the Service, and for the host that is listened on where that is one."""
    names = served_names("hook", "ns", host)
    assert names == ("hook.ns.svc", "hook.ns.svc.cluster.local", *more)
    assert facts(issue(names, NOW)).names == set(names)


def test_old_authorities_stay() -> None:
    """The authorities trusted so far stay beside the new one, each once, without those that have expired."""
    old, dead = issue(NAMES, NOW - 10 * DAY), issue(NAMES, NOW - 100 * DAY)
    pair = issue(NAMES, NOW, bundle([old.authorities, dead.authorities, b"garbage", old.authorities], NOW))
    assert pair.authorities == own_authority(pair) + old.authorities
    assert facts(pair).authorities == 2


def test_bundle_is_bounded() -> None:
    """However often a rotation fails half-way, no more than four authorities are trusted, the newest first."""
    made = [issue(NAMES, NOW).authorities for _ in range(6)]
    assert bundle(made, NOW) == b"".join(made[:4])


def _of_another(pair: Pair) -> dict[str, str]:
    return {**pair.data, "tls.key": issue(NAMES, NOW).data["tls.key"]}


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
        (lambda pair: {**pair.data, "ca.crt": encoded(b"hello")}, "ca.crt is not a certificate in PEM form"),
        (lambda pair: {**pair.data, "tls.crt": encoded(b"x" * 300_000)}, "more than 262144"),
        (_of_another, "tls.key is not the key of tls.crt"),
    ],
)
def test_unusable_is_named(data: Callable[[Pair], dict[str, str] | None], complaint: str) -> None:
    """A Secret that holds nothing to serve is refused with one line that says which part is wrong."""
    with pytest.raises(UnusableError, match=complaint) as error:
        read(data(issue(NAMES, NOW)))
    assert "\n" not in str(error.value)


def test_authority_may_be_absent() -> None:
    """A Secret of cert-manager without ca.crt can be served: its authority is a public one."""
    pair = issue(NAMES, NOW)
    data = {name: value for name, value in pair.data.items() if name != "ca.crt"}
    found = read(data)
    assert (found.certificate, found.authorities) == (pair.certificate, b"")
    assert facts(found).signed is False


PEM = issue(NAMES, NOW)


@pytest.mark.filterwarnings("ignore::UserWarning")  # the library warns of serial numbers that are not positive
@given(st.data())
def test_damage_never_surprises(data: st.DataObject) -> None:
    """Whatever damage a Secret takes, reading it gives a pair that can be looked into, or one line."""
    part = data.draw(st.sampled_from(["ca.crt", "tls.crt", "tls.key"]))
    first, *inside, last = base64.b64decode(PEM.data[part]).splitlines()
    body = bytearray(base64.b64decode(b"".join(inside)))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    text = b"\n".join((first, base64.b64encode(body), last))
    try:
        pair = read({**PEM.data, part: encoded(text)})
    except UnusableError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right
        return
    facts(pair)
    own_authority(pair)
    bundle([pair.authorities], NOW)
