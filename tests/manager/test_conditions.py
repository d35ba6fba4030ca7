import pytest

from crds import names
from headroom.kube import ApiError
from manager.calculators.mid import calculate
from manager.inputs import NodeInputs
from manager.reconcile.steps.conditions import deficit, published
from tests.support.objects import Json, at, mid_pod, node, node_inputs, report
from tests.support.world import METRIC, World


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


async def test_conditions_follow_states(world: World) -> None:
    """They are written when a state changes and not when a number does; a status that stays keeps its time."""
    await world.reconcile()
    assert {name: each["status"] for name, each in _conditions(world).items()} == {
        names.CONDITION_MID_PUBLISHED: "True",
        names.CONDITION_MID_DEFICIT: "False",
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
    assert len(_conditions(world)) == 2


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
