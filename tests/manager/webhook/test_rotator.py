"""Certificates in the cluster: what the leader writes, in which order, and what nobody may break."""

import base64
import logging
from typing import Any

import pytest

from headroom.kube import ApiError, ApiUnavailable
from manager.settings import WebhookSettings
from manager.webhook.certificates import Pair, UnusableError, facts, issue, own_authority
from tests.manager.webhook.world import World

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = ("headroom-manager-webhook.headroom-system.svc",)
SECRET = "/api/v1/namespaces/headroom-system/secrets/headroom-manager-webhook-tls"  # noqa: S105 - a path
HOOK = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/headroom-colocation-config"
FORBIDDEN = ApiError(403, "Forbidden", "secrets is forbidden")

Json = dict[str, Any]


async def test_first_certificate() -> None:
    """The leader makes the Secret, which goes with the webhook, and has the API servers trust it; others load it."""
    world = World()
    leader, leading = world.replica()
    other, following = world.replica(leads=False)
    await other.step()
    assert not following.ready.is_set()
    await leader.step()
    assert leading.pair == world.stored()
    assert world.trusted() == world.stored().authorities
    body = world.api.objects[SECRET]
    assert body["type"] == "kubernetes.io/tls"
    assert [each["uid"] for each in body["metadata"]["ownerReferences"]] == ["hook"]
    await other.step()
    assert following.pair == leading.pair
    assert following.ready.is_set()
    assert world.slept == []  # nobody was served before, so nobody waits


async def test_nothing_to_do_writes_nothing() -> None:
    """With a good certificate that is trusted nothing is written, by nobody."""
    world = World()
    world.store(issue(NAMES, NOW))
    for leads in (True, False):
        keeper, serving = world.replica(leads=leads)
        for _ in range(3):
            await keeper.step()
        assert serving.pair == world.stored()
    assert world.writes() == []


async def test_rotation_never_breaks_trust() -> None:
    """A due certificate is replaced without a moment in which some replica serves what the API servers do not trust."""
    world = World()
    old = issue(NAMES, NOW - 70 * DAY)
    world.store(old)
    leader, leading = world.replica()
    other, following = world.replica(leads=False)
    await other.step()
    await leader.step()
    ((seconds, trusted, secret),) = world.slept
    assert seconds == WebhookSettings().settle_seconds
    assert old.authorities in trusted
    assert secret is not None  # trust is widened before the Secret changes
    assert secret["data"] == old.data
    new = world.stored()
    assert trusted.startswith(own_authority(new))
    assert leading.pair == new
    assert following.pair == old
    assert world.trusted() == new.authorities == trusted
    await other.step()
    assert following.pair == new
    world.now += 3000
    await leader.step()
    assert old.authorities in world.trusted()
    world.now += 1000  # an hour is over
    await leader.step()
    await leader.step()
    assert world.trusted() == world.stored().authorities == own_authority(new)
    assert world.stored().certificate == new.certificate
    await other.step()
    assert len(world.slept) == 1


async def test_deleted_secret_keeps_old_trust() -> None:
    """When the Secret is deleted, a new certificate is made, and what replicas still serve stays trusted."""
    world = World()
    old = issue(NAMES, NOW - DAY)
    world.store(old)
    leader, leading = world.replica()
    await leader.step()
    del world.api.objects[SECRET]
    await leader.step()
    assert leading.pair == world.stored() != old
    assert old.authorities in world.trusted()
    assert world.stored().authorities == world.trusted()
    assert len(world.slept) == 1


async def test_new_leader_keeps_old_trust() -> None:
    """A new leader that finds no Secret widens trust first, too: another replica may serve what is gone."""
    world = World()
    old = issue(NAMES, NOW)
    world.trust(old.authorities)
    leader, _ = world.replica()
    await leader.step()
    ((_, trusted, secret),) = world.slept
    assert secret is None
    assert trusted == world.stored().authorities == world.trusted()
    assert old.authorities in trusted


@pytest.mark.parametrize("data", [{}, {"tls.crt": "eA==", "tls.key": "eA=="}, {"tls.crt": "%"}, None])
async def test_garbage_is_replaced(data: Json | None) -> None:
    """A Secret with garbage is mended by the leader; a replica that serves goes on with what it has meanwhile."""
    world = World()
    old = issue(NAMES, NOW)
    world.store(old)
    leader, _ = world.replica()
    other, following = world.replica(leads=False)
    await other.step()
    world.api.put(SECRET, {"metadata": {}, "type": "Opaque", "data": data})
    with pytest.raises(UnusableError):
        await other.step()
    assert following.pair == old
    await leader.step()
    await other.step()
    assert following.pair == world.stored() != old
    assert world.api.objects[SECRET]["type"] == "Opaque"  # a type cannot be changed
    assert old.authorities in world.trusted()


async def test_without_configuration() -> None:
    """Where nobody asks no Secret is made: it would stay when the webhook is uninstalled."""
    world = World(installed=False)
    leader, leading = world.replica()
    await leader.step()
    assert not leading.ready.is_set()
    assert world.writes() == []
    world.api.put(HOOK, {"metadata": {"uid": "h"}, "webhooks": [{"name": "a", "clientConfig": {}}]})
    await leader.step()
    assert leading.pair == world.stored()
    assert world.trusted() == world.stored().authorities


@pytest.mark.parametrize("due", ["gone", "old", "narrow"])
async def test_uninstalled_while_running(due: str) -> None:
    """Whatever is due when the configuration goes first: nothing is written that would outlive the webhook."""
    world = World()
    old, other = (issue(NAMES, NOW - (70 * DAY if due == "old" else DAY)) for _ in range(2))
    world.store(Pair(old.authorities + (other.authorities if due == "narrow" else b""), old.certificate, old.key))
    leader, leading = world.replica()
    if due == "gone":
        await leader.step()
        del world.api.objects[SECRET]
    del world.api.objects[HOOK], world.api.calls[:]
    await leader.step()
    assert world.writes() == []
    assert leading.pair is not None  # what is there is served


