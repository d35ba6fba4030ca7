"""Certificates in the cluster: what the leader writes, in which order, and what nobody may break."""

import base64
import copy
import logging
from typing import Any, cast

import pytest

from headroom.kube import ApiError, ApiUnavailable
from headroom.kube.api import APPLY, JSON_PATCH
from manager.metrics import ManagerMetrics
from manager.settings import Settings, WebhookSettings
from manager.webhook.certificates import LIFETIME_SECONDS, Pair, UnusableError, issue, read
from manager.webhook.metrics import WebhookMetrics
from manager.webhook.rotator import CertRotator
from manager.webhook.serving_certificate import ServingCertificate
from tests.support.api import FakeApi

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = ("headroom-manager-webhook.headroom-system.svc",)
SECRET = "/api/v1/namespaces/headroom-system/secrets/headroom-manager-webhook-tls"  # noqa: S105 - a path
HOOK = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/headroom-colocation-config"
FORBIDDEN = ApiError(403, "Forbidden", "secrets is forbidden")

Json = dict[str, Any]


class Api(FakeApi):
    """An API server that also takes JSON patches with tests, and Secrets applied at a version."""

    async def patch(self, path: str, body: Any, content_type: str = "", params: Any = None) -> Json:  # noqa: ANN401
        """Apply an object, or a JSON patch."""
        self._enter("PATCH", path, body)
        if content_type == APPLY:
            assert params == {"fieldManager": "headroom-manager", "force": "true"}
            stored = self.objects.get(path)
            version = body["metadata"].get("resourceVersion")
            if version is not None and (stored is None or stored["metadata"]["resourceVersion"] != version):
                raise ApiError(409, "Conflict", "the object has been modified")
            data = {**((stored or {}).get("data") or {}), **body["data"]}
            return self.put(path, {**(stored or {}), **body, "data": data})
        assert content_type == JSON_PATCH
        stored = copy.deepcopy(self._stored(path))
        for each in body:
            *parents, last = each["path"].strip("/").split("/")
            target: Any = stored
            for parent in parents:
                target = target[int(parent) if parent.isdigit() else parent]
            if each["op"] == "test":
                if target[last] != each["value"]:
                    raise ApiError(409, "Conflict", "the test failed")
            else:
                target[last] = each["value"]
        return self.put(path, stored)


class World:
    """A cluster with the webhook's configuration in it, and replicas."""

    def __init__(self, *, installed: bool = True) -> None:
        self.api, self.now, self.metrics = Api(), NOW, ManagerMetrics()
        self.slept: list[tuple[float, bytes, Json | None]] = []  # how long, and what was trusted and stored then
        if installed:
            client = {"service": {"name": "headroom-manager-webhook", "namespace": "headroom-system"}}
            metadata = {"name": "headroom-colocation-config", "uid": "hook"}
            self.api.put(HOOK, {"metadata": metadata, "webhooks": [{"name": "w", "clientConfig": client}]})

    def replica(self, *, leads: bool = True, certificates: str = "self") -> tuple[CertRotator, ServingCertificate]:
        """One replica."""
        serving, metrics = ServingCertificate(), self.metrics.of(WebhookMetrics)

        async def sleep(seconds: float) -> None:
            self.slept.append((seconds, self.trusted(), self.api.objects.get(SECRET)))

        settings, api = Settings(webhook=WebhookSettings(certificates=certificates)), cast("Any", self.api)
        keeper = CertRotator(
            api, settings, NAMES, serving, metrics, leads=lambda: leads, wall=lambda: self.now, sleep=sleep
        )
        return keeper, serving

    def store(self, age_days: float, others: bytes = b"") -> Pair:
        """A pair of this age is in the Secret, and trusted beside others."""
        pair = issue(NAMES, NOW - age_days * DAY)
        self.api.put(SECRET, {"metadata": {"name": "headroom-manager-webhook-tls"}, "data": pair.data})
        self.trust(pair.certificate + others)
        return pair

    def trust(self, certificates: bytes) -> None:
        """Let the API servers trust certificates."""
        client = self.api.objects[HOOK]["webhooks"][0]["clientConfig"]
        client["caBundle"] = base64.b64encode(certificates).decode()

    def stored(self) -> Pair:
        """What the Secret holds."""
        return read(self.api.objects[SECRET]["data"])

    def trusted(self) -> bytes:
        """What the API servers trust."""
        return base64.b64decode(self.api.objects[HOOK]["webhooks"][0]["clientConfig"].get("caBundle", ""))

    def writes(self) -> list[str]:
        """Paths that were written to."""
        return [path for method, path, _ in self.api.calls if method != "GET"]


