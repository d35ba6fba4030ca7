import json
from typing import Any

import pytest

from crds.names import ANNOTATION_CONFIG_STATE, CONFIG_MAP_KEY
from headroom.kube import ApiError, ApiUnavailable
from manager.cleanup import is_headrooms
from manager.config.in_force import InForce, Origin
from manager.handlers.config import ConfigReconciler, load
from manager.handlers.config_status import ConfigMetrics
from tests.support.objects import node
from tests.support.world import World

MAPS = "/api/v1/namespaces/headroom-system/configmaps"
PATH = f"{MAPS}/slo-controller-config"
KEPT = f"{MAPS}/headroom-last-good-config"
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
    world.api.put(PATH, _map(BAD))
    world.api.put(KEPT, _map(GOOD, "headroom-last-good-config"))
    await load(world.run.api, world.run.context)
    result = world.run.context.in_force
    assert (result.config.enable, result.origin) == (True, Origin.LAST_GOOD)


async def test_config_map_that_became_bad_in_an_outage_undoes_nothing(world: World) -> None:
    world.configure('{"enable": true, "midUnallocatedPercent": 7}')
    world.api.put(PATH, _map(BAD))
    world.api.put(KEPT, _map(GOOD, "headroom-last-good-config"))
    await load(world.run.api, world.run.context)
    assert world.run.context.in_force.config.mid_unallocated_percent == 7


async def test_good_text_is_kept(world: World, config_reconciler: ConfigReconciler) -> None:
    config_reconciler.observe(_map(GOOD))
    await config_reconciler.reconcile()
    await config_reconciler.reconcile()
    last_good = world.api.objects[KEPT]
    assert last_good["data"] == {CONFIG_MAP_KEY: GOOD}
    assert last_good["metadata"]["annotations"] == {"headroom.dev/in-force-since": "2027-01-15T08:00:00Z"}
    config_reconciler.observe(_map(BAD))
    await config_reconciler.reconcile()
    assert world.api.objects[KEPT]["data"] == {CONFIG_MAP_KEY: GOOD}
    better = '{"enable": true, "midUnallocatedPercent": 1}'
    config_reconciler.observe(_map(better))
    await config_reconciler.reconcile()
    assert world.api.objects[KEPT]["data"] == {CONFIG_MAP_KEY: better}
    assert len(world.api.written("POST", "configmaps")) == 1


async def test_edit_repair_and_deletion_have_events(world: World, config_reconciler: ConfigReconciler) -> None:
    for text in (GOOD, BAD, GOOD):
        config_reconciler.observe(_map(text))
        await config_reconciler.reconcile()
        await config_reconciler.reconcile()
    config_reconciler.observe(None)
    await config_reconciler.reconcile()
    applied, invalid, again, _ = notes = world.api.written("POST", "/events")
    assert [note["reason"].removeprefix("ColocationConfig") for note in notes] == [
        "Applied",
        "Invalid",
        "Applied",
        "Deleted",
    ]
    assert all(note["regarding"]["uid"] == "uid-slo-controller-config" for note in notes)
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
    assert world.events_recorded()[1:] == ["ColocationConfigEntryDisabled", "ColocationConfigWarning"]
    assert world.api.written("POST", "/events")[1]["note"].endswith("; and 2 more")


async def test_leader_creates_a_missing_config_map_that_publishes_nothing(world: World) -> None:
    await load(world.run.api, world.run.context)
    await ConfigReconciler(world.run).reconcile()
    assert world.events_recorded() == []
    (made,) = world.api.written("POST", "configmaps")
    assert (made["metadata"]["name"], made["data"]) == (
        "slo-controller-config",
        {CONFIG_MAP_KEY: '{\n  "enable": false\n}\n'},
    )
    assert is_headrooms(made)


async def test_deleted_config_map_is_not_created_again(world: World) -> None:
    world.api.put(KEPT, _map(GOOD, "headroom-last-good-config"))
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
    assert KEPT in world.api.objects


async def test_deletion_before_the_first_turn_has_an_event(world: World, config_reconciler: ConfigReconciler) -> None:
    world.configure(GOOD)
    config_reconciler.observe(None)
    await config_reconciler.reconcile()
    assert world.events_recorded() == ["ColocationConfigDeleted"]


async def test_deletion_while_no_manager_ran_has_one_event(world: World) -> None:
    world.api.put(KEPT, _map(GOOD, "headroom-last-good-config"))
    for _ in range(2):
        world.run.context.in_force = InForce()
        await load(world.run.api, world.run.context)
        await ConfigReconciler(world.run).reconcile()
    assert world.events_recorded() == ["ColocationConfigDeleted"]
    assert world.run.context.in_force.config.enable is None


async def test_deletion_that_the_watch_missed_is_noticed(world: World, config_reconciler: ConfigReconciler) -> None:
    world.configure(GOOD)
    await config_reconciler.refresh()
    await config_reconciler.reconcile()
    assert world.events_recorded() == ["ColocationConfigDeleted"]


