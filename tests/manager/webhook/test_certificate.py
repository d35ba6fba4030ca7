"""Certificates in the cluster: the leader's writes, their order, and invariants."""

import base64
import contextlib
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from headroom.kube import ApiError, ApiUnavailable
from manager.metrics import ManagerMetrics
from manager.settings import Settings, WebhookSettings
from manager.webhook.certificate import LIFETIME_SECONDS, Pair, ServingCertificate, UnusableError, issue, read
from manager.webhook.metrics import WebhookMetrics
from manager.webhook.service import served_names
from tests.support.api import FakeApi

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = ("headroom-manager-webhook.headroom-system.svc",)
SECRET = "/api/v1/namespaces/headroom-system/secrets/headroom-manager-webhook-tls"  # noqa: S105 - a path
HOOK = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/headroom-colocation-config"
PODS_HOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/headroom-mid-namespaces"
PAIR = issue(NAMES, NOW)
FORBIDDEN = ApiError(403, "Forbidden", "secrets is forbidden")

Json = dict[str, Any]


class World:
    def __init__(self, *, installed: bool = True) -> None:
        self.api, self.now, self.metrics = FakeApi(), NOW, ManagerMetrics()
        self.slept: list[tuple[float, bytes, Json | None]] = []  # pause, trusted bundle and stored Secret
        if installed:
            client = {"service": {"name": "headroom-manager-webhook", "namespace": "headroom-system"}}
            metadata = {"name": "headroom-colocation-config", "uid": "hook"}
            self.api.put(HOOK, {"metadata": metadata, "webhooks": [{"name": "w", "clientConfig": client}]})

    def replica(self, *, leads: bool = True, certificates: str = "self") -> "Replica":
        options = WebhookSettings(certificates=certificates, pods_configuration_name="headroom-mid-namespaces")
        return Replica(self, Settings(webhook=options), leads=leads)

    def store(self, age_days: float, others: bytes = b"") -> Pair:
        """A pair of this age is in the Secret, and trusted beside others."""
        pair = issue(NAMES, NOW - age_days * DAY)
        self.api.put(SECRET, {"metadata": {"name": "headroom-manager-webhook-tls"}, "data": pair.data})
        self.trust(pair.certificate + others)
        return pair

    def trust(self, certificates: bytes) -> None:
        client = self.api.objects[HOOK]["webhooks"][0]["clientConfig"]
        client["caBundle"] = base64.b64encode(certificates).decode()

    def stored(self) -> Pair:
        return read(self.api.objects[SECRET]["data"])

    def trusted(self) -> bytes:
        return base64.b64decode(self.api.objects[HOOK]["webhooks"][0]["clientConfig"].get("caBundle", ""))

    def writes(self) -> list[str]:
        return [path for method, path, _ in self.api.calls if method != "GET"]


class Replica:
    def __init__(self, world: World, settings: Settings, *, leads: bool) -> None:
        self._world, self.leads = world, leads
        self.serving = ServingCertificate(settings, NAMES, world.metrics.of(WebhookMetrics))
        self.during_sleep: Callable[[], object] = lambda: None

    async def step(self) -> str:
        return await self.serving.step(cast("Any", self._world.api), lambda: self.leads, self._world.now, self._sleep)

    @property
    def pair(self) -> Pair | None:
        return self.serving.pair

    async def _sleep(self, seconds: float) -> None:
        self._world.slept.append((seconds, self._world.trusted(), self._world.api.objects.get(SECRET)))
        self.during_sleep()


def test_issued_certificate() -> None:
    """It is for the names, for 90 days, valid for a clock that is a year behind, and an authority of itself alone."""
    pair = issue((*NAMES, "127.0.0.1"), NOW)
    assert read(pair.data) == pair
    assert pair.due((*NAMES, "127.0.0.1"), NOW) == ""
    assert pair.ends == NOW + LIFETIME_SECONDS
    assert pair.leaf.not_valid_before_utc.timestamp() < NOW - 365 * DAY
    pair.leaf.verify_directly_issued_by(pair.leaf)
    usage = pair.leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [entry.dotted_string for entry in usage] == ["1.3.6.1.5.5.7.3.1"]
    assert pair.leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0


@pytest.mark.parametrize(
    ("names", "days", "reason"),
    [
        (NAMES, 0, ""),
        (NAMES, 59, ""),
        (NAMES, 61, "it ends in 29 days"),
        (NAMES, 91, "it ends in -1 days"),
        (NAMES, -2, "it ends in 92 days"),  # issued by a clock that was ahead
        ((*NAMES, "localhost", "::1"), 0, "it is not for localhost, ::1"),
    ],
)
def test_certificate_is_due_before_its_last_third(names: tuple[str, ...], days: float, reason: str) -> None:
    assert issue(NAMES, NOW).due(names, NOW + days * DAY) == reason


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
    """A certificate is for the Service and, but for addresses that mean all, for the host."""
    names = served_names("hook", namespace, host)
    assert names == (f"hook.{namespace}.svc", f"hook.{namespace}.svc.cluster.local", *more)
    assert issue(names, NOW).due(names, NOW) == ""


