"""Choice of victims: the stories of the design, claims and holds, disruption budgets, and cases without victims."""

from scheduler_plugins.preemption.selection.decide import Decision, Undecided
from scheduler_plugins.preemption.selection.victims import UNRESOLVABLE
from scheduler_plugins.quota.hold import Hold
from tests.scheduler_plugins.preemption.worlds import COUNT, GPU, NOW, World


def story_1() -> World:
    world = World({"gpu": 10}, {"a": (4, 6), "b": (6, 8)})
    for name in ("a1", "a2", "a3"):
        world.run(f"a/{name}", "gpu", 2)
    world.run("b/b1", "gpu", 3)
    return world


def test_story_1_reclaims() -> None:
    world = story_1()

    decision = world.decision(world.wait("b/b2", 3))

    assert [victim.key for victim in decision.victims] == ["a/a3"]
    assert (decision.node, decision.violations) == ("gpu", 0)
    assert decision.arithmetic == "quota a/q uses 6 of min 4 (nvidia.com/gpu), quota b/q needs 3 of its min 6"


def test_story_1_stops_at_min() -> None:
    world = World({"gpu": 10}, {"a": (4, 6), "b": (6, 8)})
    for name in ("a1", "a2"):
        world.run(f"a/{name}", "gpu", 2)
    for name in ("b1", "b2"):
        world.run(f"b/{name}", "gpu", 3)

    assert "run no pod that may be evicted for it" in world.why_not(world.wait("b/b3", 1))


def test_story_2_takes_from_borrower() -> None:
    """B stays within its min: the namespace over min loses pods, C does not."""
    world = World({"gpu": 10}, {"a": (3, 4), "b": (4, 6), "c": (3, 4)})
    world.run("c/c1", "gpu", 3)
    world.run("b/b1", "gpu", 3)
    for name in ("a1", "a2"):
        world.run(f"a/{name}", "gpu", 2)

    assert world.victims(world.wait("b/b2", 1)) == {"a/a2"}


def test_story_2_takes_from_itself() -> None:
    """B exceeds its min: the victims are its own pods of lower priority, and the message names the reason."""
    world = World({"gpu": 10}, {"a": (3, 4), "b": (4, 6), "c": (3, 4)})
    world.run("a/a1", "gpu", 2)
    world.run("c/c1", "gpu", 3)
    world.run("b/podA", "gpu", 2)
    world.run("b/podB", "gpu", 3, priority=10)

    decision = world.decision(world.wait("b/podC", 1, priority=10))

    assert [victim.key for victim in decision.victims] == ["b/podA"]
    assert decision.arithmetic == (
        "quota b/q uses 5 of min 4 (nvidia.com/gpu) and needs 1 more: its own pods of lower priority than 10 go"
    )


def test_restricted_across_namespaces() -> None:
    world = World({"gpu": 1}, {"one": (0, 2), "two": (0, 2), "three": (1, 2)})
    world.run("one/nginx", "gpu", 1)

    assert "may be evicted" in world.why_not(world.wait("two/nginx", 1, priority=1_000_000))


def test_known_limitation() -> None:
    world = World({"node-1": 2, "node-2": 2}, {"quota1": (0, 2), "quota2": (2, 2)})
    world.run("quota1/nginx-1", "node-1")
    world.run("quota1/nginx-2", "node-2")

    assert world.why_not(world.wait("quota2/nginx", 2)) == (
        "no eviction helps on any of 2 nodes: 2 global quota max exceeded"
    )


def test_equal_priorities_stay() -> None:
    world = World({"gpu": 2}, {"a": (1, 4), "spare": (9, 9)})
    world.run("a/a1", "gpu", 2)

    assert world.why_not(world.wait("a/a2", 1)).startswith("no eviction helps on any of 1 nodes")


def test_preemption_policy_never() -> None:
    world = story_1()

    assert world.why_not(world.wait("b/b2", 3, never=True)) == "not eligible due to preemptionPolicy=Never."


def test_static_pods_stay() -> None:
    for namespace in ("a", "b"):  # beyond the pod's own min, and within it
        world = World({"gpu": 4}, {"a": (1, 4), "b": (3, 4)})
        world.run("a/static", "gpu", 2, priority=-5, static=True)
        world.run("a/a1", "gpu", 2, priority=-4)
        assert world.victims(world.wait(f"{namespace}/new", 2)) == {"a/a1"}

        world.cluster.delete_pod("a/a1")
        world.run("free/f1", "gpu", 2, priority=9)
        assert "run no pod that may be evicted" in world.why_not(world.wait(f"{namespace}/new", 2))


def test_waits_for_terminating_pod() -> None:
    world = story_1()
    world.run("a/a4", "gpu", 1, terminating=True)
    pod = world.wait("b/b2", 3, nominated="gpu")

    assert "terminating pod on the nominated node" in world.why_not(pod)
    assert world.victims(pod, nominated_status=UNRESOLVABLE) == {"a/a3", "a/a4"}


