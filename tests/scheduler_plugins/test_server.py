"""The extender over HTTP, its health, and requests that kube-scheduler abandons."""

import json
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from headroom.kube import ApiServer, Connection
from headroom.runtime.http import Reply, Request
from headroom.runtime.http.pages import reply_to
from scheduler_plugins.extender.debug import NodePage
from scheduler_plugins.extender.health import Health, of_watches
from scheduler_plugins.extender.server import Server
from scheduler_plugins.extender.service import Answering, Extender
from scheduler_plugins.extender.slow_requests import SlowRequests
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.metrics import Telemetry
from scheduler_plugins.plugins.capacity_scheduling import NAME as QUOTAS
from scheduler_plugins.plugins.capacity_scheduling import CapacityScheduling
from scheduler_plugins.plugins.load_aware import NAME
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from scheduler_plugins.snapshot.watch import ClusterWatch
from tests.scheduler_plugins.objects import NOW, Json, World, node, node_metric, pod, pod_metric


class Site:
    def __init__(self, world: World) -> None:
        self.world = world
        self.missing = self.problem = self.state = ""
        telemetry = Telemetry()
        cycle = Cycle([Enabled(NAME, 1.0, world.plugin)], telemetry.observe_plugin)
        self.extender = Extender(world.cache, cycle, Answering(), lambda: NOW, np.random.default_rng(1))
        health = Health(
            {"Nodes listed": lambda: self.missing},
            {"Pods watched": lambda: self.problem},
            {"source": lambda: self.state},
        )
        self.pages = Server(self.extender, health, telemetry, NodePage(world.cache, lambda: NOW)).pages()

    def send(self, method: str, path: str, body: bytes = b"", **query: str) -> Reply:
        made = reply_to(self.pages, Request(method, path, query, body))
        assert isinstance(made, Reply)
        return made

    def get(self, path: str, **query: str) -> tuple[int, str]:
        reply = self.send("GET", path, b"", **query)
        return reply.status, reply.body.decode()


@pytest.fixture
def site() -> Site:
    world = World()
    return Site(world.put(node("a"), node_metric("a", cpu="10"), node("hot"), node_metric("hot", cpu="90")))


@pytest.fixture
def ask(site: Site) -> Callable[..., tuple[int, Any]]:
    def post(verb: str, names: list[str], item: Json | None = None) -> tuple[int, Any]:
        body = {"Pod": item or pod(), "Nodes": None, "NodeNames": names}
        reply = site.send("POST", f"/{verb}", msgspec.json.encode(body))
        assert reply.content_type == "application/json"
        return reply.status, json.loads(reply.body)

    return post


Ask = Callable[..., tuple[int, Any]]


def test_filter_answers(ask: Ask) -> None:
    status, reply = ask("filter", ["a", "hot"])
    assert (status, reply["NodeNames"], reply["Error"]) == (200, ["a"], "")


def test_refusal_has_reasons(ask: Ask, site: Site) -> None:
    _, reply = ask("filter", ["hot"])
    assert reply["NodeNames"] == []
    assert reply["FailedAndUnresolvableNodes"] == {"hot": "node(s) cpu usage exceed threshold"}
    _, text = site.get("/metrics")
    assert 'refused_pods_total{reason="node(s) cpu usage exceed threshold"} 1.0' in text
    assert 'request_seconds_count{outcome="refused_all",verb="filter"} 1.0' in text


def test_prioritize_answers(ask: Ask) -> None:
    status, reply = ask("prioritize", ["hot", "new", "a"], pod(priority=5500))
    assert status == 200
    assert [(entry["Host"], entry["Score"]) for entry in reply] == [("hot", 49), ("new", 0), ("a", 89)]


def test_preempt_answers(site: Site) -> None:
    victims = {name: {"Pods": [{"UID": "u"}], "NumPDBViolations": 0} for name in ("a", "hot", "new")}
    body = json.dumps({"Pod": pod(), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}).encode()
    reply = site.send("POST", "/preempt", body)
    assert (reply.status, json.loads(reply.body)) == (
        200,
        {"NodeNameToMetaVictims": {name: victims[name] for name in ("a", "new")}},
    )


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
def test_bad_body_is_refused(site: Site, verb: str) -> None:
    reply = site.send("POST", f"/{verb}", b"{}")
    assert reply.status == 400
    assert json.loads(reply.body) == {"Error": "bad request: Pod: is missing"}
    assert f'request_seconds_count{{outcome="bad_request",verb="{verb}"}} 1.0' in site.get("/metrics")[1]