@pytest.mark.filterwarnings("ignore::UserWarning")  # the library warns of serial numbers that are not positive
@given(st.data())
def test_damaged_secret_is_refused(data: st.DataObject) -> None:
    """Any change of a byte gives a pair that the webhook can serve, or `UnusableError`."""
    part = data.draw(st.sampled_from(["tls.crt", "tls.key"]))
    text = bytearray(base64.b64decode(PAIR.data[part]))
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UnusableError):
        read({**PAIR.data, part: base64.b64encode(text).decode()}).context()


@pytest.mark.parametrize("data", [None, {}, {"tls.crt": PAIR.data["tls.crt"]}, {**PAIR.data, "tls.key": "%"}])
def test_incomplete_secret_is_refused(data: Json | None) -> None:
    """A Secret without a part, or with the key of another certificate, is unusable."""
    for content in (data, {**PAIR.data, "tls.key": issue(NAMES, NOW).data["tls.key"]}):
        with pytest.raises(UnusableError):
            read(content)


async def test_both_webhooks_trust_the_certificate() -> None:
    """The configuration of the pods' webhook trusts the certificate too, also when it is installed later."""
    world = World()
    await world.replica().step()
    client = {"service": {"name": "headroom-manager-webhook", "namespace": "headroom-system"}}
    metadata = {"name": "headroom-mid-namespaces", "uid": "pods", "resourceVersion": "1"}
    world.api.put(PODS_HOOK, {"metadata": metadata, "webhooks": [{"name": "m", "clientConfig": client}]})
    before = world.stored()
    await world.replica().step()
    assert world.stored() == before
    bundle = world.api.objects[PODS_HOOK]["webhooks"][0]["clientConfig"]["caBundle"]
    assert base64.b64decode(bundle) == world.trusted() == before.certificate


async def test_first_certificate() -> None:
    """The leader makes the Secret, which goes with the webhook, and has the API servers trust it; others load it."""
    world = World()
    leader, other = world.replica(), world.replica(leads=False)
    await other.step()
    assert not other.serving.ready.is_set()
    await leader.step()
    assert leader.pair == world.stored()
    assert world.trusted() == world.stored().certificate
    body = world.api.objects[SECRET]
    assert (body["type"], body["metadata"]["ownerReferences"][0]["uid"]) == ("kubernetes.io/tls", "hook")
    await other.step()
    assert other.pair == leader.pair
    assert other.serving.ready.is_set()
    assert world.slept == []  # no certificate was served before, so nothing waits
    value = world.metrics.registry.get_sample_value
    assert value("headroom_manager_webhook_certificate_expiry_timestamp_seconds") == NOW + 90 * DAY
    assert value("headroom_manager_webhook_certificates_issued_total") == 1


@pytest.mark.parametrize("leads", [True, False])
async def test_nothing_to_do_writes_nothing(*, leads: bool) -> None:
    world = World()
    pair = world.store(0)
    keeper = world.replica(leads=leads)
    for _ in range(3):
        await keeper.step()
    assert (keeper.pair, world.writes()) == (pair, [])


async def test_rotation_never_breaks_trust() -> None:
    """A due certificate is replaced without a moment in which a replica serves one that API servers do not trust."""
    world = World()
    old = world.store(70)
    leader, other = world.replica(), world.replica(leads=False)
    await other.step()
    await leader.step()
    ((seconds, trusted, secret),) = world.slept
    assert seconds == WebhookSettings().settle_seconds
    assert secret is not None  # trust is widened before the Secret changes
    assert secret["data"] == old.data
    new = world.stored()
    assert (leader.pair, other.pair) == (new, old)
    assert world.trusted() == new.certificate + old.certificate == trusted
    await other.step()
    assert other.pair == new
    await leader.step()
    assert world.trusted() == new.certificate + old.certificate
    assert world.stored() == new
    assert len(world.slept) == 1


@pytest.mark.parametrize("restarted", [True, False])
async def test_deleted_secret_keeps_old_trust(*, restarted: bool) -> None:
    """A new certificate is made, and what replicas still serve stays trusted, also where another replica leads now."""
    world = World()
    old = world.store(1)
    leader = world.replica()
    if not restarted:
        await leader.step()
    del world.api.objects[SECRET]
    await leader.step()
    assert leader.pair == world.stored() != old
    ((_, trusted, secret),) = world.slept
    assert secret is None
    assert trusted == world.trusted() == world.stored().certificate + old.certificate