async def test_uninstalled_webhook_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """While a certificate is there and no webhook asks for it, one line says so, however long that lasts."""
    caplog.set_level(logging.INFO)
    world = World()
    world.store(issue(NAMES, NOW))
    keeper, serving = world.replica()
    del world.api.objects[HOOK]
    for _ in range(3):
        await keeper.step()
    assert serving.pair == world.stored()
    assert caplog.text.count("is not registered") == 1


async def test_trust_is_put_right() -> None:
    """A bundle that somebody emptied or replaced is put right; one that cert-manager injects is left to it."""
    world = World()
    world.store(issue(NAMES, NOW))
    leader, _ = world.replica()
    for wrong in (b"", issue(NAMES, NOW).authorities):
        world.trust(wrong)
        await leader.step()
        assert world.trusted() == world.stored().authorities
    world.api.objects[HOOK]["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "ns/name"}
    world.trust(b"")
    await leader.step()
    assert world.trusted() == b""


async def test_garbage_bundle_is_survived() -> None:
    """A bundle that holds no certificates does not keep a due one from being replaced."""
    world = World()
    world.store(issue(NAMES, NOW - 80 * DAY))
    for garbage in ("%%%", base64.b64encode(b"hello").decode(), 7):
        world.api.objects[HOOK]["webhooks"][0]["clientConfig"]["caBundle"] = garbage
        world.api.objects[SECRET]["data"] = issue(NAMES, NOW - 80 * DAY).data
        leader, _ = world.replica()
        await leader.step()
        assert facts(world.stored()).issued == NOW
        assert world.trusted() == world.stored().authorities


async def test_cert_manager_is_only_read(caplog: pytest.LogCaptureFixture) -> None:
    """With cert-manager the Secret is loaded, whoever leads, and nothing is written, even when it is due or missing."""
    world = World()
    keeper, serving = world.replica(certificates="cert-manager")
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            await keeper.step()
    assert caplog.text.count("waits for cert-manager to make Secret headroom-manager-webhook-tls") == 1
    pair = issue(NAMES, NOW - 89 * DAY)
    world.store(pair)
    await keeper.step()
    assert serving.pair == pair
    assert world.writes() == []


@pytest.mark.parametrize("ahead_days", [1, 30, 365])
async def test_clock_far_ahead(ahead_days: int) -> None:
    """A leader whose clock is far ahead makes one certificate that is valid now; a right clock later makes one more."""
    world = World()
    world.store(issue(NAMES, NOW - 50 * DAY))
    leader, _ = world.replica()
    world.now = NOW + ahead_days * DAY
    for _ in range(3):
        await leader.step()
    found = facts(world.stored())
    assert found.starts < NOW < found.ends
    world.now = NOW
    other, _ = world.replica()
    for _ in range(3):
        await other.step()
    assert facts(world.stored()).ends <= NOW + 91 * DAY
    assert len([path for path in world.writes() if path == SECRET]) <= 2


async def test_lost_leadership_writes_no_secret() -> None:
    """A leader that loses the Lease while trust settles leaves the Secret to its successor."""
    world = World()
    old = issue(NAMES, NOW - 80 * DAY)
    world.store(old)
    leads = [True]
    leader, _ = world.replica()
    leader.leads = lambda: leads[0]

    async def sleep(_: float) -> None:
        leads[0] = False

    leader.sleep = sleep
    await leader.step()
    assert world.stored() == old
    successor, _ = world.replica()
    await successor.step()
    assert facts(world.stored()).issued == NOW
    assert old.authorities in world.trusted()


async def test_somebody_elses_write_wins() -> None:
    """When the Secret changes under way the write is refused, and the next look starts from what is there."""
    world = World()
    world.store(issue(NAMES, NOW - 80 * DAY))
    leader, leading = world.replica()
    better = issue(NAMES, NOW - DAY)

    async def sleep(_: float) -> None:
        world.store(better)

    leader.sleep = sleep
    with pytest.raises(ApiError):
        await leader.step()
    await leader.step()
    assert leading.pair == world.stored() == better
    assert world.trusted() == better.authorities


class _EnoughError(Exception):
    """Ends a keeper that runs for ever."""


@pytest.mark.parametrize("error", [FORBIDDEN, ApiUnavailable("The API server cannot be reached"), RuntimeError("boom")])
async def test_trouble_is_told_once(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Missing rights, an API server that is away, even a fault of ours: one line, tried again, and then it works."""
    world = World()
    world.api.fails[SECRET] = error
    keeper, serving = world.replica()
    looks = [0]

    async def sleep(_: float) -> None:
        looks[0] += 1
        if looks[0] == 3:
            assert not serving.ready.is_set()
            world.api.fails.clear()
        if looks[0] == 4:
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
    world.api.fails[f"PATCH {HOOK}"] = ApiError(403, "Forbidden", "not yours")
    keeper, serving = world.replica()
    with pytest.raises(ApiError):
        await keeper.step()
    assert serving.pair == world.stored()


async def test_expiry_is_shown() -> None:
    """A metric says until when the certificate that is served is valid, and how many were made."""
    world = World()
    keeper, _ = world.replica()
    await keeper.step()
    value = world.metrics.registry.get_sample_value
    name = "headroom_manager_webhook_certificate_expiry_timestamp_seconds"
    assert value(name) == NOW + 90 * DAY
    assert value("headroom_manager_webhook_certificates_issued_total") == 1