async def test_older_answer_does_not_undo_the_watch(world: World, config_reconciler: ConfigReconciler) -> None:
    world.api.put(PATH, _map(GOOD))
    newer = _map('{"enable": true, "midUnallocatedPercent": 9}')
    world.api.before["GET"] = lambda: config_reconciler.observe(newer)
    await config_reconciler.refresh()
    assert world.run.context.in_force.config.mid_unallocated_percent == 9


OVERLAPPING = json.dumps(
    {
        "nodeConfigs": [
            {"name": "gpu", "nodeSelector": {"matchLabels": {"gpu": "y"}}},
            {"name": "zone-a", "nodeSelector": {"matchLabels": {"zone": "a"}}},
        ]
    }
)
BOTH = {"gpu": "y", "zone": "a"}


def _edit(world: World, config_reconciler: ConfigReconciler, text: str | None) -> None:
    before = world.api.objects.get(PATH, {"metadata": {}})
    last_good = _map(text)
    last_good["metadata"]["annotations"] = dict(before["metadata"].get("annotations") or {})
    config_reconciler.observe(world.api.put(PATH, last_good))


async def _turn(world: World, config_reconciler: ConfigReconciler) -> None:
    await config_reconciler.reconcile()
    if PATH in world.api.objects:
        config_reconciler.observe(world.api.objects[PATH])


def _summary(world: World) -> str:
    return str(world.api.objects[PATH]["metadata"]["annotations"][ANNOTATION_CONFIG_STATE])


def _notes(world: World, reason: str) -> list[str]:
    return [request["note"] for request in world.api.written("POST", "/events") if request["reason"] == reason]


def _has(world: World, *names: str, labels: dict[str, str]) -> None:
    for name in names:
        world.run.context.cluster.put_node(node(name, labels=labels))


async def test_summary_follows_edit_and_repair(world: World, config_reconciler: ConfigReconciler) -> None:
    _edit(world, config_reconciler, GOOD)
    await _turn(world, config_reconciler)
    assert _summary(world) == "in force since 2027-01-15T08:00:00Z"
    world.wall.now += 60
    _edit(world, config_reconciler, BAD)
    await _turn(world, config_reconciler)
    assert _summary(world) == (
        "NOT in force, 1 fault:\n- enabl: unknown field: did you mean enable?\n"
        "the last good one, in force since 2027-01-15T08:00:00Z, stays in force"
    )
    _edit(world, config_reconciler, '{"enable": false, "nodeConfigs": [{"name": "gpu", "mode": 1}], "other": 1}')
    await _turn(world, config_reconciler)
    assert _summary(world) == (
        "in force since 2027-01-15T08:01:00Z\n1 entry disabled: nodeConfigs[0] gpu\n"
        "- nodeConfigs[0].mode: must be a text, got 1\n1 warning:\n- other: unknown field: ignored"
    )
    patched = world.api.written("PATCH", PATH)
    assert all(list(entry) == ["metadata"] and list(entry["metadata"]) == ["annotations"] for entry in patched)


async def test_own_summary_makes_no_loop(world: World, config_reconciler: ConfigReconciler) -> None:
    _edit(world, config_reconciler, GOOD)
    for _ in range(5):
        await _turn(world, config_reconciler)
        world.steady.now += 100
    assert len(world.api.written("PATCH", PATH)) == 1
    assert len(world.run.queue) == 0


async def test_removed_summary_comes_back_slowly(world: World, config_reconciler: ConfigReconciler) -> None:
    for _ in range(40):
        world.api.put(PATH, _map(GOOD))
        config_reconciler.observe(world.api.objects[PATH])
        await config_reconciler.reconcile()
        world.steady.now += 1
    assert len(world.api.written("PATCH", PATH)) == 3


