"""The assembled extender on a machine with a wrong clock: ages use the API server's time."""

import json
import time
from email.utils import formatdate

import msgspec
import pytest

from headroom.kube import ApiServer, Connection
from headroom.runtime.http import Request
from scheduler_plugins.settings import load
from scheduler_plugins.wiring import Parts, assemble
from tests.scheduler_plugins.objects import Json, node, node_metric, pod


def _reported(seconds_ago: float) -> Json:
    metric = node_metric(cpu="1")
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds_ago))
    return {**metric, "status": {**metric["status"], "updateTime": stamp}}


class Site:
    """Return an extender with one node; this machine's clock is ahead of the API server's. [s]"""

    def __init__(self, ahead: float, monkeypatch: pytest.MonkeyPatch) -> None:
        api = ApiServer(Connection("http://127.0.0.1:1", None, lambda: None), "test")
        right = time.time
        monkeypatch.setattr(time, "time", lambda: right() + ahead)
        api.server_time.learn(formatdate(right(), usegmt=True))
        self.parts: Parts = assemble(load([], {}), api)
        for source in self.parts.watch.sources:
            source.health.synced, source.health.last_contact = True, time.monotonic()
        monkeypatch.setattr(time, "time", right)
        self.put(node())
        monkeypatch.setattr(time, "time", lambda: right() + ahead)

    def put(self, item: Json) -> None:
        for source in self.parts.watch.sources:
            if source.kind == ("Nodes" if "allocatable" in item.get("status", {}) else "NodeMetrics"):
                source.put(item)

    def passes(self) -> bool:
        body = {"Pod": pod("p", {"cpu": "1"}), "NodeNames": ["n"]}
        request = Request("POST", "/filter", {}, msgspec.json.encode(body), "localhost")
        return bool(json.loads(self.parts.server.filter(request).body)["NodeNames"])

    def health(self) -> str:
        return bytes(self.parts.server.healthz(Request("GET", "/healthz", {}, b"", "localhost")).body).decode()


@pytest.mark.parametrize("ahead", [600.0, 7200.0, -7200.0, 0.0])
def test_fresh_report_is_fresh(ahead: float, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = _reported(10)
    site = Site(ahead, monkeypatch)
    site.put(metric)
    assert site.passes()
    assert site.health() == "ok\n"


@pytest.mark.parametrize("ahead", [600.0, -7200.0])
def test_old_report_is_old(ahead: float, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = _reported(3600)
    site = Site(ahead, monkeypatch)
    assert site.health() == "ok\n"  # a node that never reported passes
    site.put(metric)
    assert not site.passes()
    said = site.health()
    assert "all 1 nodes are refused: the latest of their NodeMetrics is 36" in said
    assert "clock" in said
    assert site.parts.server.readyz(Request("GET", "/readyz", {}, b"", "localhost")).status == 200
