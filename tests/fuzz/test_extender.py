"""What comes to the extender in place of kube-scheduler's requests."""

import json
from typing import Final

import numpy as np
from hypothesis import strategies as st

from headroom.runtime.http.pages import Reply, Request, answer
from scheduler_plugins.extender.debug import NodePage
from scheduler_plugins.extender.health import Health
from scheduler_plugins.extender.server import Server
from scheduler_plugins.extender.service import Answering, Extender, Mode
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.metrics import Telemetry
from scheduler_plugins.plugins.load_aware import NAME
from tests.fuzz.inputs import Json, damaged, objects
from tests.fuzz.strength import LONGEST_LINE, fuzz
from tests.scheduler_plugins.objects import NOW, World, node, node_metric, pod

POD: Final = pod(
    "p",
    {"cpu": "500m", "memory": "1Gi"},
    {"cpu": "1"},
    priority=9500,
    affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}],
    priorityClassName="koord-prod",
)
POD["metadata"] |= {
    "creationTimestamp": "2025-01-01T00:00:00Z",
    "labels": {"koordinator.sh/priority-class": "koord-prod"},
    "annotations": {"load-aware.koordinator.sh/estimation": "{}"},
    "ownerReferences": [{"kind": "DaemonSet"}],
}
NAMES: Final = ["a", "hot", "unreported", "new"]
NODES: Final = [node("a"), node("new", annotations={"load-aware.koordinator.sh/usage-thresholds": "{}"})]
ASKED: Final = (
    {"Pod": POD, "Nodes": None, "NodeNames": NAMES},
    {"Pod": POD, "Nodes": {"metadata": {}, "items": NODES}, "NodeNames": None},
)
PREEMPTING: Final = (
    {
        "Pod": POD,
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {name: {"Pods": [{"UID": "u"}], "NumPDBViolations": 0} for name in NAMES},
    },
    {
        "Pod": POD,
        "NodeNameToVictims": {"a": {"Pods": [POD], "NumPDBViolations": 1}, "hot": {"Pods": []}},
        "NodeNameToMetaVictims": None,
    },
)


def _as_body(data: Json) -> bytes:
    return json.dumps(data).encode("utf-8", "surrogatepass")


def _bodies(*originals: Json) -> st.SearchStrategy[bytes]:
    """Requests with other things in places, damaged text, and bytes."""
    texts = damaged(*map(json.dumps, originals)).map(lambda text: text.encode("utf-8", "surrogatepass"))
    return objects(*originals).map(_as_body) | texts | st.binary(max_size=40)


def _world() -> World:
    return World().put(
        node("a"), node_metric("a", cpu="10"), node("hot"), node_metric("hot", cpu="90"), node("unreported")
    )


def _send(mode: Mode, verb: str, body: bytes) -> tuple[Reply, Json, World]:
    """The reply to a body, and the same server's to a sound request behind it."""
    world, telemetry = _world(), Telemetry()
    cycle = Cycle([Enabled(NAME, 1.0, world.plugin)], telemetry.observe_plugin)
    extender = Extender(world.cache, cycle, Answering(mode, 2, 4), lambda: NOW, np.random.default_rng(1))
    pages = Server(extender, Health(), telemetry, NodePage(world.cache, lambda: NOW)).pages()

    def post(path: str, sent: bytes) -> Reply:
        reply = answer(pages, Request("POST", path, {}, sent))
        assert isinstance(reply, Reply)
        return reply

    reply = post(f"/{verb}", body)
    sound = {"Pod": pod("sound"), "NodeNames": ["a", "hot"]}
    after = json.loads(post("/filter", _as_body(sound)).body)
    assert after["Error"] == "", "the server does not live on"
    assert after["NodeNames"] == ["a"] or "a" in after["FailedAndUnresolvableNodes"]  # it may be full of what was sent
    assert set(world.cache.nodes) == {"a", "hot", "unreported"}, "nodes that were sent are kept"
    told = json.loads(reply.body)
    if reply.status != 200:
        assert reply.status in (400, 500)
        assert told["Error"]
        assert len(told["Error"]) <= LONGEST_LINE
    return reply, told, world


def _sent(body: bytes) -> tuple[list[str], bool]:
    """The nodes in a request, and whether they came in full."""
    data = json.loads(body)
    if data.get("NodeNames") is not None:
        return data["NodeNames"], False
    return [item["metadata"]["name"] for item in data["Nodes"].get("items") or ()], True


@fuzz(body=_bodies(*ASKED), mode=st.sampled_from(Mode))
def test_filter_bodies(body: bytes, mode: Mode) -> None:
    """Filter names only nodes that were sent, each once, and a reason for every one when none is left; or an error."""
    reply, told, _ = _send(mode, "filter", body)
    if reply.status != 200:
        assert reply.status == 400
        return
    names, full = _sent(body)
    assert told.keys() == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
    assert (told["NodeNames"] is None, told["Nodes"] is None) == (full, not full)
    kept = [item["metadata"]["name"] for item in told["Nodes"]["items"]] if full else told["NodeNames"]
    refused = [*told["FailedNodes"], *told["FailedAndUnresolvableNodes"]]
    assert len(set(kept)) == len(kept)
    assert {*kept, *refused} <= set(names)
    if told["Error"]:
        assert not kept
        assert len(told["Error"]) <= LONGEST_LINE
    elif not kept:
        assert sorted(refused) == sorted(set(names))


@fuzz(body=_bodies(*ASKED), mode=st.sampled_from(Mode))
def test_prioritize_bodies(body: bytes, mode: Mode) -> None:
    """Prioritize gives every node that was sent a score of 0 to 100, or an error; a 500 is about the pod."""
    reply, told, _ = _send(mode, "prioritize", body)
    if reply.status == 500:
        assert "the pod cannot be read" in told["Error"] or "could not score" in told["Error"]
    elif reply.status == 200:
        assert [each["Host"] for each in told] == list(dict.fromkeys(_sent(body)[0]))
        assert all(type(each["Score"]) is int and 0 <= each["Score"] <= 100 for each in told)


@fuzz(body=_bodies(*PREEMPTING), mode=st.sampled_from(Mode))
def test_preempt_bodies(body: bytes, mode: Mode) -> None:
    """Preempt answers with nodes that were sent, victims that were sent for them, and no node without a victim."""
    reply, told, _ = _send(mode, "preempt", body)
    if reply.status == 500:
        assert "the pod cannot be read" in told["Error"]
    elif reply.status == 200:
        data = json.loads(body)
        meta = data.get("NodeNameToMetaVictims")
        sent = data["NodeNameToVictims"] if meta is None else meta
        assert told.keys() == {"NodeNameToMetaVictims"}
        for name, victims in told["NodeNameToMetaVictims"].items():
            came = [each["UID"] if meta is not None else each["metadata"]["uid"] for each in sent[name]["Pods"]]
            assert [each["UID"] for each in victims["Pods"]] == came
            assert came