async def test_summary_that_cannot_be_written(
    world: World, config_reconciler: ConfigReconciler, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the right to write the summary, all else works, it is logged once, and tried again now and then."""
    _edit(world, config_reconciler, GOOD)
    world.api.fails[f"PATCH {PATH}"] = ApiError(403, "Forbidden", "no")
    for _ in range(70):
        await _turn(world, config_reconciler)
        world.steady.now += 1
    assert caplog.text.count("cannot be written on the ConfigMap") == 1
    assert len(world.api.written("PATCH", PATH)) == 5
    assert KEPT in world.api.objects


async def test_event_of_an_applied_config_names_its_nodes(world: World, config_reconciler: ConfigReconciler) -> None:
    _has(world, "a", "b", labels={"pool": "x"})
    _has(world, "c", labels={})
    _has(world, "virtual", labels={"pool": "x", "type": "virtual-kubelet"})  # none of the manager's business
    text = '{"nodeConfigs": [{"name": "x", "nodeSelector": {"matchLabels": {"pool": "x"}}, "enable": true}]}'
    _edit(world, config_reconciler, text)
    await _turn(world, config_reconciler)
    assert _notes(world, "ColocationConfigApplied") == ["in force; the strategy of 2 nodes (a, b) of 3 changes"]


async def test_restart_announces_nothing_again_and_keeps_the_time(world: World) -> None:
    config_reconciler = ConfigReconciler(world.run)
    _edit(world, config_reconciler, GOOD)
    await _turn(world, config_reconciler)
    world.run.context.in_force = InForce()
    world.wall.now += 3600
    await load(world.run.api, world.run.context)
    config_reconciler = ConfigReconciler(world.run)
    config_reconciler.observe(world.api.objects[PATH])
    await _turn(world, config_reconciler)
    assert world.events_recorded() == ["ColocationConfigApplied"]
    assert len(world.api.written("PATCH", PATH)) == 1
    assert world.run.context.in_force.since == world.wall.now - 3600


async def test_edit_while_no_manager_ran_is_announced(world: World) -> None:
    config_reconciler = ConfigReconciler(world.run)
    _edit(world, config_reconciler, GOOD)
    await _turn(world, config_reconciler)
    world.api.put(PATH, _map('{"enable": true, "midUnallocatedPercent": 3}'))
    world.run.context.in_force = InForce()
    _has(world, "a", labels={})
    await load(world.run.api, world.run.context)
    await ConfigReconciler(world.run).reconcile()
    assert _notes(world, "ColocationConfigApplied")[1] == "in force; the strategy of 1 node (a) of 1 changes"


async def test_next_leader_takes_over_the_newest_good_text(world: World) -> None:
    context = world.run.context
    context.in_force = InForce()
    standby = ConfigReconciler(world.run)
    standby.observe(_map('{"enable": true, "midUnallocatedPercent": 1}'))
    last_good = _map('{"enable": true, "midUnallocatedPercent": 2}', "headroom-last-good-config")
    last_good["metadata"]["annotations"] = {"headroom.dev/in-force-since": "2027-01-15T08:00:30Z"}
    world.api.put(KEPT, last_good)
    world.api.put(PATH, _map(BAD))
    standby.observe(_map(BAD))
    assert context.in_force.config.mid_unallocated_percent == 1
    await standby.reconcile()
    assert context.in_force.config.mid_unallocated_percent == 2
    assert (context.in_force.origin, context.in_force.since) == (Origin.LAST_GOOD, world.wall.now + 30)
    assert [str(error) for error in context.in_force.errors] == ["enabl: unknown field: did you mean enable?"]


async def test_overlap_names_live_nodes_wherever_shown(world: World, config_reconciler: ConfigReconciler) -> None:
    _has(world, "n1", "n2", labels=BOTH)
    _has(world, "n3", labels={"zone": "a"})
    _edit(world, config_reconciler, OVERLAPPING)
    await _turn(world, config_reconciler)
    said = "nodeConfigs[1] zone-a matches 2 nodes (n1, n2) too, but nodeConfigs[0] gpu comes first and applies there"
    assert _notes(world, "ColocationConfigOverlap") == [said]
    assert _summary(world).endswith(f"\noverlaps:\n- {said}")
    assert world.run.context.metrics.of(ConfigMetrics).overlaps._value.get() == 2


async def test_label_that_brings_an_overlap_is_noticed_once(world: World, config_reconciler: ConfigReconciler) -> None:
    _edit(world, config_reconciler, OVERLAPPING)
    await _turn(world, config_reconciler)
    assert _notes(world, "ColocationConfigOverlap") == []
    for number in range(100):
        _has(world, f"n{number:03}", labels=BOTH)
        world.steady.now += 0.3
        await _turn(world, config_reconciler)
    world.steady.now += 60
    await _turn(world, config_reconciler)
    assert len(_notes(world, "ColocationConfigOverlap")) == 1
    assert len(world.api.written("PATCH", PATH)) <= 5
    assert "matches 100 nodes (n000, " in _summary(world)


async def test_standing_faults_are_repeated(world: World, config_reconciler: ConfigReconciler) -> None:
    """Events expire after an hour; a persistent error is counted again on the same event before that."""
    _edit(world, config_reconciler, BAD)
    await _turn(world, config_reconciler)
    for clock in (world.steady, world.wall):
        clock.now += 1801
    await _turn(world, config_reconciler)
    assert len(_notes(world, "ColocationConfigInvalid")) == 1
    counts: list[Any] = [body["series"]["count"] for body in world.api.written("PATCH", "/events")]
    assert counts == [2]


async def test_only_the_leader_counts_overlaps(
    world: World, config_reconciler: ConfigReconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    _has(world, "n1", labels=BOTH)
    _edit(world, config_reconciler, OVERLAPPING)
    overlaps = world.run.context.metrics.of(ConfigMetrics).overlaps
    counts = []
    for is_leader in (True, False, True):
        monkeypatch.setattr(type(world.run.leader), "is_leader", is_leader)
        await _turn(world, config_reconciler)
        counts.append(overlaps._value.get())
    assert counts == [1, 0, 1]
    assert len(_notes(world, "ColocationConfigOverlap")) == 1