@pytest.mark.parametrize(("verb", "status"), [("filter", 200), ("prioritize", 400)])
def test_full_nodes_name_the_setting(site: Site, verb: str, status: int) -> None:
    body = {"Pod": pod(), "Nodes": {"metadata": {}, "items": [node("a")]}, "NodeNames": None}
    reply = site.send("POST", f"/{verb}", json.dumps(body).encode())
    assert reply.status == status
    assert "set nodeCacheCapable: true for the extender" in json.loads(reply.body)["Error"]
    assert f'request_seconds_count{{outcome="bad_request",verb="{verb}"}} 1.0' in site.get("/metrics")[1]


def test_failure_is_reported(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    status, reply = ask("filter", ["a"], pod(requests={"cpu": "lots"}))
    assert status == 200
    assert "'lots' is not a quantity" in reply["FailedAndUnresolvableNodes"]["a"]
    assert (reply["Error"], reply["NodeNames"]) == ("", [])
    status, reply = ask("prioritize", ["a"], pod(requests={"cpu": "lots"}))
    assert status == 400
    assert "default/p" in caplog.text
    assert "Traceback" not in caplog.text
    assert ask("filter", ["a"])[1]["NodeNames"] == ["a"]


def test_broken_plugin_does_not_flood_the_log(ask: Ask, site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.extender._cycle._filters.append(("broken", object()))  # type: ignore[arg-type]
    site.extender._cycle.ordinary = ()
    for number in range(5):
        assert "broken could not filter" in ask("filter", ["a"], pod(f"p{number}"))[1]["Error"]
    assert caplog.text.count("Cannot answer for pod default/p") == 5
    assert caplog.text.count("Traceback") == 2  # one of the plugin, and one of its consequence


def test_unsynced_extender_fails(site: Site, ask: Ask) -> None:
    site.missing = "Nodes have not been listed yet"
    _, reply = ask("filter", ["a"])
    assert reply["Error"] == "headroom-scheduler does not know the cluster yet: Nodes have not been listed yet"
    assert ask("prioritize", ["a"])[0] == 503
    assert site.get("/readyz") == (503, "Nodes have not been listed yet\n")


def test_health_follows_watches(site: Site) -> None:
    assert site.get("/healthz") == (200, "ok\n")
    site.problem = "Pods: no contact with the API server for 200 s"
    assert site.get("/healthz") == (503, "Pods: no contact with the API server for 200 s\n")
    assert site.get("/livez") == site.get("/readyz") == (200, "ok\n")


def test_verbose_health_lists_all(site: Site) -> None:
    site.state = "no answer for 90 s"
    assert site.get("/healthz", verbose="") == (
        200,
        "[+]Nodes listed ok\n[+]Pods watched ok\n[i]source: no answer for 90 s\nhealthz check passed\n",
    )
    site.problem = "away"
    status, text = site.get("/healthz", verbose="")
    assert (status, text.splitlines()[1::2]) == (503, ["[-]Pods watched failed: away", "healthz check failed"])


def test_broken_check_is_a_problem() -> None:
    def broken() -> str:
        raise KeyError("x")

    health = Health({}, {"bad": broken}, {"state": broken})
    assert health.problems() == ["bad failed: KeyError: 'x'"]
    assert "[i]state: state failed" in health.verbose()


def test_stale_cache_still_filters(site: Site, ask: Ask) -> None:
    site.problem = "away"
    assert ask("filter", ["a"])[1]["NodeNames"] == ["a"]


def test_node_page(site: Site, ask: Ask) -> None:
    site.world.put(
        node_metric("a", cpu="10", pods=[pod_metric("old")]), pod("old", {"cpu": "3"}, node="a", scheduled=-5)
    )
    ask("filter", ["a"], pod("new", {"cpu": "2"}))
    status, text = site.get("/debug/nodes/a")
    page = json.loads(text)
    assert status == 200
    assert page["pods"]["default/old"]["timestamp"] == NOW - 5
    assert page["pods"]["default/old"]["estimated"]["cpu"] == 3000
    assert page["nodeDelta"]["cpu"] == 1000
    assert page["load"]["cpu"] == 11_000
    assert page["inFlight"]["default/new"]["nodes"] == ["a"]
    assert page["inFlightEstimate"]["cpu"] == 2000
    assert page["report"]["update_time"] == NOW
    assert NAME in page["records"]
    assert json.loads(site.get("/debug/nodes/nowhere")[1]) == {}


def test_pages_know_their_methods(site: Site) -> None:
    assert site.send("GET", "/nothing").status == 404
    refused = site.send("GET", "/filter")
    assert (refused.status, refused.headers) == (405, {"Allow": "POST"})
    assert site.send("HEAD", "/livez").status == 200


def test_reasons_are_bounded() -> None:
    telemetry = Telemetry()
    telemetry.refused({f"reason {number}" for number in range(60)})
    lines = [line for line in telemetry.text().decode().splitlines() if "refused_pods_total{" in line]
    assert len(lines) == 51
    assert 'headroom_scheduler_refused_pods_total{reason="other"} 10.0' in lines


def _watch() -> ClusterWatch:
    api = ApiServer(Connection("http://127.0.0.1:1", None, lambda: None), "test")
    return ClusterWatch(api, ClusterCache(LoadRules(), {QUOTAS: CapacityScheduling()}), lambda: NOW)


def test_unlisted_quotas_block_readiness() -> None:
    """Before the first list of quotas no namespace has known bounds: the extender is not ready, and names the CRD."""
    watch = _watch()
    health = of_watches(watch, 180)
    (problem,) = [line for line in health.missing() if line.startswith("ElasticQuotas")]
    assert "elasticquotas.scheduling.x-k8s.io" in problem


def test_missing_quota_crd_is_healthy() -> None:
    """Without the CRD no namespace has a quota: the extender is healthy, and the verbose page names the CRD."""
    watch = _watch()
    for source in watch.sources:
        source.health.synced, source.health.last_contact = True, time.monotonic()
    health = of_watches(watch, 180)
    assert "[i]ElasticQuotas defined: ok\n" in health.verbose()
    (quotas,) = [source for source in watch.sources if source.kind == "ElasticQuotas"]
    quotas.health.not_found = True
    assert health.problems() == []
    assert (
        "[i]ElasticQuotas defined: the cluster does not know ElasticQuotas, which counts as having none "
        "(is the CRD elasticquotas.scheduling.x-k8s.io installed, and may we list them?)\n"
    ) in health.verbose()


def test_only_quotas_may_be_unknown() -> None:
    """Every other kind is required: without NodeMetrics the cluster has no Headroom."""
    assert [source.kind for source in _watch().sources if source.absent_is_empty] == ["ElasticQuotas"]


class _Site:
    def __init__(self) -> None:
        self.now, self.registry = 1000.0, CollectorRegistry()
        self.slow = SlowRequests(self.registry, lambda: self.now)

    def count(self) -> float:
        return self.registry.get_sample_value("headroom_scheduler_slow_requests_total", {"verb": "filter"}) or 0.0


def test_slow_request_fails_health_for_five_minutes() -> None:
    site = _Site()
    site.slow.observe("filter", site.now - 0.9)
    assert (site.count(), site.slow.problem()) == (0, "")
    site.slow.observe("filter", site.now - 1.5)
    site.now += 10
    site.slow.tick()
    site.now += 0.2
    site.slow.observe("filter", site.now)
    assert site.count() == 1
    assert site.slow.problem().startswith(
        "answers that came after more than 1 s: 1, the longest after 1.5 s, the last 10 s ago; "
    )
    site.now += 300
    assert site.slow.problem() == ""
    site.slow.tick()
    site.now += 0.2
    site.slow.tick()
    site.slow.observe("filter", site.now - 2)
    assert site.slow.problem().startswith("answers that came after more than 1 s: 1, the longest after 2.0 s")


def test_wait_for_a_busy_loop_counts() -> None:
    """A request that was read when the event loop was idle again may have waited since the loop became busy."""
    for ticks in (True, False):
        site = _Site()
        site.slow.tick()
        site.now += 1.5  # a change of a pod blocks the loop
        received = site.now
        if ticks:
            site.slow.tick()
        site.slow.observe("filter", received)
        assert site.count() == 1
        assert "the longest after 1.5 s" in site.slow.problem()


def test_wait_of_others_does_not_count() -> None:
    site = _Site()
    site.now += 1.5
    site.slow.tick()
    site.now += 0.15
    site.slow.observe("filter", site.now)
    assert site.count() == 0
