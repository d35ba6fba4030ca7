"""Ages follow the API server's clock: a command's output does not depend on the local clock."""

import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any, Final, cast

import pytest

from headroom.kube import ApiServer, paths
from headroom.kube.server_clock import ServerClock
from kubectl_headroom import live
from kubectl_headroom.explain import command as explain
from kubectl_headroom.pod import command as explain_pod
from kubectl_headroom.quota import account_command
from kubectl_headroom.quota import command as quota
from kubectl_headroom.quota.reading import Place
from kubectl_headroom.shadow import command as shadow
from kubectl_headroom.simulate import command as simulate
from kubectl_headroom.simulate import profile
from kubectl_headroom.top import command as top
from scheduler_plugins.profile import DEFAULT_PROFILE
from tests.kubectl_headroom import recording
from tests.kubectl_headroom.quota_site import put, story
from tests.kubectl_headroom.test_shadow import kept
from tests.scheduler_plugins.objects import NOW
from tests.support.api import FakeApi

NS: Final = "headroom-system"
CONFIG: Final = "slo-controller-config"
PLACE: Final = Place(None, NS, None)
Run = Callable[[ApiServer], Awaitable[Any]]


class Dated(FakeApi):
    def __init__(self, now: float) -> None:
        super().__init__()
        self.server_time = ServerClock(steady=lambda: 0.0)
        self._date = formatdate(now, usegmt=True)

    def _enter(self, method: str, path: str, body: Any = None) -> None:  # noqa: ANN401
        self.server_time.learn(self._date)
        super()._enter(method, path, body)


def _recorded() -> Dated:
    api = Dated(recording.NOW)
    recording.put_recorded(api)
    spec = {"holderIdentity": "m-1", "renewTime": "2026-11-21T12:00:55.000000Z", "leaseDurationSeconds": 15}
    api.put(paths.lease(NS, "headroom-manager"), {"metadata": {"name": "headroom-manager", "uid": "l"}, "spec": spec})
    return api


def _teams() -> Dated:
    api = Dated(NOW)
    for item in story():
        put(api, item)
    return api


def _shadowed() -> Dated:
    api = Dated(recording.NOW)
    api.put(paths.node("web-1"), {"metadata": {"name": "web-1", "uid": "uid-web-1"}})
    api.put(paths.config_map(NS, "headroom-shadow-0"), kept("web-1"))
    return api


def _simulated() -> simulate.PodRequest:
    chosen = profile.of_file(str(DEFAULT_PROFILE), None)
    return simulate.PodRequest("search", None, chosen, "shop", NS, None, None, 10, "json")


COMMANDS: Final[dict[str, tuple[Callable[[], Dated], Run]]] = {
    "top nodes": (_recorded, lambda api: top.nodes(api, (), "wide")),
    "top node": (_recorded, lambda api: top.nodes(api, ["web-1"], "json")),
    "top pods": (_recorded, lambda api: top.pods(api, top.Place(everywhere=True), None, "json")),
    "explain node": (_recorded, lambda api: explain.node(api, "web-1", NS, CONFIG, "table")),
    "explain pod": (_recorded, lambda api: explain_pod.pod(api, PLACE, CONFIG, "shop", "search", "table")),
    "explain quota": (_teams, lambda api: account_command.quota(api, PLACE, "b", "qb", "table")),
    "quota": (_teams, lambda api: quota.quotas(api, PLACE, None, "json")),
    "shadow": (_shadowed, lambda api: shadow.nodes(api, NS, None, "json")),
    "simulate": (_recorded, lambda api: simulate.pod(api, _simulated())),
}


@pytest.mark.parametrize("name", COMMANDS)
async def test_own_clock_changes_nothing(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a local clock two hours ahead, behind, or at 1970, the command prints the same."""
    made, run = COMMANDS[name]
    said = []
    for now in (recording.NOW, recording.NOW + 7200.0, recording.NOW - 7200.0, 0.0):
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda now=now: now)
            await run(cast("ApiServer", made()))
        said.append(capsys.readouterr().out)
    assert said[0]
    assert said[1:] == said[:1] * 3


async def test_server_time_is_requested() -> None:
    """Without an earlier request the server's time is requested; a denied request has it, too."""
    api = Dated(NOW)
    clock = await live.server_time(cast("ApiServer", api))
    assert (clock(), api.calls) == (NOW, [("GET", "/version", None)])
    await live.server_time(cast("ApiServer", api))
    assert len(api.calls) == 1
