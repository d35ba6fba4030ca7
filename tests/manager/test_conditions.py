from collections.abc import Sequence

import pytest

from crds import names
from headroom.kube import ApiError
from manager.calculators.mid import calculate
from manager.inputs import Amounts, NodeInputs, PodInputs
from manager.mid.pod_limits import PodLimits
from manager.reconcile.steps.conditions import deficit, pods_limited, published
from tests.support.objects import NOW, Json, at, mid_pod, node, node_inputs, pod, report, resources
from tests.support.world import METRIC, World, put_pods


@pytest.fixture
def world() -> World:
    world = World()
    world.has_node(node())
    world.reports(report(age=0))
    return world


def _conditions(world: World) -> dict[str, Json]:
    return {condition["type"]: condition for condition in world.api.objects[METRIC]["status"].get("conditions", [])}


def _written(world: World) -> list[list[Json]]:
    return [body["status"]["conditions"] for body in world.api.written("PATCH", f"{METRIC}/status")]


EMPTY, MID = node_inputs(node(), None), mid_pod("m")


@pytest.mark.parametrize(
    ("inputs", "reason", "message"),
    [
        (node_inputs(node(), report()), "Published", "4000m CPU and 10Gi memory could be published when this began"),
        (EMPTY, "NoReport", "No NodeMetric report yet: is the agent running on this node?"),
        (node_inputs(node(), None, MID), "NoReport", "The Node keeps the 3000m CPU and 2Gi memory that running"),
        (
            node_inputs(node(), report(), mode="shadow"),
            "Shadow",
            "4000m CPU and 10Gi memory could be published, and",
        ),
        (node_inputs(node(), None, mode="shadow"), "NoReport", "is the agent running"),
    ],
)
def test_published(inputs: NodeInputs, reason: str, message: str) -> None:
    """In shadow mode nothing is published, on purpose; but a reason that comes before it is reported first."""
    state = published(calculate(inputs), shadow=inputs.strategy.shadow)
    assert (state.holds, state.reason) == (reason == "Published", reason)
    assert message in state.message


def test_deficit() -> None:
    state = deficit(calculate(node_inputs(node(), report(reclaimable=("1", "10Gi")), MID)))
    assert (state.status, state.reason) == ("True", "Deficit")
    assert "requested 3000m CPU, 2000m CPU more than may be published" in state.message
    assert "midEviction" in state.message
    assert deficit(calculate(node_inputs(node(), report()))).reason == "NoDeficit"


def _limits(pods: Sequence[Json], **used: tuple[int, int]) -> PodLimits:
    """Evaluate pods of namespace shop that use so much. [milli-cores, MiB]"""
    usage = {f"shop/{name}": Amounts(cpu, mebibytes << 20) for name, (cpu, mebibytes) in used.items()}
    return PodLimits.of(map(PodInputs.from_object, pods), usage)


@pytest.mark.parametrize(
    ("limits", "reason", "messages"),
    [
        (_limits([]), "Limited", ["Each running Mid pod has native limits"]),
        (_limits([MID], m=(3010, 2064)), "Limited", []),  # so little beyond the requests is noise
        (
            _limits([mid_pod("a", limits={}), MID, mid_pod("b", limits={"cpu": "1"})]),
            "WithoutLimits",
            ["Mid pods: 2 without native limits", ": shop/a (cpu and memory), shop/b (memory)."],
        ),
        (
            _limits([mid_pod("a", "50", "32Mi")], a=(10, 603)),
            "BeyondRequests",
            ["1 that used more than requested: shop/a (requested 50m CPU and 32Mi memory, used 571Mi memory more)."],
        ),
        (
            _limits([mid_pod("a", limits={})], a=(4000, 1)),
            "WithoutLimitsAndBeyondRequests",
            ["shop/a (cpu and memory).", "used 1000m CPU more)."],
        ),
        # Pods that no kubelet admitted, pods that ended, and pods without Mid requests do not count.
        (_limits([mid_pod("a", limits={}, phase=phase) for phase in ("Pending", "Failed")]), "Limited", []),
        (_limits([pod("p")], p=(9000, 9000)), "Limited", []),
        (
            _limits([mid_pod(f"pod-{number}", limits={}) for number in range(12)]),
            "WithoutLimits",
            ["12 without native limits", "shop/pod-7 (cpu and memory) and 2 more."],
        ),
    ],
)
def test_pods_limited(limits: PodLimits, reason: str, messages: list[str]) -> None:
    """The condition names at most ten Mid pods of each kind, with their numbers."""
    state = pods_limited(limits)
    assert (state.holds, state.reason) == (reason == "Limited", reason)
    assert [message for message in messages if message not in state.message] == []