@pytest.mark.parametrize("data", [{}, {"tls.crt": "eA==", "tls.key": "eA=="}, {"tls.crt": "%"}, None])
async def test_garbage_is_replaced(data: Json | None) -> None:
    """The leader repairs a Secret with garbage; a serving replica keeps its certificate meanwhile."""
    world = World()
    old = world.store(0)
    leader, other = world.replica(), world.replica(leads=False)
    await other.step()
    world.api.put(SECRET, {"metadata": {}, "type": "Opaque", "data": data})
    with pytest.raises(UnusableError):
        await other.step()
    assert other.pair == old
    await leader.step()
    await other.step()
    assert other.pair == world.stored() != old
    assert world.api.objects[SECRET]["type"] == "Opaque"  # a type cannot be changed
    assert old.certificate in world.trusted()


async def test_without_configuration() -> None:
    """Where no API server calls the webhook no Secret is made: it would stay when the webhook is uninstalled."""
    world = World(installed=False)
    leader = world.replica()
    await leader.step()
    assert (leader.serving.ready.is_set(), world.writes()) == (False, [])
    world.api.put(HOOK, {"metadata": {"uid": "h"}, "webhooks": [{"name": "a", "clientConfig": {}}]})
    await leader.step()
    assert leader.pair == world.stored()
    assert world.trusted() == world.stored().certificate


@pytest.mark.parametrize("due", ["gone", "old", "narrow", ""])
async def test_uninstalled_while_running(due: str) -> None:
    """Whatever is due when the configuration goes first: nothing is written that would outlive the webhook."""
    world = World()
    world.store(70 if due == "old" else 1, issue(NAMES, NOW - DAY).certificate if due == "narrow" else b"")
    leader = world.replica()
    if due == "gone":
        await leader.step()
        del world.api.objects[SECRET]
    del world.api.objects[HOOK], world.api.calls[:]
    for _ in range(3):
        assert "is not renewed while its owner" in await leader.step()
    assert world.writes() == []
    assert leader.pair is not None  # the existing pair is served


async def test_bundle_is_put_right_unless_cert_manager_injects_it() -> None:
    world = World()
    pair = world.store(1)
    leader = world.replica()
    for wrong in (b"", issue(NAMES, NOW).certificate):
        world.trust(wrong)
        await leader.step()
        assert world.trusted() == pair.certificate + wrong
    world.api.objects[HOOK]["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "ns/name"}
    world.trust(b"")
    await leader.step()
    assert world.trusted() == b""


@pytest.mark.parametrize("garbage", ["%%%", base64.b64encode(b"hello").decode(), 7])
async def test_bundle_of_garbage_does_not_keep_a_due_certificate(garbage: object) -> None:
    world = World()
    old = world.store(80)
    world.api.objects[HOOK]["webhooks"][0]["clientConfig"]["caBundle"] = garbage
    leader = world.replica()
    await leader.step()
    assert world.stored().ends == NOW + LIFETIME_SECONDS
    assert world.trusted() == world.stored().certificate + old.certificate


async def test_cert_manager_is_only_read() -> None:
    """With cert-manager every replica loads the Secret, and nothing is written, even when it is due or missing."""
    world = World()
    keeper = world.replica(certificates="cert-manager")
    assert await keeper.step() == "is missing until the leader or cert-manager creates it"
    pair = world.store(89)
    await keeper.step()
    assert (keeper.pair, world.writes()) == (pair, [])


async def test_leader_that_loses_the_lease_leaves_the_secret_to_its_successor() -> None:
    world = World()
    old = world.store(80)
    leader = world.replica()

    leader.during_sleep = lambda: setattr(leader, "leads", False)
    await leader.step()
    assert world.stored() == old
    successor = world.replica()
    await successor.step()
    assert world.stored().ends == NOW + LIFETIME_SECONDS
    assert old.certificate in world.trusted()


async def test_write_to_a_secret_that_changed_is_refused() -> None:
    world = World()
    world.store(80)
    leader = world.replica()

    leader.during_sleep = lambda: world.store(1)
    with pytest.raises(ApiError):
        await leader.step()
    better = world.stored()
    await leader.step()
    assert leader.pair == world.stored() == better
    assert world.trusted().startswith(better.certificate)


class _EnoughError(Exception):
    """Ends a keeper that runs for ever."""


@pytest.mark.parametrize("error", [FORBIDDEN, ApiUnavailable("The API server cannot be reached"), RuntimeError("boom")])
async def test_failure_is_logged_once_and_tried_again(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.api.fails[SECRET] = error
    keeper = world.replica()
    sleeps: list[float] = []

    async def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 3:
            assert not keeper.serving.ready.is_set()
            world.api.fails.clear()
        if len(sleeps) == 4:
            raise _EnoughError

    with caplog.at_level(logging.WARNING), pytest.raises(_EnoughError):
        await keeper.serving.keep(cast("Any", world.api), lambda: True, lambda: world.now, sleep)
    assert keeper.serving.ready.is_set()
    assert caplog.text.count("The webhook's certificate (Secret headroom-manager-webhook-tls)") == 1
    assert "edits of the config are not checked" in caplog.text
