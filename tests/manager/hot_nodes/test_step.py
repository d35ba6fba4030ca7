"""Reconciliations that set and remove the taint, with an API server in memory."""

import json

import pytest

from crds.names import CONDITION_NODE_HOT, TAINT_HOT
from headroom.kube import ApiError
from manager.handlers import nodes
from tests.support.objects import Json, node, report
from tests.support.world import METRIC, NODE, World

HOT, WARM, COOL = ("14", "1Gi"), ("10", "1Gi"), ("6", "1Gi")  # 88, 63 and 38 % of 16 cores
FORBIDDEN = ApiError(403, "Forbidden", "cannot patch resource nodes")


class HotWorld(World):
    """A manager with node n1, which reports each minute, and a second node."""

    def __init__(self, **hot: object) -> None:
        super().__init__()
        self.set(**{"mode": "prefer", "afterSeconds": 60, **hot})
        self.has_node(node())
        self.run.context.cluster.put_node_metric({"metadata": {"name": "n2", "uid": "n2"}}, 0.0)

    def set(self, **hot: object) -> None:
        self.configure(json.dumps({"hotNodes": hot}))

    async def minutes(self, *usages: tuple[str, str]) -> None:
        for usage in usages:
            self.later(60.0)
            self.reports(report(usage=usage, age=-self.steady.now))
            await self.reconcile()

    def effects(self) -> list[str]:
        taints: list[Json] = self.api.objects[NODE].get("spec", {}).get("taints") or []
        return [taint["effect"] for taint in taints if taint["key"] == TAINT_HOT]

    def retaint(self, *taints: Json) -> None:
        """Have another writer set the Node's taints."""
        stored = self.api.objects[NODE]
        nodes.observe(self.run, "MODIFIED", self.api.put(NODE, {**stored, "spec": {"taints": list(taints)}}))

    def condition(self) -> tuple[str, str, str] | None:
        conditions: list[Json] = self.api.objects[METRIC]["status"].get("conditions", [])
        result = [condition for condition in conditions if condition["type"] == CONDITION_NODE_HOT]
        return (result[0]["status"], result[0]["reason"], result[0]["message"]) if result else None

    def metrics(self) -> dict[str, float]:
        samples = (sample for family in self.run.context.metrics.registry.collect() for sample in family.samples)
        return {
            sample.labels["reason"]: sample.value for sample in samples if sample.name == "headroom_manager_hot_node"
        }


async def test_hot_node_gets_the_taint_and_loses_it() -> None:
    """The taint comes after the hold and stays until the node is cool; condition, event and metric have the reason."""
    world, numbers = HotWorld(), "Usage: CPU 88 % of allocatable (threshold 65 %), memory 2 % of allocatable"
    await world.minutes(HOT)
    condition = world.condition()
    assert condition is not None
    assert (world.effects(), condition[:2]) == ([], ("False", "NotHot"))
    assert condition[2].endswith("no taint before reports show the node hot for 60 s.")
    await world.minutes(HOT)
    condition = world.condition()
    assert condition is not None
    assert (world.effects(), condition[:2]) == (["PreferNoSchedule"], ("True", "Tainted"))
    assert condition[2].startswith(numbers)
    assert condition[2].endswith(":PreferNoSchedule until CPU is at most 55 % and memory is at most 85 %.")
    await world.minutes(WARM)
    assert (world.effects(), world.metrics()) == (["PreferNoSchedule"], {"Tainted": 1.0})
    await world.minutes(COOL)
    condition = world.condition()
    assert condition is not None
    assert (world.effects(), condition[:2], world.metrics()) == ([], ("False", "NotHot"), {})
    assert world.events_recorded() == ["HotTaintSet", "HotTaintRemoved"]


async def test_mid_resources_need_not_be_enabled() -> None:
    """With `enable: false` hot nodes are tainted all the same; nothing else is written to the Node."""
    world = HotWorld()
    await world.minutes(HOT, HOT)
    assert world.effects() == ["PreferNoSchedule"]
    assert world.published() == {}


