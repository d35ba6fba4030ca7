"""Objects that hold what Kubernetes does not allow: each is refused by its field, and spoils nothing else."""

import json
from typing import Any

import pytest

from headroom.cluster.typed_pod import MalformedPod, typed_pod
from headroom.runtime.http import Request
from scheduler_plugins.extender.debug import NodePage
from scheduler_plugins.preemption.controller import Controller
from scheduler_plugins.preemption.evaluator import Evaluator
from scheduler_plugins.preemption.hold_reconciler import HoldReconciler
from tests.scheduler_plugins.objects import NOW, World, node, pod
from tests.scheduler_plugins.preemption.plays import Play


def test_lone_surrogates_are_shown() -> None:
    world = World().put(node(), pod("a\ud800b", {"cpu": "1"}, node="n"))
    reply = NodePage(world.cache, lambda: NOW).answer(Request("GET", "/debug/nodes/n"))
    assert "default/a\\ud800b" in json.loads(reply.body)["pods"]


@pytest.mark.parametrize(
    ("metadata", "spec", "field"),
    [
        ({"labels": 5}, {}, "metadata.labels"),
        ({"annotations": ["a"]}, {}, "metadata.annotations"),
        ({}, {"containers": "none"}, "spec.containers"),
        ({}, {"overhead": 7}, "spec.overhead"),
    ],
)
def test_odd_pod_is_refused_by_its_field(metadata: dict[str, Any], spec: dict[str, Any], field: str) -> None:
    item = pod()
    item = {**item, "metadata": {**item["metadata"], **metadata}, "spec": {**item["spec"], **spec}}
    with pytest.raises(MalformedPod, match=f"^{field}: must be "):
        typed_pod(item)


@pytest.mark.parametrize(
    ("part", "step"),
    [
        (Evaluator, "__call__"),
        (Controller, "_barred"),
        (Controller, "_like"),
        (HoldReconciler, "backoff_seconds"),
        (HoldReconciler, "hold"),
    ],
)
async def test_one_pod_stops_reclaim_at_no_step(part: type, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A more important pod that waits, too, cannot be judged, whatever that raises."""
    play, told = Play(), list[str]()
    play.wait("b", "b0", 2, priority=100)
    play.watch()
    sound = getattr(part, step)

    def broken(self: Any, asked: Any, *rest: Any) -> Any:  # noqa: ANN401
        if asked.name == "b0":
            raise TypeError("unhashable type: 'dict'")
        return sound(self, asked, *rest)

    monkeypatch.setattr(part, step, broken)
    monkeypatch.setattr(play.controller._recorder, "explain", lambda pod, *said: told.append(f"{pod.name} {said[-1]}"))
    await play.live(3)
    assert play.server.evicted == ["a2"]
    assert part is Evaluator or "b0 Nobody is evicted for it: TypeError: unhashable type: 'dict'" in told