async def test_first_certificate() -> None:
    """The leader makes the Secret, which goes with the webhook, and has the API servers trust it; others load it."""
    world = World()
    (leader, leading), (other, following) = world.replica(), world.replica(leads=False)
    await other.step()
    assert not following.ready.is_set()
    await leader.step()
    assert leading.pair == world.stored()
    assert world.trusted() == world.stored().certificate
    body = world.api.objects[SECRET]
    assert (body["type"], body["metadata"]["ownerReferences"][0]["uid"]) == ("kubernetes.io/tls", "hook")
    await other.step()
    assert following.pair == leading.pair
    assert following.ready.is_set()
    assert world.slept == []  # no certificate was served before, so nothing waits
    value = world.metrics.registry.get_sample_value
    assert value("headroom_manager_webhook_certificate_expiry_timestamp_seconds") == NOW + 90 * DAY
    assert value("headroom_manager_webhook_certificates_issued_total") == 1


@pytest.mark.parametrize("leads", [True, False])
async def test_nothing_to_do_writes_nothing(*, leads: bool) -> None:
    world = World()
    pair = world.store(0)
    keeper, serving = world.replica(leads=leads)
    for _ in range(3):
        await keeper.step()
    assert (serving.pair, world.writes()) == (pair, [])


async def test_rotation_never_breaks_trust() -> None:
    """A due certificate is replaced without a moment in which some replica serves what the API servers do not trust."""
    world = World()
    old = world.store(70)
    (leader, leading), (other, following) = world.replica(), world.replica(leads=False)
    await other.step()
    await leader.step()
    ((seconds, trusted, secret),) = world.slept
    assert seconds == WebhookSettings().settle_seconds
    assert secret is not None  # trust is widened before the Secret changes
    assert secret["data"] == old.data
    new = world.stored()
    assert (leading.pair, following.pair) == (new, old)
    assert world.trusted() == new.certificate + old.certificate == trusted
    await other.step()
    assert following.pair == new
    world.now += 3000
    await leader.step()
    assert world.trusted() == new.certificate + old.certificate
    world.now += 1000  # an hour is over
    await leader.step()
    await leader.step()
    assert world.trusted() == new.certificate
    assert world.stored() == new
    assert len(world.slept) == 1


@pytest.mark.parametrize("restarted", [True, False])
async def test_deleted_secret_keeps_old_trust(*, restarted: bool) -> None:
    """A new certificate is made, and what replicas still serve stays trusted, also where another replica leads now."""
    world = World()
    old = world.store(1)
    leader, leading = world.replica()
    if not restarted:
        await leader.step()
    del world.api.objects[SECRET]
    await leader.step()
    assert leading.pair == world.stored() != old
    ((_, trusted, secret),) = world.slept
    assert secret is None
    assert trusted == world.trusted() == world.stored().certificate + old.certificate


@pytest.mark.parametrize("data", [{}, {"tls.crt": "eA==", "tls.key": "eA=="}, {"tls.crt": "%"}, None])
async def test_garbage_is_replaced(data: Json | None) -> None:
    """A Secret with garbage is repaired by the leader; a replica that serves goes on with what it has meanwhile."""
    world = World()
    old = world.store(0)
    (leader, _), (other, following) = world.replica(), world.replica(leads=False)
    await other.step()
    world.api.put(SECRET, {"metadata": {}, "type": "Opaque", "data": data})
    with pytest.raises(UnusableError):
        await other.step()
    assert following.pair == old
    await leader.step()
    await other.step()
    assert following.pair == world.stored() != old
    assert world.api.objects[SECRET]["type"] == "Opaque"  # a type cannot be changed
    assert old.certificate in world.trusted()


async def test_without_configuration() -> None:
    """Where no API server calls the webhook no Secret is made: it would stay when the webhook is uninstalled."""
    world = World(installed=False)
    leader, leading = world.replica()
    await leader.step()
    assert (leading.ready.is_set(), world.writes()) == (False, [])
    world.api.put(HOOK, {"metadata": {"uid": "h"}, "webhooks": [{"name": "a", "clientConfig": {}}]})
    await leader.step()
    assert leading.pair == world.stored()
    assert world.trusted() == world.stored().certificate


