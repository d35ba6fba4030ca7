"""What a dry run says, and that a look at a node leads to it."""

from manager.inputs import PodInputs
from manager.reconcile.steps import POST_RECONCILE_STEPS
from manager.reconcile.steps.eviction import MidEvictions
from tests.manager.mid.eviction.made_mid import mid, three
from tests.manager.mid.eviction.stage import Stage
from tests.support.objects import node, report
from tests.support.world import World


async def test_dry_run_names_them_once() -> None:
    """By default an event names who would go and why, again when the list changes, and a metric counts them."""
    stage = Stage(*three(), cpu="1", mode="dry-run")
    await stage.lasts()
    stage.later(60)
    stage.report()
    await stage.reconcile()
    assert stage.evicted() == []
    (note,) = stage.reported("MidEvictionDryRun")
    assert note == (
        "Would evict 3 pods (midEviction.mode is dry-run): Mid pods on the node requested 6000m CPU, 1000m CPU may be "
        "published: short by 5000m CPU for 301 s. First to go: shop/young (priority 7000, requested 2000m CPU), "
        "shop/old (priority 7000, requested 2000m CPU), shop/high (priority 7900, requested 2000m CPU)"
    )
    assert stage.metric("mid_would_evict", node="n1") == 3
    stage.cpu = "3"
    stage.report()
    await stage.reconcile()
    assert len(stage.reported("MidEvictionDryRun")) == 2
    assert stage.metric("mid_would_evict", node="n1") == 2
    stage.cpu = "6"
    stage.report()
    await stage.reconcile()
    assert stage.metric("mid_would_evict", node="n1") == 0


async def test_dry_run_is_default() -> None:
    """Without a word about eviction in the configuration, nobody is evicted."""
    stage = Stage(*three())
    stage.eviction = {}
    await stage.lasts()
    assert stage.evicted() == []
    assert len(stage.reported("MidEvictionDryRun")) == 1


async def test_long_list_is_cut() -> None:
    """An event holds 1024 bytes: the first are named, the others counted."""
    pods = [mid(f"{'long-name-' * 6}{number:03}", 1000, age=number) for number in range(50)]
    stage = Stage(*pods, cpu="0", mode="dry-run")
    await stage.lasts()
    (note,) = stage.reported("MidEvictionDryRun")
    assert note.endswith(" and 44 more")
    assert len(note.encode()) < 1024


async def test_reaction_is_in_force() -> None:
    """A look at a node leads to the dry run's event."""
    assert any(isinstance(each, MidEvictions) for each in POST_RECONCILE_STEPS)
    world = World()
    world.has_node(node())
    world.configure('{"enable": true, "midEviction": {"afterSeconds": 0}}')
    for made in three():
        world.run.context.cluster.put_pod(PodInputs.from_object(made))
    world.reports(report())
    world.steady.now += 1
    await world.reconcile()
    world.steady.now += 1
    world.reports(report(age=5))
    await world.reconcile()
    assert "MidEvictionDryRun" in world.told()