async def test_condition_follows_the_named_pods(world: World) -> None:
    """It is written when another pod needs a name, not when a number differs, and seldom: usage crosses requests."""

    async def use(name: str, mebibytes: int) -> str:
        world.later(60)
        put_pods(world.run.context.cluster, [PodInputs.from_object(mid_pod(name, memory="64Mi"))])
        metric = {"namespace": "shop", "name": name, "podUsage": resources("1", f"{mebibytes}Mi")}
        age = NOW - world.wall.now
        conditions = list(_conditions(world).values())
        world.reports({"status": {**report(age=age)["status"], "podsMetric": [metric], "conditions": conditions}})
        await world.reconcile()
        return str(_conditions(world)[names.CONDITION_MID_PODS_LIMITED]["message"])

    assert "shop/a (requested 3000m CPU and 64Mi memory, used 36Mi memory more)" in await use("a", 100)
    assert "used 36Mi" in await use("a", 200)
    assert "shop/b" in await use("b", 100)
    for name in "cd":
        assert f"shop/{name}" in await use(name, 100)
    assert "shop/d" in await use("e", 100)
    assert len(_written(world)) == 4
    for _ in range(10):
        text = await use("e", 100)
    assert "shop/e" in text


async def test_conditions_follow_states(world: World) -> None:
    """They are written when a state changes and not when a number does; a status that stays keeps its time."""
    await world.reconcile()
    assert {name: each["status"] for name, each in _conditions(world).items()} == {
        names.CONDITION_MID_PUBLISHED: "True",
        names.CONDITION_MID_DEFICIT: "False",
        names.CONDITION_MID_PODS_LIMITED: "True",
    }
    world.reports({"status": {**report(reclaimable=("3", "9Gi"), age=-5)["status"], **_kept(world)}})
    await world.reconcile()
    assert len(_written(world)) == 1
    world.later(1000)
    await world.reconcile()
    result = _conditions(world)
    assert result[names.CONDITION_MID_PUBLISHED]["reason"] == "ReportExpired"
    assert result[names.CONDITION_MID_PUBLISHED]["lastTransitionTime"] == at(1000)
    assert result[names.CONDITION_MID_DEFICIT]["lastTransitionTime"] == at(0)
    world.configure('{"enable": false}')
    await world.reconcile()
    result = _conditions(world)
    assert result[names.CONDITION_MID_PUBLISHED]["reason"] == "ColocationDisabled"
    assert result[names.CONDITION_MID_PUBLISHED]["lastTransitionTime"] == at(1000)  # it was False before
    assert len(_written(world)) == 3


def _kept(world: World) -> Json:
    return {"conditions": world.api.objects[METRIC]["status"]["conditions"]}


async def test_removed_condition_comes_back(world: World) -> None:
    await world.reconcile()
    world.reports(report(age=-5))
    assert _conditions(world) == {}
    world.wall.now += 600
    await world.reconcile()
    assert len(_conditions(world)) == 3


async def test_status_replaced_by_the_agent_keeps_times_of_transition(world: World) -> None:
    await world.reconcile()
    for seconds in (60, 120):
        world.later(60)
        world.reports(report(age=-seconds))
        world.run.context.node_states.clear()  # another replica does not either
        await world.reconcile()
        assert {condition["lastTransitionTime"] for condition in _conditions(world).values()} == {at(0)}
    world.reports(report(age=-120))
    world.configure('{"enable": false}')
    await world.reconcile()
    result = _conditions(world)
    assert result[names.CONDITION_MID_PUBLISHED]["lastTransitionTime"] == at(120)  # it was True before
    assert result[names.CONDITION_MID_DEFICIT]["lastTransitionTime"] == at(0)


async def test_refused_conditions_stop_nothing(world: World) -> None:
    """Where conditions may not be written (an old chart's role), Mid is published all the same; it is raised."""
    world.api.fails[f"PATCH {METRIC}/status"] = ApiError(403, "Forbidden", "no")
    with pytest.raises(ApiError):
        await world.reconcile()
    assert world.published()["cpu"] == "4000"


async def test_foreign_definition_gets_no_conditions(world: World) -> None:
    world.api.unknown_fields = {"status.conditions"}
    await world.reconcile()
    written = len(_written(world))
    await world.reconcile()
    assert len(_written(world)) == written
    assert world.published()["cpu"] == "4000"
    world.later(1000)  # it is tried again every ten minutes
    await world.reconcile()
    assert len(_written(world)) == written + 1
