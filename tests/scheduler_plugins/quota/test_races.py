"""No namespace ever exceeds its max, and all together never exceed the sum of min, in any order of events."""

import random
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import strategies as st

from scheduler_plugins.extender.service import Mode
from scheduler_plugins.extender.wire import Arguments
from scheduler_plugins.framework.cycle import Cycle, PluginError
from scheduler_plugins.quota.amounts import NOTHING, UNLIMITED, Amounts, amounts_of, plus
from scheduler_plugins.quota.hold import Hold
from scheduler_plugins.quota.pod import QuotaPod
from tests.fuzz.strength import fuzz
from tests.scheduler_plugins.objects import NOW, Json
from tests.scheduler_plugins.quota.objects import GPU, miscounted, pod, quota
from tests.scheduler_plugins.quota.world import NODES, World

QUOTAS = {
    "a": quota("a", {"cpu": 4, GPU: 2}, {"cpu": 6, GPU: 3}),
    "b": quota("b", {"cpu": 6, GPU: 2}, {"cpu": 8}),
}
STEPS = 120


def _used(pods: Iterable[Json]) -> dict[str, Amounts]:
    used: dict[str, Amounts] = {}
    for item in pods:
        namespace = item["metadata"]["namespace"]
        for container in item["spec"]["containers"]:
            used[namespace] = plus(used.get(namespace, NOTHING), amounts_of(container["resources"]["requests"]))
    return used


def _within(world: World) -> None:
    used = _used(world.bound())
    total: Amounts = NOTHING
    for namespace, each in QUOTAS.items():
        total = plus(total, used.get(namespace, NOTHING))
        for name, most in amounts_of(each["spec"]["max"]).items():
            assert used.get(namespace, NOTHING).get(name, 0) <= most, (namespace, name)
    least = plus(*(amounts_of(quota["spec"]["min"]) for quota in QUOTAS.values()))
    assert all(amount <= least.get(name, 0) for name, amount in total.items())
    _sound(world)


def _sound(world: World) -> None:
    cluster = world.run.cluster
    ledger = cluster.ledger
    assert not miscounted(ledger, cluster.pods.values())
    charged: dict[str, Amounts] = {}
    for uid in {*cluster.pods, *ledger.tentative, *world.pods}:
        charge = ledger.charge_of(uid)
        if charge is not None:
            charged[charge.namespace] = plus(charged.get(charge.namespace, NOTHING), charge.amounts)
    namespaces = {*charged, *QUOTAS}
    for namespace in namespaces:
        assert _same(ledger.used(namespace), charged.get(namespace, NOTHING))
    total: Amounts = NOTHING
    for namespace in QUOTAS:
        total = plus(total, charged.get(namespace, NOTHING))
    assert _same(ledger.total_used, total)


def _same(left: Mapping[str, int], right: Mapping[str, int]) -> bool:
    return all(left.get(name, 0) == right.get(name, 0) for name in {*left, *right})


def _create(world: World, number: int) -> None:
    lot = world.lot
    requests = {"cpu": lot.choice(["500m", "1", "2", "3"])}
    if lot.random() < 0.4:
        requests[GPU] = lot.choice(["0", "1", "2"])
    hold = None
    if lot.random() < 0.2:
        there = [item["metadata"]["uid"] for item in world.bound()]
        victims = lot.sample(there, lot.randint(0, min(len(there), 2)))
        hold = Hold(lot.choice(NODES), NOW + world.now + lot.choice([-1, 5, 100]), tuple(victims))
    created = pod(
        f"p{number}",
        lot.choice(["a", "a", "b", "b", "c"]),
        requests,
        priority=lot.choice([0, 5]),
        nominated=lot.choice(["", "", "", "n1", "nowhere"]),
        hold=hold,
        schedulerName="headroom-scheduler",
    )
    if lot.random() < 0.3:  # a user may write this to the user's own pod
        annotations = created["metadata"].setdefault("annotations", {})
        annotations[lot.choice(["scheduling.koordinator.sh/reserve-pod", "kubernetes.io/config.mirror"])] = "true"
        created["metadata"]["labels"] = {"koordinator.sh/priority-class": "koord-free"}
    world.put(created)


def _some(world: World, number: int) -> None:
    lot, pending, in_flight = world.lot, world.pending(), list(world.in_flight)
    what = lot.random()
    if what < 0.15:
        _create(world, number)
    elif what < 0.5 and pending:
        candidate = lot.choice(pending)
        if not world.admits(candidate) and lot.random() < 0.3:
            world.refuse(candidate)
    elif what < 0.62 and in_flight:
        world.bind(lot.choice(in_flight))
    elif what < 0.72 and in_flight:
        world.give_up(lot.choice(in_flight))
    elif what < 0.78 and world.pods:
        world.remove(lot.choice(list(world.pods)))
    elif what < 0.9:
        world.deliver(lot.randint(0, 4))
    elif what < 0.95:
        world.wait(lot.choice([0.2, 0.2, 1, 5, 40, 700]))
    elif what < 0.975:
        world.relist()
    else:
        world.restart()


