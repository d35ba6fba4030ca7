"""What becomes of a patch that does not succeed."""

import logging

import pytest

from headroom.kube import ApiError
from scheduler_plugins.requeue.patching import MISSING_RIGHT, Patched, Patcher
from tests.scheduler_plugins.requeue.site import FakeApi, Site, forbidden, overloaded

GONE = ApiError(404, "NotFound", 'pods "p" not found')
CHANGED = ApiError(422, "Invalid", 'Pod "p" is invalid: metadata.uid: Invalid value: "u": field is immutable')
CONTENDED = ApiError(409, "Conflict", "the object has been modified; please apply your changes to the latest version")
WEBHOOK = ApiError(403, "Forbidden", 'admission webhook "x" denied the request')
INVALID = ApiError(422, "Invalid", "no")


@pytest.mark.parametrize("error", [GONE, CHANGED])
async def test_gone_pods_are_forgotten(error: ApiError) -> None:
    """A pod that is not there any more, or another one of its name, is not tried again."""
    site = Site()
    site.room(a=0)
    site.refuse("p")
    site.room(a=1000)
    site.api.failures["p"] = error
    assert await site.reconcile() == []
    assert len(site.unschedulable) == 0


@pytest.mark.parametrize("error", [WEBHOOK, INVALID, CONTENDED])
async def test_refused_pod_backs_off(error: ApiError) -> None:
    """One pod that may not be patched waits longer each time, and keeps no other from being woken."""
    site = Site()
    site.room(a=0)
    site.refuse("p", "q")
    site.room(a=5000)
    site.api.failures["/p"] = error
    assert await site.reconcile() == ["q"]
    assert site.counted("wake_patches_total", result="refused") == 1
    for _ in range(8):
        await site.reconcile()
    assert site.api.names.count("p") == 4  # after 1, 2 and 4 s
    site.api.failures.clear()
    for _ in range(8):
        await site.reconcile()
    assert "uid-p" in site.unschedulable.entries
    assert site.counted("wake_patches_total", result="ok") == 2


async def test_missing_right_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Without the right to patch pods one sentence says which rule is missing, and we ask once a minute."""
    caplog.set_level(logging.INFO)
    site = Site()
    site.room(a=0)
    site.refuse(*(f"p{number}" for number in range(30)))
    site.room(a=100_000)
    site.api.failures[""] = forbidden()
    for _ in range(180):
        await site.reconcile()
    assert len(site.api.patches) == 10 + 2  # those that were on their way at the same time, and one a minute
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert MISSING_RIGHT in told[0]
    site.api.failures.clear()
    for _ in range(60):
        await site.reconcile()
    assert len(set(site.api.names[12:])) == 30
    assert caplog.records[-1].getMessage() == "Refused pods are woken again"


async def test_pauses_grow() -> None:
    """Without a word from the API server the pause doubles up to half a minute."""
    api = FakeApi(failures={"": overloaded()})
    patcher, now, pauses = Patcher(api), 0.0, []
    for _ in range(7):
        assert await patcher.patch("n/p", "u", "v", now) is Patched.UNAVAILABLE
        started = now
        while patcher.paused(now):
            now += 1
        pauses.append(now - started)
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