async def test_dry_run_writes_nothing() -> None:
    world = HotWorld(mode="dryRun")
    await world.minutes(HOT, HOT)
    condition = world.condition()
    assert condition is not None
    assert (condition[:2], world.metrics()) == (("True", "DryRun"), {"DryRun": 1.0})
    assert world.api.written("PATCH", "/nodes/") == []
    assert world.events_recorded() == ["HotTaintDryRun"]


@pytest.mark.parametrize("mode", ["off", "dryRun"])
async def test_turning_it_off_removes_the_taint(mode: str) -> None:
    """Under off the condition goes, too."""
    world = HotWorld()
    await world.minutes(HOT, HOT)
    world.set(mode=mode)
    await world.reconcile()
    assert world.effects() == []
    assert (world.condition() is None) == (mode == "off")


async def test_mode_changes_the_effect() -> None:
    world = HotWorld()
    await world.minutes(HOT, HOT)
    world.set(mode="noSchedule")
    await world.reconcile()
    assert world.effects() == ["NoSchedule"]


async def test_expired_report_removes_the_taint_in_time() -> None:
    """The node is reconciled when its report expires, although nothing else changes."""
    world = HotWorld()
    await world.minutes(HOT, HOT)
    due = world.due_in()
    assert due is not None
    assert due == 901.0
    world.later(due)
    await world.reconcile()
    condition = world.condition()
    assert condition is not None
    assert (world.effects(), condition[:2]) == ([], ("False", "NoFreshReport"))


async def test_taint_that_someone_removes_comes_back_after_the_hold() -> None:
    """A person who removes the taint is not overruled before the node was hot for afterSeconds again."""
    world = HotWorld()
    await world.minutes(HOT, HOT)
    world.retaint({"key": "gpu", "effect": "NoSchedule"})
    await world.reconcile()
    assert world.effects() == []
    await world.minutes(HOT)
    assert world.effects() == ["PreferNoSchedule"]


async def test_restarted_manager_keeps_the_taint_silently() -> None:
    """Another replica, or a later run, keeps an earlier taint without a write and without an event."""
    world = HotWorld()
    world.retaint({"key": TAINT_HOT, "effect": "PreferNoSchedule"})
    await world.minutes(WARM)
    assert (world.effects(), world.events_recorded()) == (["PreferNoSchedule"], [])
    assert world.api.written("PATCH", "/nodes/") == []


async def test_missing_right_is_reported_once_a_minute() -> None:
    """Without the right to patch Nodes the node is reported, everything else goes on, and a later try succeeds."""
    world = HotWorld()
    world.api.fails["PATCH /api/v1/nodes/n1"] = FORBIDDEN
    await world.minutes(HOT, HOT)
    world.later(1.0)
    await world.reconcile()
    condition = world.condition()
    assert condition is not None
    assert (condition[:2], world.metrics()) == (("True", "Forbidden"), {"Forbidden": 1.0})
    assert "manager.hotNodes.enabled=true" in condition[2]
    assert (len(world.api.written("PATCH", "/nodes/")), world.events_recorded()) == (1, ["HotTaintForbidden"])
    del world.api.fails["PATCH /api/v1/nodes/n1"]
    await world.minutes(HOT)
    assert world.effects() == ["PreferNoSchedule"]


async def test_excluded_node_has_no_taint() -> None:
    """A node that --exclude-nodes selects is left alone, and loses a taint that it has."""
    world = HotWorld()
    stored = world.api.objects[NODE]
    virtual = {**stored, "metadata": {**stored["metadata"], "labels": {"type": "virtual-kubelet"}}}
    nodes.observe(world.run, "MODIFIED", world.api.put(NODE, virtual))
    world.retaint({"key": TAINT_HOT, "effect": "NoSchedule"})
    await world.minutes(HOT, HOT)
    assert world.effects() == []


async def test_standby_writes_nothing() -> None:
    world = HotWorld()
    await world.minutes(HOT)
    world.lead(leads=False)
    await world.minutes(HOT, HOT)
    assert world.api.written("PATCH", "/nodes/") == []
