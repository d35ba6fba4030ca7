from typing import Any

import pytest

from crds.names import CONFIG_MAP_KEY
from headroom.kube import ApiUnavailable
from manager.cleanup import is_headrooms
from manager.config.in_force import InForce, Origin
from manager.handlers.config import ConfigReconciler, load
from tests.support.objects import node
from tests.support.world import World

MAPS = "/api/v1/namespaces/headroom-system/configmaps"
GOOD, BAD = '{"enable": true}', '{"enabl": true}'


def _map(text: str | None, name: str = "slo-controller-config") -> dict[str, Any]:
    data = {} if text is None else {CONFIG_MAP_KEY: text}
    return {"metadata": {"name": name, "namespace": "headroom-system", "uid": f"uid-{name}"}, "data": data}


@pytest.fixture
def world() -> World:
    world = World()
    world.run.context.in_force = InForce()
    return world


@pytest.fixture
def config_reconciler(world: World) -> ConfigReconciler:
    return ConfigReconciler(world.run)


async def test_start_with_bad_config_map_uses_the_text_kept_before(world: World) -> None:
    world.api.put(f"{MAPS}/slo-controller-config", _map(BAD))
    world.api.put(f"{MAPS}/headroom-last-good-config", _map(GOOD, "headroom-last-good-config"))
    await load(world.run.api, world.run.context)
    found = world.run.context.in_force
    assert (found.config.enable, found.origin) == (True, Origin.LAST_GOOD)


async def test_config_map_that_became_bad_in_an_outage_undoes_nothing(world: World) -> None:
    world.configure('{"enable": true, "midUnallocatedPercent": 7}')
    world.api.put(f"{MAPS}/slo-controller-config", _map(BAD))
    world.api.put(f"{MAPS}/headroom-last-good-config", _map(GOOD, "headroom-last-good-config"))
    await load(world.run.api, world.run.context)
    assert world.run.context.in_force.config.mid_unallocated_percent == 7


async def test_good_text_is_kept(world: World, config_reconciler: ConfigReconciler) -> None:
    config_reconciler.observe(_map(GOOD))
    await config_reconciler.reconcile()
    await config_reconciler.reconcile()
    kept = world.api.objects[f"{MAPS}/headroom-last-good-config"]
    assert kept["data"] == {CONFIG_MAP_KEY: GOOD}
    assert kept["metadata"]["annotations"] == {"headroom.sh/in-force-since": "2027-01-15T08:00:00Z"}
    config_reconciler.observe(_map(BAD))
    await config_reconciler.reconcile()
    assert world.api.objects[f"{MAPS}/headroom-last-good-config"]["data"] == {CONFIG_MAP_KEY: GOOD}
    better = '{"enable": true, "midUnallocatedPercent": 1}'
    config_reconciler.observe(_map(better))
    await config_reconciler.reconcile()
    assert world.api.objects[f"{MAPS}/headroom-last-good-config"]["data"] == {CONFIG_MAP_KEY: better}
    assert len(world.api.written("POST", "configmaps")) == 1


async def test_edit_repair_and_deletion_have_events(world: World, config_reconciler: ConfigReconciler) -> None:
    for text in (GOOD, BAD, GOOD):
        config_reconciler.observe(_map(text))
        await config_reconciler.reconcile()
        await config_reconciler.reconcile()
    config_reconciler.observe(None)
    await config_reconciler.reconcile()
    applied, invalid, again, _ = notes = world.api.written("POST", "/events")
    assert [each["reason"].removeprefix("ColocationConfig") for each in notes] == [
        "Applied",
        "Invalid",
        "Applied",
        "Deleted",
    ]
    assert all(each["regarding"]["uid"] == "uid-slo-controller-config" for each in notes)
    assert applied["note"] == "in force; the strategy of none of the 0 nodes changes"
    assert invalid["note"] == (
        "the last good one, in force since 2027-01-15T08:00:00Z, stays in force. "
        "enabl: unknown field: did you mean enable?"
    )
    assert again["note"] == "valid again and in force; the strategy of none of the 0 nodes changes"