@pytest.mark.parametrize("due", ["gone", "old", "narrow", ""])
async def test_uninstalled_while_running(due: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is due when the configuration goes first: nothing is written that would outlive the webhook."""
    caplog.set_level(logging.INFO)
    world = World()
    world.store(70 if due == "old" else 1, issue(NAMES, NOW - DAY).certificate if due == "narrow" else b"")
    leader, leading = world.replica()
    if due == "gone":
        await leader.step()
        del world.api.objects[SECRET]
    del world.api.objects[HOOK], world.api.calls[:]
    for _ in range(3):
        await leader.step()
    assert world.writes() == []
    assert leading.pair is not None  # what is there is served
    assert caplog.text.count("is not registered") == 1


async def test_trust_is_put_right() -> None:
    """A bundle that was emptied or replaced is put right; one that cert-manager injects is left to it."""
    world = World()
    pair = world.store(1)
    leader, _ = world.replica()
    for wrong in (b"", issue(NAMES, NOW).certificate):
        world.trust(wrong)
        await leader.step()
        assert world.trusted() == pair.certificate
    world.api.objects[HOOK]["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "ns/name"}
    world.trust(b"")
    await leader.step()
    assert world.trusted() == b""


@pytest.mark.parametrize("garbage", ["%%%", base64.b64encode(b"hello").decode(), 7])
async def test_garbage_bundle_is_survived(garbage: object) -> None:
    """A bundle that holds no certificates does not keep a due one from being replaced."""
    world = World()
    world.store(80)
    world.api.objects[HOOK]["webhooks"][0]["clientConfig"]["caBundle"] = garbage
    leader, _ = world.replica()
    await leader.step()
    assert world.stored().ends == NOW + LIFETIME_SECONDS
    assert world.trusted() == world.stored().certificate


async def test_cert_manager_is_only_read(caplog: pytest.LogCaptureFixture) -> None:
    """With cert-manager the Secret is loaded, whoever leads, and nothing is written, even when it is due or missing."""
    world = World()
    keeper, serving = world.replica(certificates="cert-manager")
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            await keeper.step()
    assert caplog.text.count("waits for cert-manager to make Secret headroom-manager-webhook-tls") == 1
    pair = world.store(89)
    await keeper.step()
    assert (serving.pair, world.writes()) == (pair, [])


async def test_lost_leadership_writes_no_secret() -> None:
    """A leader that loses the Lease while trust settles leaves the Secret to its successor."""
    world = World()
    old = world.store(80)
    leader, _ = world.replica()

    async def sleep(_: float) -> None:
        leader.leads = lambda: False

    leader.sleep = sleep
    await leader.step()
    assert world.stored() == old
    successor, _ = world.replica()
    await successor.step()
    assert world.stored().ends == NOW + LIFETIME_SECONDS
    assert old.certificate in world.trusted()


async def test_another_write_wins() -> None:
    """When the Secret changes meanwhile the write is refused, and the next step starts from what is there."""
    world = World()
    world.store(80)
    leader, leading = world.replica()

    async def sleep(_: float) -> None:
        world.store(1)

    leader.sleep = sleep
    with pytest.raises(ApiError):
        await leader.step()
    better = world.stored()
    await leader.step()
    assert leading.pair == world.stored() == better
    assert world.trusted() == better.certificate


class _EnoughError(Exception):
    """Ends a keeper that runs for ever."""


@pytest.mark.parametrize("error", [FORBIDDEN, ApiUnavailable("The API server cannot be reached"), RuntimeError("boom")])
async def test_failure_is_logged_once(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Missing rights, an API server that is away, even a fault of ours: one line, tried again, and then it works."""
    world = World()
    world.api.fails[SECRET] = error
    keeper, serving = world.replica()
    sleeps: list[float] = []

    async def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 3:
            assert not serving.ready.is_set()
            world.api.fails.clear()
        if len(sleeps) == 4:
            raise _EnoughError

    keeper.sleep = sleep
    with caplog.at_level(logging.WARNING), pytest.raises(_EnoughError):
        await keeper.run()
    assert serving.ready.is_set()
    assert caplog.text.count("cannot be kept") == 1
    assert "edits of the config are not checked" in caplog.text


async def test_trust_forbidden_still_serves() -> None:
    """Without the right to write the configuration the certificate is served, for who adds the bundle by hand."""
    world = World()
    world.api.fails[f"PATCH {HOOK}"] = FORBIDDEN
    keeper, serving = world.replica()
    with pytest.raises(ApiError):
        await keeper.step()
    assert serving.pair == world.stored()
