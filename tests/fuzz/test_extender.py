import json
from typing import Final

import numpy as np
import pytest
from hypothesis import strategies as st

from headroom.runtime.http.pages import Reply, Request, reply_to
from scheduler_plugins.extender.debug import NodePage
from scheduler_plugins.extender.health import Health
from scheduler_plugins.extender.server import Server
from scheduler_plugins.extender.service import Answering, Extender, Mode
from scheduler_plugins.framework.cycle import Cycle, Enabled
from scheduler_plugins.framework.shortlist import Shortlist
from scheduler_plugins.metrics import Telemetry
from scheduler_plugins.plugins.load_aware import NAME, LoadAware
from scheduler_plugins.snapshot.cache import ClusterCache
from tests.fuzz.inputs import Json, damaged, objects
from tests.fuzz.originals import NODE, POD, SOUND
from tests.fuzz.strength import LONGEST_LINE, fuzz

NAMES: Final = ["a", "hot", "unreported", "new"]
_META: Final = SOUND["malformed"]["nodes"]["metadata"]
NODES: Final = [{**SOUND["malformed"]["nodes"], "metadata": {**_META, "name": "a"}}, NODE]
META: Final = {name: {"Pods": [{"UID": "u"}], "NumPDBViolations": 0} for name in NAMES}
VICTIMS: Final = {"a": {"Pods": [POD], "NumPDBViolations": 1}, "hot": {"Pods": []}}
REQUEST: Final = (
    {"Pod": SOUND["malformed"]["pods"], "Nodes": None, "NodeNames": NAMES},
    {"Pod": POD, "Nodes": {"metadata": {}, "items": NODES}, "NodeNames": None},
)
REQUESTS: Final = {
    "filter": REQUEST,
    "prioritize": REQUEST,
    "preempt": (
        {"Pod": SOUND["malformed"]["pods"], "NodeNameToVictims": None, "NodeNameToMetaVictims": META},
        {"Pod": POD, "NodeNameToVictims": VICTIMS, "NodeNameToMetaVictims": None},
    ),
}
NOW: Final = 1_735_689_600.0


def as_body(data: Json) -> bytes:
    return json.dumps(data).encode("utf-8", "surrogatepass")


def named(item: Json, name: str, **amounts: str) -> Json:
    usage = {"status": {"nodeMetric": {"nodeUsage": {"resources": amounts}}, "updateTime": "2025-01-01T00:00:00Z"}}
    return {**item, "metadata": {"name": name}, **(usage if amounts else {})}


def send(mode: Mode, verb: str, body: bytes) -> tuple[int, Json]:
    """The reply to a body; the same server answers a sound request after it."""
    telemetry, plugin = Telemetry(), LoadAware().defaulted()
    cache = ClusterCache(plugin.load_rules(), {NAME: plugin})
    for name in NAMES[:3]:
        cache.put_node(named(NODE, name))
    cache.put_node_metric(named({}, "a", cpu="1", memory="1Gi"))
    cache.put_node_metric(named({}, "hot", cpu="7", memory="1Gi"))
    cycle = Cycle([Enabled(NAME, 1.0, plugin)], telemetry.observe_plugin)
    extender = Extender(cache, cycle, Answering(mode, Shortlist(2)), lambda: NOW, np.random.default_rng(1))
    pages = Server(extender, Health(), telemetry, NodePage(cache, lambda: NOW)).pages()

    def post(path: str, sent: bytes) -> Reply:
        reply = reply_to(pages, Request("POST", path, {}, sent))
        assert isinstance(reply, Reply)
        return reply

    reply = post(f"/{verb}", body)
    sound = {"Pod": {"metadata": {"name": "p", "uid": "p"}, "spec": {"containers": []}}, "NodeNames": ["a", "hot"]}
    after = json.loads(post("/filter", as_body(sound)).body)
    assert after["Error"] == "", "the server does not live on"
    assert after["NodeNames"] == ["a"] or "a" in after["FailedAndUnresolvableNodes"]
    said = json.loads(reply.body)
    if reply.status != 200:
        assert 0 < len(said["Error"]) <= LONGEST_LINE
    return reply.status, said


def filter_is_sound(sent: Json, said: Json) -> None:
    """Only nodes that were sent, each once; a reason for each of them when none is left, or an error."""
    if sent.get("NodeNames") is None:
        assert "set nodeCacheCapable: true" in said["Error"]
        return
    names = sent["NodeNames"]
    assert said.keys() == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
    assert said["Nodes"] is None
    returned = said["NodeNames"]
    refused = [*said["FailedNodes"], *said["FailedAndUnresolvableNodes"]]
    assert len(set(returned)) == len(returned)
    assert {*returned, *refused} <= set(names)
    assert len(said["Error"]) <= LONGEST_LINE
    assert returned or said["Error"] or sorted(refused) == sorted(set(names))
    assert not (returned and said["Error"])


def prioritize_is_sound(sent: Json, said: Json) -> None:
    """A score of 0 to 100 for every node that was sent."""
    assert [message["Host"] for message in said] == list(dict.fromkeys(sent["NodeNames"]))
    assert all(type(entry["Score"]) is int and 0 <= entry["Score"] <= 100 for entry in said)


def preempt_is_sound(sent: Json, said: Json) -> None:
    """Nodes that were sent, with the victims that were sent for them, and no node without a victim."""
    meta = sent.get("NodeNameToMetaVictims")
    victims = sent["NodeNameToVictims"] if meta is None else meta
    assert said.keys() == {"NodeNameToMetaVictims"}
    for name, result in said["NodeNameToMetaVictims"].items():
        came = [pod["metadata"]["uid"] if meta is None else pod["UID"] for pod in victims[name]["Pods"]]
        assert [pod["UID"] for pod in result["Pods"]] == came != []


CHECKS: Final = {"filter": filter_is_sound, "prioritize": prioritize_is_sound, "preempt": preempt_is_sound}
ERRORS: Final = {
    "filter": (),
    "prioritize": ("the pod cannot be read", "could not score"),
    "preempt": ("the pod cannot be read",),
}


@pytest.mark.parametrize("verb", CHECKS)
@fuzz(data=st.data(), mode=st.sampled_from(Mode))
def test_reply_matches_the_request_or_is_an_error(verb: str, data: st.DataObject, mode: Mode) -> None:
    texts = damaged(*map(json.dumps, REQUESTS[verb])).map(lambda text: text.encode("utf-8", "surrogatepass"))
    body = data.draw(objects(*REQUESTS[verb]).map(as_body) | texts | st.binary(max_size=40))
    status, said = send(mode, verb, body)
    if status == 200:
        CHECKS[verb](json.loads(body), said)
    elif status != 400:  # an error of ours is about the pod
        assert status == 500
        assert any(words in said["Error"] for words in ERRORS[verb])