async def test_entries_and_warnings_have_own_events(world: World, config_reconciler: ConfigReconciler) -> None:
    entries = ", ".join(["null"] * 10)
    config_reconciler.observe(_map(f'{{"nodeConfigs": [{entries}], "other": 1}}'))
    await config_reconciler.reconcile()
    assert world.told()[1:] == ["ColocationConfigEntryDisabled", "ColocationConfigWarning"]
    assert world.api.written("POST", "/events")[1]["note"].endswith("; and 2 more")


async def test_leader_creates_a_missing_config_map_that_publishes_nothing(world: World) -> None:
    await load(world.run.api, world.run.context)
    await ConfigReconciler(world.run).reconcile()
    assert world.told() == []
    (made,) = world.api.written("POST", "configmaps")
    assert (made["metadata"]["name"], made["data"]) == (
        "slo-controller-config",
        {CONFIG_MAP_KEY: '{\n  "enable": false\n}\n'},
    )
    assert is_headrooms(made)


async def test_deleted_config_map_is_not_created_again(world: World) -> None:
    world.api.put(f"{MAPS}/headroom-last-good-config", _map(GOOD, "headroom-last-good-config"))
    await load(world.run.api, world.run.context)
    await ConfigReconciler(world.run).reconcile()
    assert world.api.written("POST", "configmaps") == []


async def test_changed_config_reaches_all_nodes(world: World, config_reconciler: ConfigReconciler) -> None:
    world.has_node(node())
    assert await world.run.queue.take() == "n1"
    world.run.queue.done("n1")
    config_reconciler.observe(_map(GOOD))
    assert await world.run.queue.take() == "n1"
    world.run.queue.done("n1")
    config_reconciler.observe(_map(GOOD))
    config_reconciler.observe(_map(BAD))
    assert len(world.run.queue) == 0


async def test_text_that_cannot_be_stored_is_in_force(world: World, config_reconciler: ConfigReconciler) -> None:
    config_reconciler.observe(_map(GOOD))
    world.api.fails["configmaps"] = ApiUnavailable("away")
    with pytest.raises(ApiUnavailable):
        await config_reconciler.reconcile()
    assert world.run.context.in_force.config.enable is True
    world.api.fails.clear()
    await config_reconciler.reconcile()
    assert f"{MAPS}/headroom-last-good-config" in world.api.objects


async def test_deletion_before_the_first_turn_has_an_event(world: World, config_reconciler: ConfigReconciler) -> None:
    world.configure(GOOD)
    config_reconciler.observe(None)
    await config_reconciler.reconcile()
    assert world.told() == ["ColocationConfigDeleted"]


async def test_deletion_while_no_manager_ran_has_one_event(world: World) -> None:
    world.api.put(f"{MAPS}/headroom-last-good-config", _map(GOOD, "headroom-last-good-config"))
    for _ in range(2):
        world.run.context.in_force = InForce()
        await load(world.run.api, world.run.context)
        await ConfigReconciler(world.run).reconcile()
    assert world.told() == ["ColocationConfigDeleted"]
    assert world.run.context.in_force.config.enable is None


async def test_deletion_that_the_watch_missed_is_noticed(world: World, config_reconciler: ConfigReconciler) -> None:
    world.configure(GOOD)
    await config_reconciler.refresh()
    await config_reconciler.reconcile()
    assert world.told() == ["ColocationConfigDeleted"]


async def test_older_answer_does_not_undo_the_watch(world: World, config_reconciler: ConfigReconciler) -> None:
    world.api.put(f"{MAPS}/slo-controller-config", _map(GOOD))
    newer = _map('{"enable": true, "midUnallocatedPercent": 9}')
    world.api.before["GET"] = lambda: config_reconciler.observe(newer)
    await config_reconciler.refresh()
    assert world.run.context.in_force.config.mid_unallocated_percent == 9
