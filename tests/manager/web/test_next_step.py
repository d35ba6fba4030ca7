"""The first screen of a cluster without Mid in use: one step, with its numbers and its command."""

import pytest

from manager.web.next_step import next_step
from manager.web.overview import overview
from tests.manager.web.made_cluster import World, metric, prediction_ready, published
from tests.support.objects import Json, mid_pod, node, pod

COLD = prediction_ready(ready=False)
READY = prediction_ready(ready=True)
MID = ("4000", "10Gi")
PROD = pod("web", {"cpu": "9", "memory": "20Gi"})


def step(its_metric: Json | None, *pods: Json, mid: tuple[str, str] | None = None) -> Json | None:
    world = World()
    world.put(node(mid=mid), its_metric, *pods)
    world.sample()
    return next_step(overview(world.recorder), "EDIT", world.context.in_force.config)


@pytest.mark.parametrize(
    ("its_metric", "mid", "text", "command"),
    [
        (None, None, "None of 1 nodes reports usage.", "kubectl headroom doctor"),
        (
            metric(conditions=(READY, published("ColocationDisabled"))),
            None,
            "1 of 1 nodes have a prediction; publishing would add about 4000m CPU and 3.2Gi memory.",
            "EDIT",
        ),
        (
            metric(cold_names=("shop/web",), conditions=(COLD, published("ColocationDisabled"))),
            None,
            "No node has a prediction yet: 0 of 1 Prod pods are warm.",
            "EDIT",
        ),
        (metric(conditions=(READY, published("Shadow"))), None, "Mode is shadow", "kubectl headroom shadow"),
        (
            metric(ready=False, cold_names=("shop/web",)),
            None,
            "Wait: 0 of 1 Prod pods are warm. A pod is warm after 24h of observation",
            "kubectl headroom explain node NAME",
        ),
        (metric(), None, "The formula yields 0 on 1 of 1 nodes.", "kubectl headroom explain node NAME"),
        (metric(), MID, "Nodes publish 4000m CPU and 10Gi memory of Mid, and no pod requests it.", None),
    ],
)
def test_next_step_has_numbers(
    its_metric: Json | None, mid: tuple[str, str] | None, text: str, command: str | None
) -> None:
    result = step(its_metric, PROD, mid=mid)
    assert result is not None
    assert text in result["text"]
    assert result["command"] == command


def test_running_mid_pods_need_no_step() -> None:
    assert step(metric(), mid_pod("batch"), mid=MID) is None
    assert step(metric(), mid_pod("cpu-only", memory="0"), mid=MID) is None
    empty = World()
    assert next_step(overview(empty.recorder), "EDIT", empty.context.in_force.config) is None
