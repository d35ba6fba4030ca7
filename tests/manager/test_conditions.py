"""What the manager says on a NodeMetric, and when."""

import pytest

from crds import names
from headroom.kube import ApiError
from manager.calculators.mid import calculate
from manager.inputs import PodInputs
from manager.reconcile.steps.conditions import as_json, deficit, published
from tests.support.objects import NOW, Json, at, mid_pod, node, node_inputs, report
from tests.support.world import METRIC, World


@pytest.fixture
def world() -> World:
    """A node that reports."""
    world = World()
    world.has_node(node())
    world.reports(report(age=0))
    return world


def _conditions(world: World) -> dict[str, Json]:
    return {each["type"]: each for each in world.api.objects[METRIC]["status"].get("conditions", [])}


def _told(world: World) -> list[list[Json]]:
    return [body["status"]["conditions"] for body in world.api.written("PATCH", f"{METRIC}/status")]


def test_published_has_numbers() -> None:
    """A node that publishes says how much could be published when it began."""
    state = published(calculate(node_inputs(node(), report())), shadow=False)
    assert (state.status, state.reason) == ("True", "Published")
    assert state.message.startswith("4000m CPU and 10240Mi memory could be published when this began")


def test_degraded_has_its_reason() -> None:
    """A node that publishes nothing has the calculator's reason, and its way out."""
    state = published(calculate(node_inputs(node(), None)), shadow=False)
    assert (state.status, state.reason) == ("False", "NoReport")
    assert "is the agent running" in state.message


def test_shadow_is_a_reason() -> None:
    """In shadow mode nothing is published, on purpose; but a reason that comes before it is told first."""
    result = calculate(node_inputs(node(), report(), mode="shadow"))
    state = published(result, shadow=True)
    assert (state.status, state.reason) == ("False", "Shadow")
    assert "4000m CPU" in state.message
    assert "kubectl headroom shadow" in state.message
    assert published(calculate(node_inputs(node(), None, mode="shadow")), shadow=True).reason == "NoReport"


def test_kept_floor_is_told() -> None:
    """When the Node goes on having what Mid pods requested, the condition says how much."""
    state = published(calculate(node_inputs(node(), None, mid_pod("m"))), shadow=False)
    assert "keeps the 3000m CPU and 2048Mi memory" in state.message


def test_deficit_has_numbers() -> None:
    """A deficit says what was requested, by how much it is too much, and how it ends."""
    state = deficit(calculate(node_inputs(node(), report(reclaimable=("1", "10Gi")), mid_pod("m"))))
    assert (state.status, state.reason) == ("True", "Deficit")
    assert "requested 3000m CPU and 2048Mi memory, 2000m CPU and 0Mi memory more than may be published" in state.message
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
    assert len(_told(world)) == 1
    world.later(1000)
    await world.reconcile()
    found = _conditions(world)
    assert found[names.CONDITION_MID_PUBLISHED]["reason"] == "ReportExpired"
    assert found[names.CONDITION_MID_PUBLISHED]["lastTransitionTime"] == at(1000)
    assert found[names.CONDITION_MID_DEFICIT]["lastTransitionTime"] == at(0)
    world.configure('{"enable": false}')
    await world.reconcile()
    found = _conditions(world)
    assert found[names.CONDITION_MID_PUBLISHED]["reason"] == "ColocationDisabled"
    assert found[names.CONDITION_MID_PUBLISHED]["lastTransitionTime"] == at(1000)  # it was False before
    assert len(_told(world)) == 3


def _kept(world: World) -> Json:
    return {"conditions": world.api.objects[METRIC]["status"]["conditions"]}


async def test_conditions_of_agent_stay(world: World) -> None:
    """What the agent says stands beside, before and after."""
    ready = {"type": "PredictionReady", "status": "True"}
    world.reports({"status": {**report(age=0)["status"], "conditions": [ready]}})
    await world.reconcile()
    assert _conditions(world)["PredictionReady"] == ready
    assert len(_conditions(world)) == 3


async def test_removed_condition_comes_back(world: World) -> None:
    """A condition that somebody took away is there again after the next look."""
    await world.reconcile()
    world.reports(report(age=-5))
    assert _conditions(world) == {}
    world.wall.now += 600
    await world.reconcile()
    assert len(_conditions(world)) == 2


async def test_replaced_status_keeps_times(world: World) -> None:
    """An agent that replaces the whole status at every report does not make a condition look as if it just changed."""
    await world.reconcile()
    for seconds in (60, 120):
        world.later(60)
        world.reports(report(age=-seconds))
        world.run.context.node_states.clear()  # nor does another replica that takes over
        await world.reconcile()
        assert {each["lastTransitionTime"] for each in _conditions(world).values()} == {at(0)}
    world.reports(report(age=-120))
    world.configure('{"enable": false}')
    await world.reconcile()
    found = _conditions(world)
    assert found[names.CONDITION_MID_PUBLISHED]["lastTransitionTime"] == at(120)  # it was True before
    assert found[names.CONDITION_MID_DEFICIT]["lastTransitionTime"] == at(0)


async def test_restart_writes_nothing(world: World) -> None:
    """A manager that starts finds the conditions as they are, and has nothing to say."""
    await world.reconcile()
    world.run.context.node_states.clear()
    before = len(world.api.calls)
    await world.reconcile()
    assert len(world.api.calls) == before


async def test_refused_conditions_stop_nothing(world: World) -> None:
    """Where conditions may not be written (an old chart's role), Mid is published all the same; it is passed on."""
    world.api.fails[f"PATCH {METRIC}/status"] = ApiError(403, "Forbidden", "no")
    with pytest.raises(ApiError):
        await world.reconcile()
    assert world.offered()["cpu"] == "4000"


async def test_foreign_definition_gets_no_conditions(world: World) -> None:
    """Koordinator's definition has no conditions: they are left out, and not sent again at each look."""
    world.api.unknown_fields = {"status.conditions"}
    await world.reconcile()
    told = len(_told(world))
    await world.reconcile()
    assert len(_told(world)) == told
    assert world.offered()["cpu"] == "4000"


async def test_deficit_begins_and_ends(world: World) -> None:
    """The deficit of running Mid pods is a condition for as long as it lasts."""
    mid = PodInputs.from_object(mid_pod("m", cpu="5000"))
    world.run.context.cluster.put_pod(mid)
    await world.reconcile()
    assert _conditions(world)[names.CONDITION_MID_DEFICIT]["status"] == "True"
    world.run.context.cluster.drop_pod(mid.uid)
    await world.reconcile()
    assert _conditions(world)[names.CONDITION_MID_DEFICIT]["status"] == "False"


def test_same_state_needs_no_write() -> None:
    """Nothing is written while statuses and reasons are those that stand there."""
    result = calculate(node_inputs(node(), report()))
    states = (published(result, shadow=False), deficit(result))
    assert len(as_json(states, {}, {}, NOW) or []) == 2