def test_free_node_avoids_evictions() -> None:
    world = World({"full": 2, "empty": 2}, {"a": (1, 4), "b": (4, 4)})
    world.run("a/a1", "full", 2)
    pod = world.wait("b/b1", 2)

    assert world.why_not(pod) == "node empty fits it without any eviction"
    assert world.victims(pod, nodes=["full"]) == {"a/a1"}


def test_victims_of_holds_are_excluded() -> None:
    """The next pod gets the next victim: the victims of another pod are excluded."""
    world = World({"gpu": 8}, {"a": (2, 8), "b": (6, 8)})
    for name in ("a1", "a2", "a3", "a4"):
        world.run(f"a/{name}", "gpu", 2)
    world.wait("b/b1", 2, hold=Hold("gpu", NOW + 60, ("a/a4",)))

    assert world.victims(world.wait("b/b2", 2)) == {"a/a3"}


def test_min_applies_with_holds() -> None:
    world = World({"n1": 2, "n2": 4}, {"a": (4, 6), "b": (4, 6)})
    world.run("a/a1", "n1", 2)
    for name in ("a2", "a3"):
        world.run(f"a/{name}", "n2", 2)
    first = world.wait("b/b1", 2, hold=Hold("n1", NOW + 60, ("a/a1",)))
    second = world.wait("b/b2", 2)

    assert world.why_not(second).startswith("no eviction helps")
    expired = world.cluster
    expired.delete_pod(first.uid)
    assert world.victims(second) == {"a/a3"}


def test_resources_of_hold_victims_are_free() -> None:
    world = World({"n1": 4, "n2": 4}, {"a": (0, 4), "b": (10, 10)})
    for name in ("a1", "a2"):
        world.run(f"a/{name}", "n1", 2)
    world.run("free/f1", "n2", 4)
    world.wait("b/b1", 0, hold=Hold("n2", NOW + 60, ("a/a1",)))

    assert world.victims(world.wait("b/b2", 4)) == {"a/a2"}


def test_beyond_min_others_do_not_count() -> None:
    """Beyond its min a pod does not wait for a terminating pod of another namespace: it may not use those resources."""
    world = World({"gpu": 6}, {"a": (0, 4), "b": (1, 8), "spare": (9, 9)})
    world.run("a/a1", "gpu", 2, terminating=True)
    world.run("b/b1", "gpu", 2)
    world.run("b/b2", "gpu", 2)

    assert world.victims(world.wait("b/b3", 2, priority=5, nominated="gpu")) == {"b/b2"}


def test_own_hold_is_ignored() -> None:
    world = story_1()

    assert world.victims(world.wait("b/b2", 3, hold=Hold("gpu", NOW + 60, ("a/a3",)))) == {"a/a3"}


def test_own_charge_is_ignored() -> None:
    world = story_1()
    pod = world.wait("b/b2", 3)
    world.cluster.ledger.admit(pod)

    assert world.victims(pod) == {"a/a3"}


def claimed() -> World:
    world = World({"gpu": 4, "other": 5}, {"a": (0, 4), "b": (6, 8), "c": (0, 1)})
    for name in ("a1", "a2"):
        world.run(f"a/{name}", "gpu", 2)
    world.run("c/c1", "other", 1)
    world.wait("b/first", 4, nominated="other")
    return world


def test_no_useless_eviction() -> None:
    world = claimed()
    pod = world.wait("b/b2", 2)

    assert "would still refuse it: the freed resources are reserved for others" in world.why_not(pod)


def protected(allowed: int) -> World:
    world = World({"gpu": 4}, {"a": (2, 4), "b": (2, 4)})
    world.run("a/a1", "gpu", 2, priority=5)
    world.run("a/a2", "gpu", 2, labels={"app": "web"})
    world.protect("a", "web", allowed)
    return world


def test_budget_holds() -> None:
    world = protected(0)
    pod = world.wait("b/b1", 2)
    decision = world.decide(pod, **COUNT)

    assert world.why_not(pod) == "no eviction helps on any of 1 nodes: 1 PodDisruptionBudgets protect a/a2"
    assert isinstance(decision, Decision)
    assert ([victim.key for victim in decision.victims], decision.violations) == (["a/a2"], 1)

    spare = protected(1)
    assert spare.victims(spare.wait("b/b1", 2)) == {"a/a2"}


def test_budget_spent_once() -> None:
    world = World({"gpu": 4}, {"a": (0, 4), "b": (4, 4)})
    world.run("a/small", "gpu", 1, priority=5, labels={"app": "web"})
    world.run("a/large", "gpu", 3, labels={"app": "web"})
    world.protect("a", "web", 1)
    decision = world.decision(world.wait("b/b1", 3))

    assert ([victim.key for victim in decision.victims], decision.violations) == (["a/large"], 0)


def test_two_budgets_protect() -> None:
    """The Eviction API evicts no pod that two budgets select, whatever they allow."""
    world = protected(5)
    world.protect("a", "web", 5, name="second")
    pod = world.wait("b/b1", 2)

    assert "PodDisruptionBudgets protect a/a2" in world.why_not(pod)
    assert world.victims(pod, **COUNT) == {"a/a2"}