@fuzz(seed=st.integers(0, 2**32), mode=st.sampled_from(Mode))
def test_bounds_hold_in_any_order(seed: int, mode: Mode) -> None:
    world = World(random.Random(seed), QUOTAS, mode)  # noqa: S311 - a repeatable test
    for number in range(STEPS):
        _some(world, number)
        _within(world)


@fuzz(seed=st.integers(0, 2**32))
def test_nothing_stays_charged(seed: int) -> None:
    world = World(random.Random(seed), QUOTAS)  # noqa: S311 - a repeatable test
    for number in range(STEPS):
        _some(world, number)
    for uid in list(world.in_flight):
        world.give_up(uid)
    world.wait(1000)
    world.run.cache.freeze(NOW + world.now)
    cluster = world.run.cluster
    assert not cluster.ledger.tentative
    assert not cluster.unconfirmed
    for uid in [uid for uid in world.pending() if not world.pods[uid]["status"].get("nominatedNodeName")]:
        assert world.admits(uid) == _fits(world, uid)
        world.in_flight.pop(uid, None)
        world.run.cache.release(uid)


def _fits(world: World, uid: str) -> bool:
    candidate = QuotaPod.from_json(world.pods[uid])
    if candidate.namespace not in QUOTAS:
        return True
    used = _used(world.bound())
    pending = [entry for entry in map(QuotaPod.from_json, world.pods.values()) if entry.uid != uid and not entry.node]
    claims = world.run.cluster.nominations(NOW + world.now).uids  # of nominations that have not ended
    claimants = [item for item in pending if item.nominated in NODES and item.uid in claims]
    local, combined = candidate.charge, candidate.charge
    for claimant in claimants:
        least = amounts_of(QUOTAS[claimant.namespace]["spec"]["min"]) if claimant.namespace in QUOTAS else None
        if claimant.namespace == candidate.namespace:
            if claimant.priority >= candidate.priority:
                local, combined = plus(local, claimant.charge), plus(combined, claimant.charge)
        elif least is not None and not _over(used.get(claimant.namespace, NOTHING), least):
            combined = plus(combined, claimant.charge)
    most = amounts_of(QUOTAS[candidate.namespace]["spec"]["max"])
    mine = used.get(candidate.namespace, NOTHING)
    requested = [name for name, amount in candidate.charge.items() if amount]
    if any(mine.get(name, 0) + local[name] > most.get(name, UNLIMITED) for name in requested):
        return False
    total = plus(used.get("a", NOTHING), used.get("b", NOTHING))
    least = plus(*(amounts_of(quota["spec"]["min"]) for quota in QUOTAS.values()))
    return all(total.get(name, 0) + combined[name] <= least[name] for name in requested if name in least)


def _over(used: Amounts, bounds: Amounts) -> bool:
    return any(amount > bounds.get(name, 0) for name, amount in used.items())


def test_prioritize_that_fails_keeps_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-scheduler binds a pod even if its scores failed."""
    world = World(random.Random(1), QUOTAS, Mode.WEIGHTED)  # noqa: S311 - a repeatable test
    world.put(pod("first", "a", {"cpu": "4"}))
    world.deliver(1)

    def broken(*_: object) -> None:
        raise PluginError("it is broken")

    monkeypatch.setattr(Cycle, "score", broken)
    monkeypatch.setattr(world.run.extender._cycle, "ordinary", ())
    answer = world.run.extender.filter(Arguments(world.pods["uid-a-first"], list(NODES)))
    with pytest.raises(PluginError):
        world.run.extender.prioritize(Arguments(world.pods["uid-a-first"], list(answer.names)))
    assert world.run.cluster.ledger.used("a")["cpu"] == 4000


def test_nodes_that_are_not_known_yet() -> None:
    world = World(random.Random(1), QUOTAS)  # noqa: S311 - a repeatable test
    answer = world.run.extender.filter(Arguments(pod("large", "a", {"cpu": "7"}), ["n1", "new"]))
    assert not answer.names
    assert set(answer.unresolvable or ()) == {"n1", "new"}
    alone = world.run.extender.filter(Arguments(pod("large", "a", {"cpu": "7"}), ["new"]))
    assert set(alone.unresolvable or ()) == {"new"}
    assert not alone.failed
