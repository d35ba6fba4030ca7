"""GET /debug/plugins/CapacityScheduling: what admission by quotas goes by."""

import json
from typing import Any

from headroom.runtime.http import Request
from scheduler_plugins.extender.debug import NodePage
from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.quota import MaxMissing
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.objects import NOW, Json, load_aware, node, pod


def _site() -> tuple[ClusterCache, NodePage]:
    plugins = {NAME: CapacityScheduling(max_missing=MaxMissing.INFINITE), "LoadAwareScheduling": load_aware()}
    cache = ClusterCache(LoadRules(), plugins)
    return cache, NodePage(cache, lambda: NOW)


def _asked(page: NodePage, name: str) -> tuple[int, str]:
    reply = page.kept(Request("GET", f"/debug/plugins/{name}", {}, b""))
    return reply.status, reply.body.decode()


def _quota(namespace: str, name: str, least: Json, most: Json) -> Json:
    metadata = {"namespace": namespace, "name": name, "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"min": least, "max": most}}


def test_account_is_told() -> None:
    """Quotas, what is charged for bound pods and for those on their way, claims and holds; amounts as quantities."""
    cache, page = _site()
    kept: Any = cache.plugin_states[NAME]
    kept.put_quota(_quota("default", "team", {"cpu": "4"}, {"cpu": "6", "memory": "10Gi"}))
    kept.put_quota(_quota("default", "zzz", {"cpu": "1"}, {}))
    kept.put_quota(_quota("other", "idle", {"memory": "1Gi"}, {}))
    for item in (node("n1"),):
        cache.put_node(item)
    holder = pod("holder", {"cpu": "2"})
    hold = Hold("n1", NOW + 60, ("v",), 2)
    holder["metadata"]["annotations"], holder["status"]["conditions"] = hold.annotations, [hold.condition]
    for item in (pod("bound", {"cpu": "500m"}, node="n1"), holder):
        cache.put_pod(item, NOW)
    coming = cache.read(pod("coming", {"cpu": "1"}))
    cache.charge(coming, ["n1"], NOW)

    status, text = _asked(page, NAME)
    found = json.loads(text)
    assert (status, found["now"], found["maxMissing"]) == (200, NOW, "infinite")
    assert found["quotas"]["default"] == {
        "name": "team",
        "min": {"cpu": "4"},
        "max": {"cpu": "6", "memory": "10Gi"},
        "used": {"cpu": "1500m"},
        "bound": {"cpu": "500m"},
        "overMin": False,
        "notInForce": ["zzz"],
    }
    assert (found["totalMin"], found["totalUsed"]) == ({"cpu": "4", "memory": "1Gi"}, {"cpu": "1500m"})
    assert found["onTheirWay"] == {"default/coming": {"uid": "uid-coming", "nodes": ["n1"], "charged": {"cpu": "1"}}}
    nomination = {"uid": "uid-holder", "priority": 0, "node": "n1", "charge": {"cpu": "2"}}
    assert found["claims"] == {"default/holder": nomination}
    assert found["holds"] == {"default/holder": {"node": "n1", "until": NOW + 60, "victims": ["v"], "attempt": 2}}


def test_other_names_are_not_found() -> None:
    """A plugin that keeps nothing has no page; the answer names those that have."""
    _, page = _site()
    for name in ("LoadAwareScheduling", "", "nobody"):
        assert _asked(page, name) == (404, f"there are pages of: {NAME}\n")
