"""The preempt verb: the extender keeps, rewrites or leaves out kube-scheduler's proposal."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from scheduler_plugins.framework.plugin import Victims
from scheduler_plugins.plugins.capacity_scheduling import NAME, CapacityScheduling
from scheduler_plugins.preemption.handler import answer
from scheduler_plugins.preemption.selection.context import BudgetsRule
from scheduler_plugins.preemption.settings import PreemptionSettings
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.pod import QuotaPod
from scheduler_plugins.snapshot.cache import ClusterCache
from scheduler_plugins.snapshot.estimate import LoadRules
from tests.scheduler_plugins.preemption.worlds import NOW, World

NO_VICTIMS: Final = Victims(())


def preempt(world: World, pod: QuotaPod, proposed: Mapping[str, Victims], **options: Any) -> dict[str, Victims]:  # noqa: ANN401
    return answer(pod, world.cluster, NOW, proposed, **options)


def over_min() -> World:
    world = World({"gpu": 6, "other": 2}, {"a": (2, 6), "b": (4, 6)})
    world.run("a/low", "gpu", 1, priority=-5)
    world.run("a/high", "gpu", 3, priority=100)
    world.run("b/b1", "gpu", 2, priority=-5)
    world.run("a/there", "other", 0, priority=-5)
    return world


@pytest.mark.parametrize(
    ("key", "gpus", "priority", "proposed", "answered"),
    [
        ("b/b2", 1, 0, ["a/low"], ["a/low"]),  # a sufficient proposal that the rules allow is kept
        # A pod that stays within its min takes from borrowers, not from its own namespace: the victims are rewritten.
        ("b/b2", 2, 0, ["b/b1"], ["a/high"]),
        # Victims may have a higher priority, which kube-scheduler does not propose.
        ("b/b2", 2, 0, ["a/low", "b/b1"], ["a/high"]),
        ("b/b2", 1, 0, ["missing"], ["a/low"]),  # unknown pods are ignored
        # Beyond its min a pod gets nothing from another namespace; a node without other victims is left out.
        ("a/new", 1, 50, ["b/b1"], ["a/low"]),
        ("a/humble", 1, -5, ["b/b1"], None),
    ],
)
def test_proposal_is_checked(
    key: str, gpus: int, priority: int, proposed: list[str], answered: list[str] | None
) -> None:
    world = over_min()
    victims = {"gpu": Victims(tuple(proposed)), "other": NO_VICTIMS}
    expected = {} if answered is None else {"gpu": Victims(tuple(answered))}
    assert preempt(world, world.wait(key, gpus, priority), victims) == expected


def test_insufficient_quota_drops_node() -> None:
    world = World({"gpu": 6}, {"a": (2, 4)})
    world.run("a/a1", "gpu", 1)
    world.run("a/a2", "gpu", 3, priority=100)
    world.cluster.put_quota({"metadata": {"name": "q", "namespace": "spare"}, "spec": {"min": {"nvidia.com/gpu": "9"}}})

    assert preempt(world, world.wait("a/a3", 2, priority=5), {"gpu": Victims(("a/a1",))}) == {}
    assert preempt(world, world.wait("a/a4", 1, priority=5), {"gpu": Victims(("a/a1",))}) == {"gpu": Victims(("a/a1",))}


def test_proposal_without_victims() -> None:
    """Where only the quota rejected the pod, newer kube-schedulers propose no victims: the rules choose them."""
    world = World({"gpu": 10}, {"a": (4, 6), "b": (2, 6)})
    world.run("a/a1", "gpu", 4)
    world.run("a/a2", "gpu", 2)

    assert preempt(world, world.wait("b/b1", 1), {"gpu": NO_VICTIMS}) == {"gpu": Victims(("a/a2",))}


def test_other_claims_count() -> None:
    world = World({"gpu": 4, "other": 5}, {"a": (0, 4), "b": (6, 8), "c": (0, 1)})
    world.run("a/a1", "gpu", 4)
    world.run("c/c1", "other", 1)
    first = world.wait("b/first", 4, nominated="other")
    pod = world.wait("b/b1", 2)

    assert preempt(world, pod, {"gpu": NO_VICTIMS}) == {}
    world.cluster.delete_pod(first.uid)
    assert preempt(world, pod, {"gpu": NO_VICTIMS}) == {"gpu": Victims(("a/a1",))}


def test_no_victims_no_proposal() -> None:
    """A node that fits without an eviction is left out: kube-scheduler treats it as an error."""
    world = World({"gpu": 10}, {"a": (1, 6), "b": (9, 9)})
    world.run("a/a1", "gpu", 2)

    assert preempt(world, world.wait("b/b1", 1), {"gpu": NO_VICTIMS}) == {}


def test_without_a_quota() -> None:
    world = World({"gpu": 4, "quota": 2}, {"a": (0, 4)})
    world.run("a/a1", "gpu", 2, priority=-5)
    world.run("free/f1", "gpu", 1)
    world.run("free/f2", "gpu", 1, priority=3)
    world.run("a/a2", "quota", 2, priority=-5)
    pod = world.wait("free/f3", 1, priority=5)

    proposed = {"gpu": Victims(("a/a1",)), "quota": Victims(("a/a2",))}
    assert preempt(world, pod, proposed) == {"gpu": Victims(("free/f1",))}
    kept = {"gpu": Victims(("free/f2", "free/f1"), 1)}
    assert preempt(world, pod, kept) == kept


def test_budgets_hold_for_quotas() -> None:
    world = World({"gpu": 2}, {"a": (0, 4), "b": (2, 4)})
    world.run("a/a1", "gpu", 2, labels={"app": "web"})
    world.protect("a", "web")
    pod, proposed = world.wait("b/b1", 2), {"gpu": Victims(("a/a1",), 1)}

    assert preempt(world, pod, proposed) == {}
    assert preempt(world, pod, proposed, budgets_rule=BudgetsRule.COUNT) == proposed


def test_budgets_count_without_quota() -> None:
    world = World({"gpu": 2}, {})
    world.run("free/f1", "gpu", 2, labels={"app": "web"})
    world.protect("free", "web")
    proposed = {"gpu": Victims(("free/f1",), 1)}

    assert preempt(world, world.wait("free/f2", 2, priority=5), proposed) == proposed


def test_dry_run_reclaims_nothing() -> None:
    world = over_min()
    proposed = {"gpu": Victims(("a/low",))}

    assert answer(world.wait("b/b2", 1), world.cluster, NOW, proposed, reclaiming=False) == {}
    assert answer(world.wait("a/new", 1, priority=50), world.cluster, NOW, proposed, reclaiming=False) == proposed


def test_plugin_enables_reclaim() -> None:
    plugins = {
        plugin: plugin.reclaim.enabled and not plugin.reclaim.dry_run
        for plugin in (
            CapacityScheduling(),
            CapacityScheduling(reclaim=PreemptionSettings(dry_run=True)),
            CapacityScheduling(reclaim=PreemptionSettings(enabled=False)),
        )
    }
    for plugin, reclaims in plugins.items():
        cache = ClusterCache(LoadRules(), {NAME: plugin})
        world = over_min()
        cache.put_node({"metadata": {"name": "gpu"}, "status": {"allocatable": {"cpu": "8"}}})
        pod = world.wait("b/b2", 1)
        nodes, _ = cache.select(["gpu"], NOW)

        request = cache.read(pod.json or {})
        answered = plugin.post_filter(
            request, replace(nodes, plugin_states={NAME: world.cluster}), {"gpu": Victims(("a/low",))}
        )

        assert bool(answered) is reclaims


def test_held_resources_suffice() -> None:
    world = over_min()
    proposed = {"gpu": Victims(("a/low",))}
    holder = world.wait("b/b2", 1, hold=Hold("gpu", NOW + 60, ("a/low",)))
    late = world.wait("b/b3", 1, hold=Hold("gpu", NOW - 1, ("a/low",)))
    world.cluster.delete_pod(holder.uid)

    assert preempt(world, holder, proposed) == {}
    assert preempt(world, late, proposed) == proposed

    world.run("a/leaving", "gpu", 0, priority=-5, terminating=True)
    assert preempt(world, world.wait("b/b4", 1, nominated="gpu"), proposed) == {}


def test_hold_that_kube_scheduler_has_not_seen() -> None:
    world = over_min()
    pod = world.wait("b/b2", 1)
    world.wait("b/b2", 1, hold=Hold("gpu", NOW + 60, ("a/high",)))

    assert preempt(world, pod, {"gpu": Victims(("a/low",))}) == {}


def test_no_victims_while_victim_terminates() -> None:
    """kube-scheduler sends the pod again, not nominated, while its victim terminates: no other pod is evicted."""
    world = over_min()
    pod, elsewhere = world.wait("b/b2", 1), {"gpu": Victims(("a/high",))}
    assert preempt(world, pod, {"gpu": Victims(("a/low",))}) == {"gpu": Victims(("a/low",))}

    leaving = world.run("a/low", "gpu", 1, priority=-5, terminating=True)
    assert preempt(world, pod, elsewhere) == {}
    world.cluster.preemption_grants.acted_on(pod.uid, "gpu")
    assert preempt(world, pod, elsewhere) == {}
    world.cluster.delete_pod(leaving.uid)
    world.run("c/new", "gpu", 1)
    assert preempt(world, pod, elsewhere) == elsewhere


def test_cluster_without_quotas() -> None:
    """Without quotas the extender keeps the whole proposal, also pods that the watch has not delivered."""
    world = World({"gpu": 2}, {})
    pod, proposed = world.wait("free/f1", 1, priority=5), {"gpu": Victims(("missing",), 1)}

    assert preempt(world, pod, {**proposed, "other": NO_VICTIMS}) == proposed
    assert world.cluster.preemption_grants.recent(NOW) == []


def test_unknown_nodes() -> None:
    world = over_min()
    assert preempt(world, world.wait("b/b2", 1), {"missing": Victims(("a/low",))}) == {}


def test_unknown_demands_are_not_rewritten() -> None:
    world = over_min()
    pod = world.wait("b/b2", 1)
    nominations = [{"name": "claim", "resourceClaimName": "gpu-claim"}]
    demanding = {**(pod.json or {}), "spec": {**(pod.json or {})["spec"], "resourceClaims": nominations}}
    demanding_pod = QuotaPod.from_json(demanding)

    assert preempt(world, demanding_pod, {"gpu": Victims(("a/low",))}) == {"gpu": Victims(("a/low",))}
    assert preempt(world, demanding_pod, {"gpu": Victims(("b/b1",))}) == {}


def test_no_victims_for_pods_without_preemption() -> None:
    world = World({"gpu": 3}, {"a": (2, 6)})
    world.run("a/low", "gpu", 2, priority=-5)
    world.run("free/low", "gpu", 1, priority=-5)

    for namespace in ("a", "free"):
        willing, modest = world.wait(f"{namespace}/p1"), world.wait(f"{namespace}/p2", never=True)
        for proposed in (NO_VICTIMS, Victims((f"{namespace}/low",))):
            assert preempt(world, willing, {"gpu": proposed}) == {"gpu": Victims((f"{namespace}/low",))}
            assert preempt(world, modest, {"gpu": proposed}) == {}