def test_budget_with_empty_selector() -> None:
    """To the Eviction API an empty selector selects every pod with labels, a missing one selects none."""
    for selector, holds in (({}, True), ({"matchLabels": {}}, True), (None, False)):
        world = protected(5)
        metadata = {"name": "all", "namespace": "a"}
        status = {"disruptionsAllowed": 0}
        world.cluster.put_budget({"metadata": metadata, "spec": {"selector": selector}, "status": status})
        world.cluster.delete_budget("a/budget")
        pod = world.wait("b/b1", 2)

        assert isinstance(world.decide(pod), Undecided) is holds
        assert world.decision(pod, **COUNT).violations == 0  # kube-scheduler does not count it


def test_terminating_victims_need_no_budget() -> None:
    world = World({"gpu": 4}, {"a": (2, 4), "b": (2, 4)})
    world.run("a/a1", "gpu", 2, priority=5)
    world.run("a/a2", "gpu", 2, labels={"app": "web"}, terminating=True)
    world.protect("a", "web", 0)

    assert world.victims(world.wait("b/b1", 2)) == {"a/a2"}


def test_pod_without_quota_spares_quotas() -> None:
    world = World({"gpu": 4}, {"a": (0, 4)})
    world.run("a/a1", "gpu", 2, priority=-5)
    world.run("free/f1", "gpu", 1)
    world.run("other/o1", "gpu", 1, priority=7)

    decision = world.decision(world.wait("free/f2", 1, priority=5))

    assert [victim.key for victim in decision.victims] == ["free/f1"]
    assert decision.arithmetic.startswith("no quota in namespace free")
    assert isinstance(world.decide(world.wait("free/f3", 3, priority=5)), Undecided)


def test_reasons_are_counted() -> None:
    nodes = {f"n{index:02}": 1 for index in range(30)}
    world = World(nodes, {"a": (0, 30), "b": (30, 30)})
    for name in nodes:
        world.run(f"a/{name}", name, 1)

    decision = world.decide(world.wait("b/b1", 2))

    assert isinstance(decision, Undecided)
    assert decision.reason == "no eviction helps on any of 30 nodes: 30 Insufficient nvidia.com/gpu"
    assert dict(decision.rejected) == dict.fromkeys(nodes, "Insufficient nvidia.com/gpu")


def test_message_names_short_resources() -> None:
    world = World({"gpu": 4}, {"a": (2, 8)})
    spec = {"min": {"cpu": "4", "nvidia.com/gpu": "2"}, "max": {"cpu": "8"}}
    world.cluster.put_quota({"metadata": {"name": "q", "namespace": "b"}, "spec": spec})
    for index in range(2):
        world.run(f"a/a{index}", "gpu", 2, cpu="500m")
    decision = world.decision(world.wait("b/b1", 2, cpu="1500m"))

    assert decision.arithmetic == "quota a/q uses 4 of min 2 (nvidia.com/gpu), quota b/q needs 2 of its min 2"


def test_message_names_further_needs() -> None:
    world = World({"gpu": 4}, {"a": (0, 8)})
    spec = {"min": {"cpu": "1000", "nvidia.com/gpu": "4"}}
    world.cluster.put_quota({"metadata": {"name": "q", "namespace": "b"}, "spec": spec})
    world.run("a/a1", "gpu", 1, cpu="999500m")
    decision = world.decision(world.wait("b/b1", 0, cpu="1500m"))

    assert decision.arithmetic == "quota a/q uses 999500m of min 0 (cpu), quota b/q needs 1500m of its min 1000"


def test_message_is_short() -> None:
    teams = [f"t{index}" for index in range(6)]
    world = World({"gpu": 6}, {**dict.fromkeys(teams, (0, 2)), "b": (6, 6)})
    for team in teams:
        world.run(f"{team}/pod", "gpu", 1)
    decision = world.decision(world.wait("b/b1", 6))

    assert decision.arithmetic == (
        "quota t0/q uses 1 of min 0 (nvidia.com/gpu), quota t1/q uses 1 of min 0 (nvidia.com/gpu), "
        "quota t2/q uses 1 of min 0 (nvidia.com/gpu), 3 further quotas use more than their min, "
        "quota b/q needs 6 of its min 6"
    )


def test_unstated_resource_is_no_reason() -> None:
    """Devices that Dynamic Resource Allocation provides are for kube-scheduler alone: quotas and cpu decide here."""
    world = World({"node": 0}, {"a": (0, 6), "b": (6, 8)})
    world.run("a/a1", "node", 0, cpu="600")
    world.run("a/a2", "node", 0, cpu="400")
    for namespace, least in (("a", "500"), ("b", "500")):
        spec = {"min": {"cpu": least}, "max": {GPU: "8"}}
        world.cluster.put_quota({"metadata": {"name": "q", "namespace": namespace}, "spec": spec})

    assert world.victims(world.wait("b/new", 2, cpu="300")) == {"a/a2"}
